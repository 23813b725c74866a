"""The simulated memory hierarchy of one box: its state, its classes of cost, and what it refuses.

Each CPU has a DTLB (and an STLB where the page size has one), an L1 and an L2 of its own; the CPUs are kept coherent by
invalidation (MOESI, as on K8). The kernels that move lines are in sim/cache.py and sim/tlb.py; they count touches by function
and class, and counts become cycles by one multiplication with `latency_vector`, so one run serves every set of latencies.

Left out: bandwidth, prefetching, overlap of misses, the instruction side, pseudo-LRU (true LRU stands for it), shared levels and a
third level (refused).
"""

from typing import NamedTuple

import numpy as np

from models.functions import MAX_FUNCTIONS
from models.kernel import I32, I64, U8
from sim.machine import ONE, Machine

CLASSES = 12
L1, L2, MEMORY, TRANSFER = 0, 1, 2, 3
"""Where a touch found its line. Its class is 2 * place + kind (READ 0, WRITE 1)."""
UPGRADE, STLB_HIT, WALK, DMA_LINE = 8, 9, 10, 11
"""Counted beside those: a store to a line not held alone; a DTLB miss served by the STLB, by a walk; a device's write."""

CLASS_NAMES = (
    "L1 load", "L1 store", "L2 load", "L2 store", "memory load", "memory store", "transfer load", "transfer store",
    "upgrade", "STLB hit", "page walk", "DMA line",
)  # fmt: skip

PLANES = 2
"""Counts are kept apart for packets that hit, with all work that goes with no packet (0), and packets of the slow path (1)."""

SHARED, OWNED, EXCLUSIVE, MODIFIED = 0, 1, 2, 3
"""States of a line; bit 0: memory is stale, bit 1: no other CPU has a copy."""

L1_MASK, L2_MASK, PAGE_SHIFT, IS_EXCLUSIVE, HAS_STLB, STLB_MASK = range(6)
VARS = 6

CLOCK, LAST_PAGE, NEWEST = 0, 1, 2
PAGE, NEWER, OLDER = 0, 1, 2

CLEAN_VICTIMS, WRITE_BACKS, L2_STORES, L2_STORE_MISSES, LOST = range(5)
STATS = 5
"""Events that cost nobody time. Misses of L1 and L2 are not among them: they are sums of the touches' classes."""

MOST_LINES = (1 << 31) - 1


class Memory(NamedTuple):
    """State of the hierarchy. A line is a byte address / 64, below 2^31. An age is time << 8 | state << 6 | way."""

    var: I64  # int64[VARS], geometry
    cpu: I64  # int64[cpus, 3]: clock of the ages; page translated last, or -1; DTLB slot used last
    l1: I64  # int64[cpus * sets, ways], line << 2 | state, most recently used first, -1 empty
    l2_tag: I32  # int32[cpus * sets, ways], line, -1 empty
    l2_age: I64  # int64[cpus * sets, ways], age; time 0 for an empty way
    dtlb: I64  # int64[cpus, ways, 3], page or -1, and the neighbours in the ring of slots in order of use
    dtlb_slot: U8  # uint8[cpus, pages], DTLB slot of a page + 1, 0 if it has none
    stlb_tag: I32  # int32[cpus * sets, ways]; one unused row without an STLB
    stlb_age: I64  # int64[cpus * sets, ways]
    counts: I64  # int64[PLANES * MAX_FUNCTIONS, CLASSES], touches since they were last taken; row: plane * MAX_FUNCTIONS + function
    stats: I64  # int64[cpus, STATS], events since the start


def _refuse(machine: Machine) -> None:
    """ValueError for a machine that this model cannot run."""
    if len(machine.level) != 2:
        raise ValueError(f"{machine.name}: the memory model runs machines of two cache levels, this one has {len(machine.level)}")
    first, second = machine.level
    for level in machine.level:
        if level.cores_per_group != 1:
            raise ValueError(
                f"{machine.name}: level {level.level} is shared; the memory model runs only private ones (cores_per_group = 1)"
            )
        if level.replacement_policy != "LRU":
            raise ValueError(f"{machine.name}: level {level.level} uses {level.replacement_policy}; the memory model runs only LRU")
        if not (level.write_allocate and level.write_back):
            raise ValueError(
                f"{machine.name}: level {level.level} must be write_allocate and write_back; the memory model runs nothing else"
            )
    if first.load_from != second.level or first.store_to != second.level:
        raise ValueError(f"{machine.name}: level {first.level} must load_from and store_to {second.level}")
    if first.victims_to not in (None, second.level) or second.victims_to is not None:
        raise ValueError(
            f"{machine.name}: only {first.level} may send victims_to {second.level}; the memory model has no level behind it"
        )
    for kind in ("small", "large"):
        if int(getattr(machine.tlb, kind).dtlb.sets) != 1:
            raise ValueError(
                f"{machine.name}: tlb.{kind}.dtlb must be fully associative (sets = 1); the memory model runs nothing else"
            )


