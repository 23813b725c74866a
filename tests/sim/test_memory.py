"""The memory model against its plain-Python twin and against pycachesim, and small cases worked out by hand."""

import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.access import DMA, READ, WRITE, call, make_log, touch, touch_range
from models.functions import MAX_FUNCTIONS
from models.kernel import compiled
from models.simulated_memory import SimulatedMemory
from sim.machine import Machine, Number, Tlb, TlbLevel, load_machine
from sim.memory import (
    CLASS_NAMES,
    CLEAN_VICTIMS,
    L1_AT,
    L2_AT,
    L2_LINES,
    L2_SET,
    L2_STORE_MISSES,
    L2_STORES,
    LOST,
    STATES,
    UPGRADE,
    WALK,
    WRITE_BACKS,
    Memory,
    counts_by_plane,
    cpu_words,
    latency_vector,
    make_memory,
)
from sim.packet_path import make_path
from sim.pricing import Pricing
from sim.recency import MOST_WAYS

sys.path.insert(0, str(Path(__file__).parents[1] / "oracles"))
from memory_twin import Level, Twin

NAMES = "SOEM"
SIZES = {"tiny": ((2, 2), (2, 3)), "odd": ((4, 1), (8, 2)), "wide": ((1, 4), (2, 8)), "full": ((2, 2), (2, 16))}
LINES = {"tiny": 24, "odd": 24, "wide": 24, "full": 60}
SPREAD = {"tiny": 1, "odd": 1, "wide": 1, "full": 37}
"""Lines are so far apart: "full" draws lines whose tags agree in the eight bits that a search compares first."""


def number(value: float) -> Number:
    return Number(value, "test")


def machine(l1=(2, 2), l2=(2, 3), *, exclusive=True, dtlb=2, stlb=None, page_lines=4) -> Machine:
    """The Opteron shrunk to a few sets, small pages."""
    base = load_machine("opteron-2218")
    replace = msgspec.structs.replace
    first, second = (replace(level, sets=number(s), ways=number(w)) for level, (s, w) in zip(base.level, (l1, l2), strict=True))
    if not exclusive:
        first = replace(first, victims_to=None)
    tlb = Tlb(
        page_bytes=number(page_lines * 64),
        dtlb=TlbLevel(sets=number(1), ways=number(dtlb)),
        walk_latency=number(20),
        stlb=TlbLevel(sets=number(stlb[0]), ways=number(stlb[1]), latency=number(4)) if stlb else None,
    )
    # Pages this small need a map of 2^29 entries per CPU: mapped by the host as it is used.
    return replace(base, level=[first, second], page_kind="small", tlb=replace(base.tlb, small=tlb))


def pricing(of: Machine, cpus: int) -> Pricing:
    return Pricing(make_memory(of, cpus), make_path(SimulatedMemory(), cpus))


def play(prices: Pricing, cpu: int, touches) -> None:
    """Price touches (line, kind, function) of one CPU."""
    log = make_log(len(touches) + 1, 1)
    for line, kind, function in touches:
        touch(log, kind, function, line * 64)
    prices.records(log, cpu)


def counted(mem: Memory) -> dict[tuple[int, str], int]:
    both = counts_by_plane(mem).sum(0)
    return {(int(f), CLASS_NAMES[c]): int(both[f, c]) for f, c in np.argwhere(both)}


def content(mem: Memory, cpu: int) -> tuple[dict[int, str], dict[int, str]]:
    """What L1 and L2 of a CPU hold: line -> state."""
    words, head = cpu_words(mem)[cpu], mem.word
    l1 = words[head[L1_AT] : head[L2_AT]]
    sets = words[head[L2_AT] : head[L2_LINES]].reshape(-1, L2_SET)
    lines = words[head[L2_LINES] :].reshape(-1, MOST_WAYS)
    return (
        {int(word) >> 2: NAMES[int(word) & 3] for word in l1 if word >= 0},
        {int(lines[s, w]): NAMES[int(sets[s, STATES]) >> 2 * w & 3] for s, w in np.argwhere(lines >= 0)},
    )


