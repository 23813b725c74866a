"""The movement of cache lines: L1, L2 and the other CPUs' copies, for one touch at a time.

Exclusive L2 (K8: the L1's victims_to): a hit moves the line up and out of L2, every L1 victim moves down as the newest, so LRU is
the order of insertion. Otherwise a load fills both levels, and only a modified L1 victim is stored to L2 (the conventions of
pycachesim and kerncraft: load first, then evict; a write-back is no use of the line).

Coherence follows MOESI: a store needs the line alone. A miss probes the other CPUs; a modified copy answers in place of memory
(TRANSFER) and stays behind as owner on a load, while a store takes every copy away. A store to a line that is held but not
alone is an UPGRADE. A clean copy elsewhere lets memory answer. Devices write past the caches and take the line out of all.
"""

from models.access import DMA, READ, WRITE
from models.kernel import I64, i64, inlined
from sim.memory import (
    CLEAN_VICTIMS,
    CLOCK,
    DMA_LINE,
    EXCLUSIVE,
    IS_EXCLUSIVE,
    L1,
    L1_MASK,
    L2,
    L2_MASK,
    L2_STORE_MISSES,
    L2_STORES,
    LAST_PAGE,
    LOST,
    MEMORY,
    MODIFIED,
    PAGE_SHIFT,
    SHARED,
    TRANSFER,
    UPGRADE,
    Memory,
)
from sim.tlb import translate

ABSENT = -1


@inlined
def _l1_row(mem: Memory, cpu: int, line: int) -> int:
    return i64(cpu * (mem.var[L1_MASK] + 1) + (line & mem.var[L1_MASK]))


@inlined
def _l2_row(mem: Memory, cpu: int, line: int) -> int:
    return i64(cpu * (mem.var[L2_MASK] + 1) + (line & mem.var[L2_MASK]))


@inlined
def _l2_way(mem: Memory, at: int, line: int) -> int:
    """Way of an L2 row that holds the line, ABSENT if none. No early exit: such a loop becomes vector code."""
    tags = mem.l2_tag[at]
    way = ABSENT
    for w in range(tags.size):
        if tags[w] == line:
            way = w
    return way


@inlined
def _l2_insert(mem: Memory, cpu: int, line: int, state: int) -> None:
    """Put a line that L2 does not hold in an empty way, or in place of the oldest."""
    at = _l2_row(mem, cpu, line)
    ages = mem.l2_age[at]
    oldest = ages[0]
    for w in range(ages.size):
        oldest = min(oldest, ages[w])
    if oldest >> 8 != 0:
        mem.stats[cpu, CLEAN_VICTIMS + ((oldest >> 6) & 1)] += 1
    way = i64(oldest & 63)
    now = mem.cpu[cpu, CLOCK] + 1
    mem.cpu[cpu, CLOCK] = now
    mem.l2_tag[at, way] = line
    ages[way] = (now << 8) | (state << 6) | way


@inlined
def _l2_store(mem: Memory, cpu: int, line: int, state: int) -> None:
    """Store a modified L1 victim to an L2 that is not exclusive; L2 allocates the line if it lost it."""
    mem.stats[cpu, L2_STORES] += 1
    at = _l2_row(mem, cpu, line)
    way = _l2_way(mem, at, line)
    if way == ABSENT:
        mem.stats[cpu, L2_STORE_MISSES] += 1
        _l2_insert(mem, cpu, line, state)
    else:
        mem.l2_age[at, way] = (mem.l2_age[at, way] & ~(3 << 6)) | (state << 6)  # not a use: the order stays


@inlined
def _take_from(mem: Memory, cpu: int, line: int, kind: int) -> int:
    """Probe one CPU for another: on a load its copies become shared, otherwise they go. What it held: ABSENT or its state."""
    held = ABSENT
    l1 = mem.l1[_l1_row(mem, cpu, line)]
    for w in range(l1.size):
        if l1[w] >> 2 == line:
            held = i64(l1[w] & 3)
            if kind != READ:
                for later in range(w, l1.size - 1):
                    l1[later] = l1[later + 1]
                l1[l1.size - 1] = -1
            else:
                l1[w] = (line << 2) | (held & 1)
            break
    if held == ABSENT or mem.var[IS_EXCLUSIVE] == 0:
        at = _l2_row(mem, cpu, line)
        way = _l2_way(mem, at, line)
        if way != ABSENT:
            age = mem.l2_age[at, way]
            held = max(held, 0) | i64((age >> 6) & 3)
            if kind != READ:
                mem.l2_tag[at, way] = -1
                mem.l2_age[at, way] = way
            else:
                mem.l2_age[at, way] = age & ~(2 << 6)
    if held != ABSENT and (kind != READ):
        mem.stats[cpu, LOST] += 1
    return held


