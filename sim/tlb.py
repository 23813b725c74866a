"""Translation: the DTLB of a CPU, fully associative and LRU, and the STLB behind it where the page size has one.

A page walk fills both. The page tables themselves are taken to lie in a cache; their cost is the machine's walk_latency.
"""

from models.kernel import i64, inlined
from sim.memory import CLOCK, HAS_STLB, LAST_PAGE, STLB_HIT, STLB_MASK, WALK, Memory

FOUND = -1


@inlined
def _stlb(mem: Memory, cpu: int, page: int, now: int) -> bool:
    """Look a page up in the STLB and make it the newest of its set; True if it was there."""
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
    now = mem.cpu[cpu, CLOCK] + 1
    mem.cpu[cpu, CLOCK] = now
    mem.cpu[cpu, LAST_PAGE] = page
    tags = mem.dtlb_tag[cpu]
    ages = mem.dtlb_age[cpu]
    way = -1
    for w in range(tags.size):
        if tags[w] == page:
            way = w
    if way >= 0:
        ages[way] = (now << 8) | way
        return FOUND
    oldest = ages[0]
    for w in range(ages.size):
        oldest = min(oldest, ages[w])
    way = i64(oldest & 63)
    tags[way] = page
    ages[way] = (now << 8) | way
    if mem.var[HAS_STLB] != 0 and _stlb(mem, cpu, page, now):
        return STLB_HIT
    return WALK