@pytest.mark.parametrize("cpus", [1, 2])
@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtlb", "stlb"), [(2, None), (2, (2, 2)), (17, None)])
def test_equals_the_twin_in_counts_and_contents(cpus, exclusive, size, dtlb, stlb):
    steps = 3000 if compiled() else 250
    rng = np.random.default_rng([cpus, exclusive, list(SIZES).index(size)])
    l1, l2 = SIZES[size]
    of = machine(l1, l2, exclusive=exclusive, dtlb=dtlb, stlb=stlb)
    prices, twin = pricing(of, cpus), Twin(cpus, l1, l2, exclusive, dtlb, stlb, 4)
    for _ in range(steps // 50):
        cpu = int(rng.integers(cpus))
        part = []
        for _ in range(50):
            line, kind, function = (
                int(rng.integers(LINES[size])) * SPREAD[size],
                int(rng.choice([READ, READ, WRITE, DMA], p=[0.3, 0.3, 0.35, 0.05])),
                int(rng.integers(3)),
            )
            part.append((line, kind, function))
            if kind == DMA:
                twin.device_write(line, function)
            else:
                twin.touch(cpu, line, kind == WRITE, function)
        play(prices, cpu, part)
        mem = prices.memory
        assert counted(mem) == dict(twin.counts)
        for n in range(cpus):
            assert content(mem, n) == (twin.l1[n].content(), twin.l2[n].content())
        assert int(cpu_words(mem)[:, WRITE_BACKS].sum()) == twin.write_backs


@settings(max_examples=60 if compiled() else 10, deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 11), st.sampled_from([READ, WRITE, DMA])), max_size=40),
)
def test_equals_the_twin_on_any_short_trace(exclusive, trace):
    prices, twin = pricing(machine(exclusive=exclusive), 2), Twin(2, (2, 2), (2, 3), exclusive, 2, None, 4)
    for cpu, line, kind in trace:
        play(prices, cpu, [(line, kind, 1)])
        if kind == DMA:
            twin.device_write(line, 1)
        else:
            twin.touch(cpu, line, kind == WRITE, 1)
    assert counted(prices.memory) == dict(twin.counts)
    for cpu in range(2):
        assert content(prices.memory, cpu) == (twin.l1[cpu].content(), twin.l2[cpu].content())


def test_twin_level_is_lru():
    level = Level(1, 2)
    assert level.insert(1, "E") is None
    assert level.insert(2, "E") is None
    level.of(1).move_to_end(1)
    assert level.insert(3, "E") == (2, "E")


@pytest.mark.parametrize("seed", range(3))
def test_equals_pycachesim_on_a_hierarchy_that_is_not_exclusive(seed):
    cachesim = pytest.importorskip("cachesim")
    l1, l2 = (8, 2), (16, 4)
    steps = 20_000 if compiled() else 1500
    rng = np.random.default_rng(seed)
    lines = rng.integers(0, 200, steps)
    writes = rng.random(steps) < 0.3
    main = cachesim.MainMemory()
    second = cachesim.Cache("L2", *l2, 64, "LRU")
    first = cachesim.Cache("L1", *l1, 64, "LRU", store_to=second, load_from=second)
    main.load_to(second)
    main.store_from(second)
    simulator = cachesim.CacheSimulator(first, main)
    for line, write in zip(lines.tolist(), writes.tolist(), strict=True):
        simulator.load(line * 64, 8)
        if write:  # a store that hits does not count as a use in pycachesim, so both sides read before they write
            simulator.store(line * 64, 8)
    prices = pricing(machine(l1, l2, exclusive=False), 1)
    play(
        prices,
        0,
        [(line, kind, 1) for line, write in zip(lines.tolist(), writes.tolist(), strict=True) for kind in range(1 + write)],
    )
    stats, classes = cpu_words(prices.memory)[0], counts_by_plane(prices.memory).sum((0, 1))
    assert int(classes[2:8].sum()) == first.stats()["MISS_count"]
    assert int(classes[4:8].sum() + stats[L2_STORE_MISSES]) == second.stats()["MISS_count"]
    assert int(classes[2:4].sum()) == second.stats()["HIT_count"]
    assert int(stats[L2_STORES]) == second.stats()["STORE_count"]
    assert int(stats[WRITE_BACKS]) == main.stats()["STORE_count"]


def test_lines_brought_in_are_held_or_evicted_or_lost():
    rng = np.random.default_rng(5)
    prices = pricing(machine(), 2)
    for n in range(20):
        play(prices, n & 1, [(int(rng.integers(40)), int(rng.integers(2)), int(rng.integers(4))) for _ in range(30)])
        classes, stats = counts_by_plane(prices.memory).sum((0, 1)), cpu_words(prices.memory).sum(0)
        assert classes[:8].sum() == 30 * (n + 1)
        held = sum(len(level) for cpu in range(2) for level in content(prices.memory, cpu))
        assert classes[4:8].sum() == held + stats[CLEAN_VICTIMS] + stats[WRITE_BACKS] + stats[LOST]


