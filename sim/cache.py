"""The movement of cache lines: L1, L2 and the other CPUs' copies, for one touch at a time.

Exclusive L2 (K8: the L1's victims_to): a hit moves the line up and out of L2, every L1 victim moves down as the newest, so LRU is
the order of insertion. Otherwise a load fills both levels, and only a modified L1 victim is stored to L2 (the conventions of
pycachesim and kerncraft: load first, then evict; a write-back is no use of the line).

Coherence follows MOESI: a store needs the line alone. A miss probes the other CPUs; a modified copy answers in place of memory
(TRANSFER) and stays behind as owner on a load, while a store takes every copy away. A store to a line that is held but not
alone is an UPGRADE. A clean copy elsewhere lets memory answer. Devices write past the caches and take the line out of all.

`base` is where a CPU's words begin in Memory.word; the layout is in sim/memory.py.
"""

from models.access import DMA, READ, WRITE
from models.kernel import I64, i64, index, inlined, kernel
from sim.memory import (
    CLASS_BITS,
    CLEAN_VICTIMS,
    CPU_WORDS,
    CPUS,
    DMA_LINE,
    EXCLUSIVE,
    EXCLUSIVE_L2,
    HEADER,
    IN_USE,
    L1,
    L1_AT,
    L1_MASK,
    L1_WAYS,
    L2,
    L2_AT,
    L2_BITS,
    L2_LINES,
    L2_MASK,
    L2_SET,
    L2_STORE_MISSES,
    L2_STORES,
    L2_WAYS,
    LAST_PAGE,
    LOST,
    MEMORY,
    MODIFIED,
    ORDER,
    PAGE_SHIFT,
    SHARED,
    SIGNATURES,
    STATES,
    TRANSFER,
    UPGRADE,
    Memory,
)
from sim.recency import MOST_WAYS, candidates, empty_way, fill_oldest, first_way, oldest_way, signature, use_way, with_signature
from sim.tlb import translate

ABSENT = -1


@inlined
def _l1_at(word: I64, base: int, line: int) -> int:
    """Where the L1 set of a line begins."""
    return i64(base + word[L1_AT] + (line & word[L1_MASK]) * word[L1_WAYS])


@inlined
def _l2_at(word: I64, base: int, line: int) -> int:
    """Where the L2 set of a line begins."""
    return i64(base + word[L2_AT] + (line & word[L2_MASK]) * L2_SET)


@inlined
def _l2_lines(word: I64, base: int, line: int) -> int:
    """Where the lines of a line's L2 set begin."""
    return i64(base + word[L2_LINES] + (line & word[L2_MASK]) * MOST_WAYS)


@inlined
def _l2_way(word: I64, base: int, at: int, line: int) -> int:
    """Way of an L2 set that holds the line, ABSENT if none."""
    part = signature(line >> word[L2_BITS])
    found = candidates(word[index(at + SIGNATURES)], word[index(at + SIGNATURES + 1)], part)
    lines = _l2_lines(word, base, line)
    while found != 0:
        way = first_way(found)
        if word[index(lines + way)] == line:
            return way
        found &= found - 1
    return ABSENT


@inlined
def _l2_state(word: I64, at: int, way: int) -> int:
    return i64((word[index(at + STATES)] >> 2 * way) & 3)


@inlined
def _l2_set_state(word: I64, at: int, way: int, state: int) -> None:
    word[index(at + STATES)] = (word[index(at + STATES)] & ~(i64(3) << 2 * way)) | (i64(state) << 2 * way)


@inlined
def _l2_remove(word: I64, base: int, at: int, line: int, way: int) -> None:
    word[index(_l2_lines(word, base, line) + way)] = ABSENT
    word[index(at + STATES)] &= ~(i64(1) << (IN_USE + way))
    word[index(at + ORDER)] = empty_way(word[index(at + ORDER)], way, word[L2_WAYS])


@inlined
def _l2_insert(word: I64, base: int, line: int, state: int) -> None:
    """Put a line that L2 does not hold in an empty way, or in place of the oldest.

    What was there is not read: the host has long lost it from its own caches (measured: a tenth of all pricing).
    """
    at = _l2_at(word, base, line)
    order = word[index(at + ORDER)]
    way = oldest_way(order, word[L2_WAYS])
    states = word[index(at + STATES)]
    if (states >> (IN_USE + way)) & 1 != 0:
        word[index(base + CLEAN_VICTIMS + ((states >> 2 * way) & 1))] += 1
    word[index(at + STATES)] = (states & ~(i64(3) << 2 * way)) | (i64(state) << 2 * way) | (i64(1) << (IN_USE + way))
    word[index(_l2_lines(word, base, line) + way)] = line
    word[index(at + ORDER)] = fill_oldest(order, word[L2_WAYS])
    half = at + SIGNATURES + (way >> 3)
    word[index(half)] = with_signature(word[index(half)], way, signature(line >> word[L2_BITS]))


@inlined
def _l2_store(word: I64, base: int, line: int, state: int) -> None:
    """Store a modified L1 victim to an L2 that is not exclusive; L2 allocates the line if it lost it."""
    word[index(base + L2_STORES)] += 1
    at = _l2_at(word, base, line)
    way = _l2_way(word, base, at, line)
    if way == ABSENT:
        word[index(base + L2_STORE_MISSES)] += 1
        _l2_insert(word, base, line, state)
    else:
        _l2_set_state(word, at, way, state)  # not a use: the order stays


