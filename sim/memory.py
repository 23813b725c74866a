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
from models.kernel import I32, I64, U8, i64, inlined
from sim.machine import ONE, Machine
from sim.recency import MOST_WAYS, fresh_order

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

CLASS_BITS = 4
"""A row of counts has room for 16 classes, so that its place is a shift away."""

CPUS, CPU_WORDS, L1_MASK, L1_WAYS, L1_AT, L2_MASK, L2_BITS, L2_WAYS, L2_AT, L2_LINES = range(10)
EXCLUSIVE_L2, PAGE_SHIFT, DTLB_WAYS, STLB_MASK = range(10, 14)
HEADER = 16
"""Words at the head of Memory.word. Masks are sets - 1 (STLB_MASK -1 without an STLB), L2_BITS the bits of a set's number; L1_AT,
L2_AT and L2_LINES say where in a CPU's words its levels begin."""

LAST_PAGE, DTLB_ORDER, CLOCK, CLEAN_VICTIMS, WRITE_BACKS, L2_STORES, L2_STORE_MISSES, LOST, DTLB = range(9)
"""Words of a CPU: the page translated last (-1: none), the DTLB's order of use, the clock of ages; events that cost nobody time
(misses of L1 and L2 are not among them: they are sums of the touches' classes); the DTLB's pages (-1: none) and, if it has more
than MOST_WAYS slots, their ages. Behind these the L1: line << 2 | state, most recently used first, -1 empty. Then the L2's sets,
and then its lines, MOST_WAYS a set, -1 empty: apart, because most searches end at the set and the host caches all sets easily."""

ORDER, STATES, SIGNATURES = 0, 1, 2
L2_SET = 4
"""Words of an L2 set: order of use; states, two bits a way, and from bit IN_USE on which ways are in use; two of signatures."""
IN_USE = 32

MOST_LINES = (1 << 31) - 1


class Memory(NamedTuple):
    """State of the hierarchy. A line is a byte address / 64, below 2^31. An age is time << 8 | slot.

    Nearly all of it is one array: what a touch needs then hangs on one register of the host, and a helper is handed one array.
    """

    word: I64  # int64[HEADER + cpus * CPU_WORDS], see above
    dtlb_slot: U8  # uint8[cpus, pages], DTLB slot of a page + 1, 0 if it has none
    stlb_tag: I32  # int32[cpus * sets, ways]; one unused row without an STLB
    stlb_age: I64  # int64[cpus * sets, ways]
    counts: I64  # int64[PLANES * MAX_FUNCTIONS << CLASS_BITS], touches not yet taken; row: plane * MAX_FUNCTIONS + function


def _refuse(machine: Machine) -> None:
    """ValueError for a machine that this model cannot run."""
    if len(machine.level) != 2:
        raise ValueError(f"{machine.name}: the memory model runs machines of two cache levels, this one has {len(machine.level)}")
    first, second = machine.level
    if int(second.ways) > MOST_WAYS:
        raise ValueError(
            f"{machine.name}: level {second.level} has {int(second.ways)} ways; the memory model runs at most {MOST_WAYS}"
        )
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
    dtlb_ways, pages_in_all = int(pages.dtlb.ways), MOST_LINES * int(first.cl_size) // int(pages.page_bytes) + 1
    l1_at = DTLB + 2 * dtlb_ways
    l2_at = l1_at + int(first.sets) * int(first.ways)
    l2_lines = l2_at + int(second.sets) * L2_SET
    one_cpu = np.full(l2_lines + int(second.sets) * MOST_WAYS, -1, np.int64)
    one_cpu[CLOCK:DTLB] = 0
    one_cpu[DTLB_ORDER] = fresh_order(min(dtlb_ways, MOST_WAYS))
    one_cpu[DTLB + dtlb_ways : l1_at] = np.arange(dtlb_ways)
    one_cpu[l2_at:l2_lines] = np.tile([fresh_order(int(second.ways)), 0, 0, 0], int(second.sets))
    head = np.zeros(HEADER, np.int64)
    head[CPUS], head[CPU_WORDS] = cpus, one_cpu.size
    head[L1_MASK], head[L1_WAYS], head[L1_AT] = int(first.sets) - 1, int(first.ways), l1_at
    head[L2_MASK], head[L2_WAYS], head[L2_AT] = int(second.sets) - 1, int(second.ways), l2_at
    head[L2_LINES] = l2_lines
    head[L2_BITS] = int(second.sets).bit_length() - 1
    head[EXCLUSIVE_L2] = first.victims_to is not None
    head[PAGE_SHIFT] = (int(pages.page_bytes) // int(first.cl_size)).bit_length() - 1
    head[DTLB_WAYS] = dtlb_ways
    head[STLB_MASK] = stlb_sets - 1 if pages.stlb else -1
    return Memory(
        word=np.concatenate([head, *[one_cpu] * cpus]),
        dtlb_slot=np.zeros((cpus, pages_in_all), np.uint8),  # mapped by the host as it is used
        stlb_tag=np.full((cpus * stlb_sets, stlb_ways), -1, np.int32),
        stlb_age=_ages(cpus * stlb_sets, stlb_ways),
        counts=np.zeros(PLANES * MAX_FUNCTIONS << CLASS_BITS, np.int64),
    )


def cpu_words(mem: Memory) -> I64:
    """View of each CPU's words as int64[cpus, CPU_WORDS]."""
    return mem.word[HEADER:].reshape(int(mem.word[CPUS]), -1)


@inlined
def cpu_base(mem: Memory, cpu: int) -> int:
    """Where the words of a CPU begin."""
    return i64(HEADER + cpu * mem.word[CPU_WORDS])


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
    return mem.counts.reshape(PLANES, MAX_FUNCTIONS, 1 << CLASS_BITS)[:, :, :CLASSES]