def test_exclusive_l2_takes_the_oldest_line_of_l1():
    # One set of L1 (2 ways) and L2 (3 ways): lines 0, 2, 4 share it. 0 and 2 fill L1, 4 pushes 0 down, 0 comes back up from L2.
    prices = pricing(machine(), 1)
    play(prices, 0, [(0, WRITE, 1), (2, READ, 1), (4, READ, 1), (0, READ, 1)])
    assert counted(prices.memory) == {(1, "memory store"): 1, (1, "memory load"): 2, (1, "L2 load"): 1, (1, "page walk"): 2}
    assert content(prices.memory, 0) == ({4: "E", 0: "M"}, {2: "E"})


def test_a_modified_line_moves_to_the_cpu_that_reads_it_and_back():
    prices = pricing(machine(), 2)
    play(prices, 0, [(0, WRITE, 1)])
    play(prices, 1, [(0, READ, 2)])  # CPU 0 stays owner
    assert content(prices.memory, 0)[0] == {0: "O"}
    assert content(prices.memory, 1)[0] == {0: "S"}
    play(prices, 0, [(0, WRITE, 3)])  # an upgrade, and CPU 1 loses its copy
    assert content(prices.memory, 1)[0] == {}
    play(prices, 1, [(0, WRITE, 4)])
    found = counted(prices.memory)
    assert found[2, "transfer load"] == found[3, "upgrade"] == found[3, "L1 store"] == found[4, "transfer store"] == 1
    assert content(prices.memory, 0)[0] == {}


def test_a_device_takes_the_line_from_every_cpu():
    prices = pricing(machine(), 2)
    play(prices, 0, [(0, READ, 1)])
    play(prices, 1, [(0, READ, 1)])
    play(prices, 1, [(0, DMA, 5)])
    assert content(prices.memory, 0) == content(prices.memory, 1) == ({}, {})
    assert counted(prices.memory)[5, "DMA line"] == 1


def test_dtlb_of_the_opteron_holds_eight_large_pages():
    prices = pricing(load_machine("opteron-2218"), 1)
    pages = [(page << 16, READ, 1) for page in range(9)]
    play(prices, 0, pages[:8] + pages[:8])
    assert counted(prices.memory)[1, "page walk"] == 8
    play(prices, 0, pages + pages)  # nine pages in turn defeat LRU: page 8 and then each one before it is needed
    assert counted(prices.memory)[1, "page walk"] == 8 + 1 + 9


def test_a_range_is_the_same_as_its_lines():
    one, many = pricing(machine(), 1), pricing(machine(), 1)
    log = make_log(4, 1)
    touch_range(log, READ, 1, 64 * 3, 64 * 30)
    call(log, 1, 1)
    one.records(log, 0)
    play(many, 0, [(line, READ, 1) for line in range(3, 33)])
    assert counted(one.memory) == counted(many.memory)
    assert content(one.memory, 0) == content(many.memory, 0)


def test_latencies_are_cycles_of_1024_parts():
    opteron = load_machine("opteron-2218")
    cost = latency_vector(opteron)
    assert cost[:6].tolist() == [3 * 1024] * 2 + [17 * 1024] * 2 + [156 * 1024] * 2
    assert latency_vector(opteron, memory_ns=80.0)[4] == 208 * 1024
    assert cost[UPGRADE] > 0
    assert cost[WALK] == 20 * 1024


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cores_per_group": number(2)}, "shared"),
        ({"replacement_policy": "FIFO"}, "only LRU"),
        ({"write_back": False}, "write_back"),
        ({"load_from": None}, "load_from"),
    ],
)
def test_what_the_model_cannot_run_is_refused(change, sentence):
    base = machine()
    if "cores_per_group" in change:
        change = {"cores_per_group": 2}
    first = msgspec.structs.replace(base.level[0], **change)
    with pytest.raises(ValueError, match=sentence):
        make_memory(msgspec.structs.replace(base, level=[first, base.level[1]]))


def test_a_third_level_is_refused():
    base = machine()
    with pytest.raises(ValueError, match="two cache levels, this one has 3"):
        make_memory(msgspec.structs.replace(base, level=[*base.level, base.level[1]]))


def test_counts_have_a_row_for_every_function_in_both_planes():
    assert counts_by_plane(make_memory(machine(), 1)).shape == (2, MAX_FUNCTIONS, len(CLASS_NAMES))


def test_a_second_level_of_more_ways_than_an_order_word_holds_is_refused():
    with pytest.raises(ValueError, match="level L2 has 17 ways; the memory model runs at most 16"):
        make_memory(machine(l2=(2, 17)))
