"""Packet path and pricing: order of touches, packets spread over several logs, completion, slots, what make_path refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.access import (
    DROPPED,
    READ,
    USED,
    AccessLog,
    begin_batch,
    empty,
    make_log,
    record_function,
    record_kind,
    record_line,
    record_lines,
    touch,
)
from models.flow import make_batch
from models.functions import MAX_FUNCTIONS, number
from models.kernel import NIL, compiled
from models.simulated_memory import SimulatedMemory
from sim.machine import load_machine
from sim.memory import CLASS_NAMES, DTLB, counts_by_plane, cpu_words, make_memory
from sim.packet_path import HELD, OPEN, RX_NEXT, SLOTS_MADE, TX_NEXT, DefaultRow, free_slots, make_path
from sim.pricing import ROUTED, Pricing, _merge

LOOKUP, SLOW, INSERT, ENTRY = number("ip_route_input"), number("fn_trie_lookup"), number("rt_intern_hash"), number("ip_rcv")
ALLOC, XMIT, FREE = number("__alloc_skb"), number("e1000_xmit_frame"), number("kfree_skb")
ROWS = (
    DefaultRow("receive", "__alloc_skb", "write", "skb"),
    DefaultRow("forward", "ip_rcv", "read", "entry", 116),
    DefaultRow("forward", "e1000_xmit_frame", "write", "tx_desc"),
    DefaultRow("complete", "kfree_skb", "write", "entry", 4),
)


def missed_packets(path, log, cpu, first, stop, packets, found):
    """Packets whose slow path is due in a poll with the same arguments, in order, into `found`; returns how many."""
    routed = first if path.cpu[cpu, OPEN] == ROUTED else None  # an earlier log of the batch has brought its slow path
    due = [i for i in range(first, min(stop + 1, packets)) if log.miss[i] != NIL and i != routed]
    found[: len(due)] = due
    return len(due)


def pricing(cpus: int = 2, rows=ROWS) -> Pricing:
    return Pricing(make_memory(load_machine("opteron-2218"), cpus), make_path(SimulatedMemory(), cpus, rows))


def arrived(prices: Pricing, packets: int, cpu: int = 0, length: int = 60) -> None:
    batch = make_batch(packets)
    batch.packets[0] = packets
    batch.length[:] = length
    prices.arrive(batch, cpu)


def order(prices: Pricing, log: AccessLog, slow: AccessLog, first: int, stop: int, packets: int) -> list[tuple[int, int]]:
    """(function, plane) of what poll would price, in order; advances the path's state as poll does."""
    n = int(_merge(prices.path, log, slow, 0, first, stop, packets))
    functions = [int(record_function(int(record))) for record in prices.path.todo[:n]]
    return [(f % MAX_FUNCTIONS, f // MAX_FUNCTIONS) for f in functions]


def test_a_miss_takes_the_slow_path_between_lookup_and_insert():
    prices, log, slow = pricing(), make_log(20, 2), make_log(20, 2)
    begin_batch(log, 2)
    touch(log, READ, LOOKUP, 0)
    log.end[0], log.answer[0], log.entry[0] = 1, 7, 4096
    touch(log, READ, LOOKUP, 64)
    log.miss[1] = 2
    touch(log, READ, INSERT, 128)
    log.end[1], log.answer[1], log.entry[1] = 3, 7, 8192
    touch(slow, READ, SLOW, 256)
    slow.end[0] = 1
    hit = [(ALLOC, 0), (LOOKUP, 0), (ENTRY, 0), (XMIT, 0)]
    miss = [(ALLOC, 1), (LOOKUP, 1), (SLOW, 1), (INSERT, 1), (ENTRY, 1), (XMIT, 1)]
    assert order(prices, log, slow, 0, 2, 2) == hit + miss
    lines = [int(record_line(int(record))) for record in prices.path.todo[:10]]
    assert lines[2] == (4096 + 116) // 64
    assert lines[8] == (8192 + 116) // 64


def test_a_packet_without_entry_skips_the_entry_rows_and_a_dropped_one_is_not_transmitted():
    prices, log, slow = pricing(), make_log(4, 2), make_log(4, 2)
    begin_batch(log, 2)
    log.answer[0] = 5
    log.answer[1] = DROPPED
    assert order(prices, log, slow, 0, 2, 2) == [(ALLOC, 0), (XMIT, 0), (ALLOC, 0)]
    assert prices.path.cpu[0, TX_NEXT] == 1
    assert prices.path.cpu[0, RX_NEXT] == 2
    assert len(free_slots(prices.path)) == prices.path.var[SLOTS_MADE] - 1


def plan(rng: np.random.Generator, packets: int) -> list[tuple[list[int], list[int] | None, list[int]]]:
    """Packets as (lookup addresses, slow-path addresses or None for a hit, insert addresses)."""

    def some(most: int) -> list[int]:
        return (rng.integers(0, 400, int(rng.integers(most + 1))) * 64 + (1 << 28)).tolist()

    return [(some(4), some(5), some(3)) if rng.random() < 0.4 else (some(4), None, []) for _ in range(packets)]


def run(packets, cuts: set[int]) -> tuple[np.ndarray, np.ndarray]:
    """Price a batch whose log is handed over after every record number in `cuts` and, for a number below 0, right after that
    packet's lookup. Returns counts and the memory's statistics."""
    prices = pricing(1, ())
    n = len(packets)
    arrived(prices, n)
    log, slow, found = make_log(400, n), make_log(400, n + 1), np.zeros(n + 1, np.int64)
    begin_batch(log, n)
    first, written = 0, 0

    def hand_over(at: int) -> None:
        nonlocal first
        empty(slow)
        for k in range(int(missed_packets(prices.path, log, 0, first, at, n, found))):
            for address in packets[int(found[k])][1]:
                touch(slow, READ, SLOW, address)
            slow.end[k] = slow.head[USED]
        prices.poll(log, slow, 0, first, at, n)
        empty(log)
        first = at

    for i, (lookup, route, insert) in enumerate(packets):
        for part, addresses in ((LOOKUP, lookup), (INSERT, insert)):
            for address in addresses:
                touch(log, READ, part, address)
                written += 1
                if written in cuts:
                    hand_over(i)
            if part == LOOKUP and route is not None:
                log.miss[i] = log.head[USED]
                if -i - 1 in cuts:
                    hand_over(i)
        log.end[i], log.answer[i], log.entry[i] = log.head[USED], 1, (1 << 27) + 256 * i
    hand_over(n)
    prices.complete(0, 0, n)
    return counts_by_plane(prices.memory).copy(), cpu_words(prices.memory)[:, :DTLB].copy()


@settings(max_examples=60 if compiled() else 8, deadline=None)
@given(st.integers(0, 10_000), st.sets(st.integers(-12, 60), max_size=8))
def test_cutting_the_log_anywhere_changes_no_count(seed, cuts):
    packets = plan(np.random.default_rng(seed), 12)
    whole, stats = run(packets, set())
    cut, cut_stats = run(packets, cuts)
    # A packet that was cut before its miss was known is counted in the plane of the hits until then.
    assert np.array_equal(whole.sum(0), cut.sum(0))
    assert np.array_equal(stats, cut_stats)


def test_an_open_packet_is_received_once_and_routed_once():
    prices, log, slow = pricing(), make_log(8, 1), make_log(8, 1)
    begin_batch(log, 1)
    touch(log, READ, LOOKUP, 0)
    assert order(prices, log, slow, 0, 0, 1) == [(ALLOC, 0), (LOOKUP, 0)]
    empty(log)
    log.miss[0] = 0
    touch(slow, READ, SLOW, 0)
    slow.end[0] = 1
    found = np.zeros(2, np.int64)
    assert missed_packets(prices.path, log, 0, 0, 0, 1, found) == 1
    assert order(prices, log, slow, 0, 0, 1) == [(SLOW, 1)]
    assert missed_packets(prices.path, log, 0, 0, 0, 1, found) == 0
    empty(log)
    touch(log, READ, INSERT, 0)
    log.end[0], log.answer[0] = 1, 3
    assert order(prices, log, slow, 0, 1, 1) == [(INSERT, 1), (XMIT, 1)]
    assert prices.path.cpu[0, OPEN] == 0


def test_the_card_takes_descriptor_and_frame_out_of_the_caches():
    prices = pricing(1, ())
    log, slow = make_log(2, 8), make_log(2, 8)
    for _ in range(2):  # the second time round the ring position differs, so go round the whole ring
        for _ in range(256 // 8):
            arrived(prices, 8)
            begin_batch(log, 8)
            log.answer[:] = 1
            prices.poll(log, slow, 0, 0, 8, 8)
            prices.complete(0, 0, 8)
        counts = counts_by_plane(prices.memory).sum(0)
        rx = {CLASS_NAMES[c]: int(n) for c, n in enumerate(counts[number("e1000_clean_rx_irq")]) if n}
        prices.memory.counts[:] = 0
    # 256 packets: every frame comes from memory, and one descriptor in four, as eight arrive at a time and four share a line.
    assert rx["memory load"] == 256 + 64
    assert rx["L1 load"] == 192
    assert rx["DMA line"] == 512


def test_long_frames_are_read_whole_below_the_copybreak_only():
    for length, lines in ((60, 1), (62, 1), (63, 2), (255, 5), (256, 1), (1514, 1)):
        prices, log, slow = (
            pricing(1, (DefaultRow("receive", "e1000_clean_rx_irq", "read", "frame", 2),)),
            make_log(1, 1),
            make_log(1, 1),
        )
        arrived(prices, 1, length=length)
        begin_batch(log, 1)
        _merge(prices.path, log, slow, 0, 0, 1, 1)
        record = int(prices.path.todo[0])
        assert (record_lines(record), record_kind(record)) == (lines, READ), length


@pytest.mark.parametrize("other", [False, True])
def test_completion_on_the_other_cpu_moves_lines_and_slots(other):
    prices = pricing(2, ())
    log, slow = make_log(2, 60), make_log(2, 60)
    for _ in range(12):
        arrived(prices, 60)
        begin_batch(log, 60)
        log.answer[:] = 1
        log.entry[:] = 1 << 27
        prices.poll(log, slow, 0, 0, 60, 60)
        assert prices.complete(1 if other else 0, 0, 100) == 60
    counts = counts_by_plane(prices.memory).sum((0, 1))
    transfers = int(counts[CLASS_NAMES.index("transfer load")] + counts[CLASS_NAMES.index("transfer store")])
    assert (transfers > 0) == other
    free = free_slots(prices.path)
    assert sorted(free) == list(range(int(prices.path.var[SLOTS_MADE])))
    assert int(prices.path.cpu[1, HELD]) == (120 if other else 0)
    assert int(prices.path.var[SLOTS_MADE]) == (180 if other else 60)


def test_too_much_under_way_is_refused():
    prices = pricing()
    for _ in range(8):
        arrived(prices, 512)
    with pytest.raises(ValueError, match="more than 4096 packets"):
        arrived(prices, 1)


def test_what_nobody_completes_is_completed_before_it_is_forgotten():
    prices = pricing(1)
    log, slow = make_log(1, 512), make_log(1, 1)
    for n in range(1, 11):
        arrived(prices, 512)
        begin_batch(log, 512)
        log.answer[:] = 1
        prices.poll(log, slow, 0, 0, 512, 512)
        assert prices.untransmitted(0) == min(512 * n, 4096)
    assert len(free_slots(prices.path)) + 4096 == prices.path.var[SLOTS_MADE]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (DefaultRow("recieve", "ip_rcv", "read", "skb"), "phase must be one of receive, forward, complete, got 'recieve'"),
        (DefaultRow("receive", "ip_rcv", "load", "skb"), "kind must be one of read, write, got 'load'"),
        (DefaultRow("receive", "ip_rcv", "read", "skbb"), "object must be one of"),
        (DefaultRow("receive", "ip_rcv", "read", "entry"), "no dst entry in phase receive"),
        (DefaultRow("forward", "ip_rcv", "read", "rx_desc"), "in phase receive only"),
        (DefaultRow("receive", "ip_rcv", "read", "tx_desc"), "no tx_desc"),
        (DefaultRow("receive", "ip_recv", "read", "skb"), "no function is named 'ip_recv'"),
        (DefaultRow("receive", "ip_rcv", "read", "skb", -1), "negative"),
    ],
)
def test_wrong_rows_are_refused(row, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_path(SimulatedMemory(), 1, (row,))


def test_rows_of_the_resolve_path_are_optional():
    row = DefaultRow("forward", "eth_header", "write", "data", 0, True)
    assert make_path(SimulatedMemory(), 1, (row,)).row.shape[0] == 0
    assert make_path(SimulatedMemory(), 1, (row,), resolve_path=True).row.shape[0] == 1
