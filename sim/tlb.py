"""Translation: the DTLB of a CPU, fully associative and LRU, and the STLB behind it where the page size has one.

A page walk fills both. The page tables themselves are taken to lie in a cache; their cost is the machine's walk_latency.

The DTLB is a map from page to slot and the order in which the slots were used: a word where that holds them (sim/recency.py), else
an age for each. Neither a hit nor a miss searches the pages.
"""

from models.kernel import I32, I64, i64, index, inlined, kernel
from sim.memory import CLOCK, DTLB, DTLB_ORDER, DTLB_WAYS, LAST_PAGE, STLB_HIT, STLB_MASK, WALK, Memory
from sim.recency import MOST_WAYS, fill_oldest, oldest_way, use_way

FOUND = -1


@inlined
def _oldest(ages: I64) -> int:
    """Slot of the least age; an age is time << 8 | slot."""
    oldest = ages[0]
    for slot in range(ages.size):
        oldest = min(oldest, ages[slot])
    return i64(oldest & 255)


@inlined
def _way(tags: I32, page: int) -> int:
    """Way of an STLB set that holds a page, or -1. No early exit: such a loop becomes vector code."""
    way = -1
    for w in range(tags.size):
        if tags[w] == page:
            way = w
    return way


@inlined
def _tick(word: I64, base: int) -> int:
    now = word[base + CLOCK] + 1
    word[base + CLOCK] = now
    return i64(now << 8)


@inlined
def _stlb(mem: Memory, base: int, cpu: int, page: int) -> bool:
    """Look a page up in the STLB and make it the newest of its set; True if it was there."""
    mask = mem.word[STLB_MASK]
    at = cpu * (mask + 1) + (page & mask)
    way = _way(mem.stlb_tag[at], page)
    hit = way >= 0
    if not hit:
        way = _oldest(mem.stlb_age[at])
        mem.stlb_tag[at, way] = page
    mem.stlb_age[at, way] = _tick(mem.word, base) | way
    return hit


@kernel
def _miss(mem: Memory, base: int, cpu: int, page: int, slot: int) -> int:
    """Put a page in a slot of the DTLB; the class of the miss."""
    at = base + DTLB + slot
    old = mem.word[at]
    if old >= 0:
        mem.dtlb_slot[cpu, old] = 0
    mem.word[at] = page
    mem.dtlb_slot[cpu, page] = slot + 1
    if mem.word[STLB_MASK] >= 0 and _stlb(mem, base, cpu, page):
        return STLB_HIT
    return WALK


@kernel
def _by_age(mem: Memory, base: int, cpu: int, page: int, slot: int) -> int:
    """`translate` for a DTLB of more slots than an order word holds; slot: -1 if the page has none."""
    ways = mem.word[DTLB_WAYS]
    first = base + DTLB + ways
    used = slot if slot >= 0 else _oldest(mem.word[first : first + ways])
    mem.word[first + used] = _tick(mem.word, base) | used
    return FOUND if slot >= 0 else _miss(mem, base, cpu, page, used)


@inlined
def translate(mem: Memory, base: int, cpu: int, page: int) -> int:
    """Translate a page other than the last one: FOUND, or the class of the DTLB miss (STLB_HIT, WALK)."""
    word = mem.word
    word[index(base + LAST_PAGE)] = page
    slot = i64(mem.dtlb_slot[index(cpu), index(page)]) - 1
    if word[DTLB_WAYS] > MOST_WAYS:
        return _by_age(mem, base, cpu, page, slot)
    order = word[index(base + DTLB_ORDER)]
    if slot >= 0:
        word[index(base + DTLB_ORDER)] = use_way(order, slot)
        return FOUND
    word[index(base + DTLB_ORDER)] = fill_oldest(order, word[DTLB_WAYS])
    return _miss(mem, base, cpu, page, oldest_way(order, word[DTLB_WAYS]))
