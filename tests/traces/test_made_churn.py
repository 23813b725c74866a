"""Generated changes of routes: at the rates of the peer they were counted from, and each a change of the state before."""

from collections import Counter

import numpy as np
import pytest

from traces.churn import WITHDRAWN
from traces.made_churn import BURSTS, GAPS_S, made_churn
from traces.routes import full_table, make_routes


@pytest.fixture(scope="module")
def table():
    return full_table(1, 20_000, default=True)


def keys(churn):
    prefix = map(tuple, churn.prefix.tolist()) if churn.family == 6 else churn.prefix.tolist()
    return list(zip(prefix, churn.plen.tolist(), strict=True))


def assert_only_changes(churn, table):
    """Replays the changes: none repeats the state before, and every prefix is one of the table."""
    rows = map(tuple, table.prefix.tolist()) if table.family == 6 else table.prefix.tolist()
    state = dict(zip(zip(rows, table.plen.tolist(), strict=True), table.nexthop.tolist(), strict=True))
    for key, hop in zip(keys(churn), churn.nexthop.tolist(), strict=True):
        assert state[key] != hop
        assert hop == WITHDRAWN or 0 <= hop < len(table.nexthops)
        state[key] = hop


def test_what_was_counted_adds_up():
    assert (len(BURSTS), sum(BURSTS), len(GAPS_S), sum(GAPS_S)) == (34, 1062, 33, 896)


def test_rates_are_those_of_the_peer(table):
    seconds = 90_000
    churn = made_churn(1, table, seconds)
    assert_only_changes(churn, table)
    assert abs(churn.plen.size / seconds / (1062 / 900) - 1) < 0.05
    assert (np.diff(churn.time_ns) >= 0).all()
    assert 0 <= churn.time_ns[0] < 32e9
    assert seconds * 1e9 - 32e9 < churn.time_ns[-1] < seconds * 1e9 == churn.span_ns
    assert abs((churn.nexthop == WITHDRAWN).mean() - 0.018) < 0.005
    assert (churn.plen > 0).all(), "the default route stays"
    bursts = np.split(churn.time_ns, np.flatnonzero(np.diff(churn.time_ns) > 0.2e9) + 1)
    bursts = [burst for burst in bursts if burst.size > 20]  # of a smaller one the changes may lie apart
    assert abs(len(bursts) / seconds * (896 / 33) - 8 / 34) < 0.02
    assert all(burst[-1] - burst[0] < 0.5e9 for burst in bursts)
    counts = Counter(len(burst) for burst in bursts[1:-1])
    assert set(counts) <= set(BURSTS)
    assert counts[580] / len(bursts) == pytest.approx(1 / 8, rel=0.1)


def test_prefixes_come_again_and_in_neighbours(table):
    churn = made_churn(2, table, 900)
    assert 0.7 < len(set(keys(churn))) / churn.plen.size < 0.9
    many = made_churn(2, table, 9000)
    place = {key: i for i, key in enumerate(zip(table.prefix.tolist(), table.plen.tolist(), strict=True))}
    rows = np.array([place[key] for key in keys(many)])
    assert 0.2 < (np.diff(rows) == 1).mean() < 0.4


def test_scale_seed_and_family(table):
    once, again, twice = (
        made_churn(3, table, 9000),
        made_churn(np.random.default_rng(3), table, 9000),
        made_churn(3, table, 9000, scale=2),
    )
    assert once.text(5) == again.text(5)
    assert once.time_ns.tolist() == again.time_ns.tolist()
    assert once.nexthop.tolist() == again.nexthop.tolist()
    assert 1.9 < twice.plen.size / once.plen.size < 2.1
    assert_only_changes(twice, table)
    six = full_table(1, 1100, 6)
    churn = made_churn(3, six, 900)
    assert churn.family == 6
    assert churn.prefix.shape == (churn.plen.size, 4)
    assert_only_changes(churn, six)
    assert made_churn(1, table, 0.001).plen.size == 0


def test_a_table_with_one_next_hop_can_only_lose_and_regain_prefixes():
    table = make_routes([(10 << 24, 8, "a"), (11 << 24, 8, "a"), (0, 0, "a")])
    churn = made_churn(1, table, 900)
    assert churn.plen.size > 100
    assert_only_changes(churn, table)


@pytest.mark.parametrize(
    ("seconds", "scale", "sentence"),
    [
        (0, 1, "changes of routes need a time and a scale above 0, got 0 and 1"),
        (10, -1, "changes of routes need a time and a scale above 0, got 10 and -1"),
        (float("nan"), 1, "changes of routes need a time and a scale above 0, got nan and 1"),
        (1e9, 1, "1000000000.0 s at scale 1 are more than 20,000,000 changes; ask for less"),
    ],
)
def test_impossible_churn(table, seconds, scale, sentence):
    with pytest.raises(ValueError) as error:
        made_churn(1, table, seconds, scale=scale)
    assert str(error.value) == sentence


def test_a_table_without_prefixes_cannot_change():
    with pytest.raises(ValueError, match="need a table with prefixes other than the default route"):
        made_churn(1, make_routes([(0, 0, "a")]), 10)