@inlined
def _probe(mem: Memory, cpu: int, line: int, kind: int) -> int:
    """Ask every other CPU for a line that this one lacks: ABSENT, or the states of all copies found, or-ed."""
    held = ABSENT
    for other in range(mem.cpu.shape[0]):
        if other != cpu:
            found = _take_from(mem, other, line, kind)
            if found != ABSENT:
                held = max(held, 0) | found
    return held


@inlined
def _fill(mem: Memory, cpu: int, line: int, kind: int) -> int:
    """Bring a line that L1 lacks as far as L1's door. Returns place << 2 | state in L1."""
    at = _l2_row(mem, cpu, line)
    way = _l2_way(mem, at, line)
    if way != ABSENT:
        age = mem.l2_age[at, way]
        state = (age >> 6) & 3
        if mem.var[IS_EXCLUSIVE] != 0:
            mem.l2_tag[at, way] = -1
            mem.l2_age[at, way] = way
            return i64((L2 << 2) | state)
        now = mem.cpu[cpu, CLOCK] + 1
        mem.cpu[cpu, CLOCK] = now
        mem.l2_age[at, way] = (now << 8) | (state << 6) | way
        return i64((L2 << 2) | (state & 2))  # L2 keeps what memory must still be told
    place = MEMORY
    state = EXCLUSIVE
    if mem.cpu.shape[0] > 1:
        held = _probe(mem, cpu, line, kind)
        if held != ABSENT:
            if held & 1 != 0:
                place = TRANSFER
            if kind != WRITE:
                state = SHARED
    if mem.var[IS_EXCLUSIVE] == 0:
        _l2_insert(mem, cpu, line, state)
    return (place << 2) | state


@inlined
def _age(row: I64, way: int) -> None:
    """Move ways 0 .. way - 1 of an L1 row one down. Two ways are spelled out: the loop becomes a call of memmove."""
    if way == 1:
        row[1] = row[0]
    else:
        for v in range(way, 0, -1):
            row[v] = row[v - 1]


@inlined
def _miss(mem: Memory, cpu: int, l1_row: int, line: int, kind: int) -> int:
    """A line that way 0 of its L1 row is not: move it there from wherever it is. Returns the place it was found."""
    row = mem.l1[l1_row]
    last = row.size - 1
    for w in range(1, row.size):
        word = row[w]
        if word >> 2 == line:
            _age(row, w)
            row[0] = word
            return L1
    filled = _fill(mem, cpu, line, kind)
    victim = row[last]
    _age(row, last)
    row[0] = (line << 2) | (filled & 3)
    if victim >= 0:
        if mem.var[IS_EXCLUSIVE] != 0:
            _l2_insert(mem, cpu, victim >> 2, victim & 3)
        elif victim & 1 != 0:
            _l2_store(mem, cpu, victim >> 2, victim & 3)
    return filled >> 2


@inlined
def access(mem: Memory, cpu: int, line: int, kind: int, function: int) -> None:
    """One load or store of one line by one CPU, counted in row `function` (plane * MAX_FUNCTIONS + function number)."""
    page = line >> mem.var[PAGE_SHIFT]
    if page != mem.cpu[cpu, LAST_PAGE]:
        missed = translate(mem, cpu, page)
        if missed >= 0:
            mem.counts[function, missed] += 1
    at = _l1_row(mem, cpu, line)
    place = L1
    if mem.l1[at, 0] >> 2 != line:
        place = _miss(mem, cpu, at, line, kind)
    if mem.l1[at, 0] & 2 == 0 and kind == WRITE:
        mem.counts[function, UPGRADE] += 1
        _probe(mem, cpu, line, WRITE)
    mem.l1[at, 0] |= kind * MODIFIED  # without a branch: loads and stores alternate at random
    mem.counts[function, 2 * place + kind] += 1


@inlined
def device_write(mem: Memory, line: int, function: int) -> None:
    """A device writes a line: every cache loses it, at no cost to a CPU."""
    for cpu in range(mem.cpu.shape[0]):
        _take_from(mem, cpu, line, DMA)
    mem.counts[function, DMA_LINE] += 1