def _ages(rows: int, ways: int) -> I64:
    return np.tile(np.arange(ways, dtype=np.int64), (rows, 1))


def make_memory(machine: Machine, cpus: int | None = None) -> Memory:
    """Empty caches of a machine, for `cpus` CPUs (the machine's own number if None). ValueError for what the model cannot run."""
    _refuse(machine)
    if cpus is None:
        cpus = int(machine.cpus)
    if not 1 <= cpus <= int(machine.cpus):
        raise ValueError(f"{machine.name} has {int(machine.cpus)} CPUs, {cpus} cannot run on it")
    first, second = machine.level
    pages = machine.pages()
    stlb_sets, stlb_ways = (int(pages.stlb.sets), int(pages.stlb.ways)) if pages.stlb else (1, 1)
    var = np.zeros(VARS, np.int64)
    var[L1_MASK] = int(first.sets) - 1
    var[L2_MASK] = int(second.sets) - 1
    var[PAGE_SHIFT] = (int(pages.page_bytes) // int(first.cl_size)).bit_length() - 1
    var[IS_EXCLUSIVE] = first.victims_to is not None
    var[HAS_STLB] = pages.stlb is not None
    var[STLB_MASK] = stlb_sets - 1
    cpu = np.zeros((cpus, 3), np.int64)
    cpu[:, LAST_PAGE] = -1
    l2_rows, ways = cpus * int(second.sets), int(pages.dtlb.ways)
    dtlb = np.full((ways, 3), -1, np.int64)
    dtlb[:, NEWER] = np.arange(-1, ways - 1) % ways
    dtlb[:, OLDER] = np.arange(1, ways + 1) % ways
    return Memory(
        var=var,
        cpu=cpu,
        l1=np.full((cpus * int(first.sets), int(first.ways)), -1, np.int64),
        l2_tag=np.full((l2_rows, int(second.ways)), -1, np.int32),
        l2_age=_ages(l2_rows, int(second.ways)),
        dtlb=np.tile(dtlb, (cpus, 1, 1)),
        dtlb_slot=np.zeros((cpus, (MOST_LINES >> int(var[PAGE_SHIFT])) + 1), np.uint8),  # mapped by the host as it is used
        stlb_tag=np.full((cpus * stlb_sets, stlb_ways), -1, np.int32),
        stlb_age=_ages(cpus * stlb_sets, stlb_ways),
        counts=np.zeros((PLANES * MAX_FUNCTIONS, CLASSES), np.int64),
        stats=np.zeros((cpus, STATS), np.int64),
    )


def latency_vector(machine: Machine, memory_ns: float | None = None) -> I64:
    """int64[CLASSES], what one count of each class costs, 1/1024 cycle. `memory_ns` overrides the machine's memory latency."""
    first, second = machine.level
    pages = machine.pages()
    cost = np.zeros(CLASSES, np.int64)
    cost[2 * L1 : 2 * L1 + 2] = round(first.latency.value * ONE)
    cost[2 * L2 : 2 * L2 + 2] = round(second.latency.value * ONE)
    cost[2 * MEMORY : 2 * MEMORY + 2] = machine.cycles(machine.memory_ns.value if memory_ns is None else memory_ns)
    cost[2 * TRANSFER : 2 * TRANSFER + 2] = machine.cycles(machine.transfer_ns.value)
    cost[UPGRADE] = machine.cycles(machine.upgrade_ns.value)
    if pages.stlb is not None and pages.stlb.latency is not None:
        cost[STLB_HIT] = round(pages.stlb.latency.value * ONE)
    cost[WALK] = round(pages.walk_latency.value * ONE)
    return cost


def counts_by_plane(mem: Memory) -> I64:
    """View of the counts as int64[PLANES, MAX_FUNCTIONS, CLASSES]. Whoever takes counts zeroes them."""
    return mem.counts.reshape(PLANES, MAX_FUNCTIONS, CLASSES)
