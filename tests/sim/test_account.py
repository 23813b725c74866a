"""What becomes of packets, counted again in plain Python."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.access import DROPPED, make_log
from models.flow import make_batch
from models.kernel import NIL
from sim.account import (
    BUCKETS,
    COUNTED,
    ERRORS,
    HITS,
    SLOWS,
    SUM,
    WORST,
    WRONG,
    account,
    bucket_floor,
    latency_bucket,
    make_ledger,
    percentile,
)

fates = st.lists(st.sampled_from(["hit", "slow", "error", "wrong"]), min_size=1, max_size=30)


@given(fates, st.integers(0, 10**6), st.integers(0, 10**6))
def test_every_packet_is_counted_once(plan, begin, work):
    batch, log, ledger = make_batch(30), make_log(1, 30), make_ledger()
    n = batch.packets[0] = len(plan)
    batch.time[:n] = begin - np.arange(n)[::-1]
    batch.route[:n] = np.arange(n)
    log.answer[:n] = np.arange(n)
    log.miss[:n] = NIL
    for i, fate in enumerate(plan):
        if fate == "error":
            log.answer[i] = DROPPED
            log.miss[i] = 0
        elif fate == "slow":
            log.miss[i] = 0
        elif fate == "wrong":
            log.answer[i] += 1
    hits = account(ledger, batch, log, 0, n, begin, begin + work)
    total = ledger.total
    assert total[HITS] == hits == plan.count("hit") + plan.count("wrong")
    assert (total[SLOWS], total[ERRORS], total[WRONG]) == (plan.count("slow"), plan.count("error"), plan.count("wrong"))
    assert total[COUNTED] == n
    spent = [begin + work * (i + 1) // n - int(batch.time[i]) for i in range(n)]
    assert total[WORST] == max(spent)
    assert ledger.latency.sum() == n
    assert sorted(np.repeat(np.arange(BUCKETS), ledger.latency)) == sorted(latency_bucket(s) for s in spent)


@given(st.integers(0, 1 << 40))
def test_a_bucket_holds_its_latency_to_a_sixteenth(ns):
    bucket = latency_bucket(ns)
    low, high = bucket_floor(bucket), bucket_floor(bucket + 1)
    assert low <= ns < high
    assert high - low <= max(1, ns / 16)


def test_buckets_follow_each_other_and_end():
    floors = [bucket_floor(bucket) for bucket in range(BUCKETS)]
    assert floors == sorted(set(floors))
    assert [latency_bucket(floor) for floor in floors[:600]] == list(range(600))
    assert latency_bucket(-5) == 0
    assert latency_bucket(1 << 62) == BUCKETS - 1


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=50), st.sampled_from([0.01, 0.5, 0.99, 1.0]))
def test_percentiles_are_those_of_the_sorted_list(latencies, share):
    counts = np.zeros(BUCKETS, np.int64)
    for ns in latencies:
        counts[latency_bucket(ns)] += 1
    exact = sorted(latencies)[int(np.ceil(share * len(latencies))) - 1]
    assert percentile(counts, share) == pytest.approx(exact, rel=1 / 16, abs=1)


def test_no_packets_no_percentile():
    assert percentile(np.zeros(BUCKETS, np.int64), 0.5) is None


def checksum(answers):
    batch, log, ledger = make_batch(10), make_log(1, 10), make_ledger()
    log.answer[: len(answers)] = answers
    account(ledger, batch, log, 0, len(answers), 0, 0)
    return int(ledger.total[SUM])


def test_the_checksum_tells_answers_and_their_order():
    assert checksum([1, 2, 3]) == checksum([1, 2, 3])
    assert len({checksum(answers) for answers in ([1, 2, 3], [1, 3, 2], [2, 1, 3], [1, 2, 4], [1, 2], [1, 2, DROPPED])}) == 6


def test_the_checksum_does_not_depend_on_the_batches():
    answers = np.arange(10) * 7 % 5
    batch, log, whole, parts = make_batch(10), make_log(1, 10), make_ledger(), make_ledger()
    log.answer[:] = answers
    account(whole, batch, log, 0, 10, 0, 0)
    for first, stop in ((0, 1), (1, 6), (6, 10)):
        log.answer[: stop - first] = answers[first:stop]
        account(parts, batch, log, 0, stop - first, 0, 0)
    assert whole.total[SUM] == parts.total[SUM]
