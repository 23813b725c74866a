"""Translation: the DTLB of a CPU, fully associative and LRU, and the STLB behind it where the page size has one.

A page walk fills both. The page tables themselves are taken to lie in a cache; their cost is the machine's walk_latency.

The DTLB is a map from page to slot and a ring of slots in order of use, so neither a hit nor a miss searches (a search right behind
the store that changed the row waits for that store: measured, 12 ns a translation).
"""

from models.kernel import i64, inlined
from sim.memory import CLOCK, HAS_STLB, LAST_PAGE, NEWER, NEWEST, OLDER, PAGE, STLB_HIT, STLB_MASK, WALK, Memory

FOUND = -1


@inlined
def _stlb(mem: Memory, cpu: int, page: int) -> bool:
    """Look a page up in the STLB and make it the newest of its set; True if it was there."""
    now = mem.cpu[cpu, CLOCK] + 1
    mem.cpu[cpu, CLOCK] = now
    at = cpu * (mem.var[STLB_MASK] + 1) + (page & mem.var[STLB_MASK])
    tags = mem.stlb_tag[at]
    ages = mem.stlb_age[at]
    way = -1
    for w in range(tags.size):
        if tags[w] == page:
            way = w
    hit = way >= 0
    if not hit:
        oldest = ages[0]
        for w in range(ages.size):
            oldest = min(oldest, ages[w])
        way = i64(oldest & 63)
        tags[way] = page
    ages[way] = (now << 8) | way
    return hit


@inlined
def translate(mem: Memory, cpu: int, page: int) -> int:
    """Translate a page other than the last one: FOUND, or the class of the DTLB miss (STLB_HIT, WALK)."""
    mem.cpu[cpu, LAST_PAGE] = page
    slot = i64(mem.dtlb_slot[cpu, page]) - 1
    newest = mem.cpu[cpu, NEWEST]
    if slot >= 0:
        # The last page is the newest, so this slot is another one: take it out of the ring and put it before the newest.
        newer = mem.dtlb[cpu, slot, NEWER]
        older = mem.dtlb[cpu, slot, OLDER]
        mem.dtlb[cpu, newer, OLDER] = older
        mem.dtlb[cpu, older, NEWER] = newer
        oldest = mem.dtlb[cpu, newest, NEWER]
        mem.dtlb[cpu, slot, NEWER] = oldest
        mem.dtlb[cpu, slot, OLDER] = newest
        mem.dtlb[cpu, oldest, OLDER] = slot
        mem.dtlb[cpu, newest, NEWER] = slot
        mem.cpu[cpu, NEWEST] = slot
        return FOUND
    # In a ring the oldest slot lies before the newest, so reusing it only moves the mark.
    slot = mem.dtlb[cpu, newest, NEWER]
    old = mem.dtlb[cpu, slot, PAGE]
    if old >= 0:
        mem.dtlb_slot[cpu, old] = 0
    mem.dtlb[cpu, slot, PAGE] = page
    mem.dtlb_slot[cpu, page] = slot + 1
    mem.cpu[cpu, NEWEST] = slot
    if mem.var[HAS_STLB] != 0 and _stlb(mem, cpu, page):
        return STLB_HIT
    return WALK