@inlined
def _l1_find(word: I64, first: int, last: int, line: int) -> int:
    """Where in [first, last] of an L1 set a line is; beyond `last` if nowhere. Two ways are spelled out: no loop to set up."""
    if last == first + 1:
        return first + i64(word[index(first)] >> 2 != line) * (1 + i64(word[index(last)] >> 2 != line))
    at = first
    while at <= last and word[index(at)] >> 2 != line:
        at += 1
    return at


@inlined
def _take_from(word: I64, base: int, line: int, kind: int) -> int:
    """Probe one CPU for another: on a load its copies become shared, otherwise they go. What it held: ABSENT or its state."""
    held = ABSENT
    first = _l1_at(word, base, line)
    last = i64(first + word[L1_WAYS] - 1)
    at = _l1_find(word, first, last, line)
    if at <= last:
        held = i64(word[index(at)] & 3)
        if kind != READ:
            for later in range(at, last):
                word[index(later)] = word[index(later + 1)]
            word[index(last)] = -1
        else:
            word[index(at)] = (line << 2) | (held & 1)
    if held == ABSENT or word[EXCLUSIVE_L2] == 0:
        at = _l2_at(word, base, line)
        way = _l2_way(word, base, at, line)
        if way != ABSENT:
            state = _l2_state(word, at, way)
            held = max(held, 0) | state
            if kind != READ:
                _l2_remove(word, base, at, line, way)
            else:
                _l2_set_state(word, at, way, state & 1)
    if held != ABSENT and kind != READ:
        word[index(base + LOST)] += 1
    return held


@kernel
def probe(word: I64, but: int, line: int, kind: int) -> int:
    """Ask every CPU except the one at `but` for a line: ABSENT, or the states of all copies found, or-ed."""
    held = ABSENT
    base = HEADER
    for _ in range(word[CPUS]):
        if base != but:
            found = _take_from(word, base, line, kind)
            if found != ABSENT:
                held = max(held, 0) | found
        base += word[CPU_WORDS]
    return held


@inlined
def _fill(word: I64, base: int, line: int, kind: int) -> int:
    """Bring a line that L1 lacks as far as L1's door. Returns place << 2 | state in L1."""
    at = _l2_at(word, base, line)
    way = _l2_way(word, base, at, line)
    if way != ABSENT:
        state = _l2_state(word, at, way)
        if word[EXCLUSIVE_L2] != 0:
            _l2_remove(word, base, at, line, way)
            return (L2 << 2) | state
        word[index(at + ORDER)] = use_way(word[index(at + ORDER)], way)
        return (L2 << 2) | (state & 2)  # L2 keeps what memory must still be told
    place = MEMORY
    state = EXCLUSIVE
    if word[CPUS] > 1:
        held = probe(word, base, line, kind)
        if held != ABSENT:
            if held & 1 != 0:
                place = TRANSFER
            if kind != WRITE:
                state = SHARED
    if word[EXCLUSIVE_L2] == 0:
        _l2_insert(word, base, line, state)
    return (place << 2) | state


@inlined
def _age(word: I64, at: int, way: int) -> None:
    """Move ways 0 .. way - 1 of an L1 set one down. Two ways are spelled out: the loop becomes a call of memmove."""
    if way == 1:
        word[index(at + 1)] = word[index(at)]
    else:
        for v in range(at + way, at, -1):
            word[index(v)] = word[index(v - 1)]


@kernel
def bring(word: I64, base: int, at: int, line: int, kind: int) -> int:
    """Move a line to the front of its L1 set, which begins at `at`, from wherever it is. Returns the place it was found."""
    last = i64(word[L1_WAYS] - 1)
    for w in range(1, last + 1):
        found = word[index(at + w)]
        if found >> 2 == line:
            _age(word, at, w)
            word[index(at)] = found
            return L1
        if last == 1:
            break
    filled = _fill(word, base, line, kind)
    victim = word[index(at + last)]
    _age(word, at, last)
    word[index(at)] = (line << 2) | (filled & 3)
    if victim >= 0:
        if word[EXCLUSIVE_L2] != 0:
            _l2_insert(word, base, victim >> 2, victim & 3)
        elif victim & 1 != 0:
            _l2_store(word, base, victim >> 2, victim & 3)
    return filled >> 2


@inlined
def access(mem: Memory, base: int, cpu: int, line: int, kind: int, function: int) -> None:
    """One load or store of one line by one CPU, counted in row `function` (plane * MAX_FUNCTIONS + function number)."""
    word = mem.word
    page = line >> word[PAGE_SHIFT]
    row = function << CLASS_BITS
    if page != word[index(base + LAST_PAGE)]:
        missed = translate(mem, base, cpu, page)
        if missed >= 0:
            mem.counts[index(row + missed)] += 1
    at = _l1_at(word, base, line)
    place = L1
    if word[index(at)] >> 2 != line:
        place = bring(word, base, at, line, kind)
    if word[index(at)] & 2 == 0 and kind == WRITE:
        mem.counts[index(row + UPGRADE)] += 1
        probe(word, base, line, WRITE)
    word[index(at)] |= kind * MODIFIED  # without a branch: loads and stores alternate at random
    mem.counts[index(row + 2 * place + kind)] += 1


@inlined
def device_write(mem: Memory, line: int, function: int, again: bool) -> None:
    """A device writes a line: every cache loses it, at no cost to a CPU. again: no CPU has touched it since it was last written."""
    if not again:
        probe(mem.word, 0, line, DMA)
    mem.counts[index((function << CLASS_BITS) + DMA_LINE)] += 1
