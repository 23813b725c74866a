"""The slab allocator that hands out objects: mm/slab.c of 2.6.20.

Every slab cache has a region of the simulated memory of its own, in which slabs follow each other: what a fresh boot gives a cache
that has the machine to itself. Per CPU there is an array of free objects used last in first out (120 for objects of at
most 256 bytes, moved in batches of 60), one shared array behind it (8 x 60), behind that the slabs. A free reads the object's
struct page. An array that overflows first fills the shared array, then gives objects back to their slabs one by one
(free_block, slab_put_obj: the slab header and the neighbours in the slab list). Left out: colouring, reaping of empty slabs
(memory only grows within a run), NUMA.
"""

from typing import NamedTuple

import numpy as np

from models.access import READ, WRITE, AccessLog, call, touch
from models.functions import number
from models.kernel import I32, I64, NIL, i64, kernel
from models.simulated_memory import PAGE, SimulatedMemory

KMEM_CACHE_ALLOC = number("kmem_cache_alloc")
CACHE_ALLOC_REFILL = number("cache_alloc_refill")
KMEM_CACHE_FREE = number("kmem_cache_free")
CACHE_FLUSHARRAY = number("cache_flusharray")
FREE_BLOCK = number("free_block")
SLAB_PUT_OBJ = number("slab_put_obj")

STRUCT_PAGE = 32

SLAB_RECORDS = 64 * 6
"""Most records that one slab_alloc or slab_free can write (a whole batch moved between array and slabs)."""

BASE, SIZE, PER_SLAB, FIRST, SLAB_BYTES, PAGES, LIMIT, BATCH, SLABS, PARTIAL, LIVE, SHARED, ARRAYS = range(13)
VARS = 13


class SlabState(NamedTuple):
    """One slab cache. Ids 0 .. room-1 are objects; object id sits in slab id // per_slab."""

    var: I64  # int64[VARS]: geometry, then counts, see the index names above
    array: I32  # int32[cpus, limit], free objects of each CPU, last in first out
    held: I64  # int64[cpus], how many each CPU's array holds
    shared: I32  # int32[8 * batch], the shared array
    link: I32  # int32[room], next free object of the same slab, or NIL
    slab: I32  # int32[slabs, 4]: first free object, objects free, previous and next slab of the partial list (NIL at the ends)


FREE_HEAD, FREE_COUNT, PREV, NEXT = 0, 1, 2, 3


class SlabCache:
    """A kmem_cache of equal objects. `state` is replaced by `grow`: read it afresh for every kernel call."""

    def __init__(
        self,
        memory: SimulatedMemory,
        name: str,
        size: int,
        *,
        per_slab: int,
        first: int,
        slab_bytes: int = PAGE,
        cpus: int = 2,
        room: int = 1 << 12,
        most: int = 1 << 23,
        limit: int = 120,
        batch: int = 60,
    ) -> None:
        """`size` and `first` in bytes: an object, and where the first lies in its slab. `most`: objects the region has room for."""
        if first + per_slab * size > slab_bytes:
            raise ValueError(f"{per_slab} objects of {size} bytes from byte {first} do not fit a slab of {slab_bytes}")
        self.name, self.most = name, most
        var = np.zeros(VARS, np.int64)
        slabs = -(-most // per_slab)
        var[BASE] = memory.region(name, slabs * slab_bytes)
        var[PAGES] = memory.region(f"struct pages of {name}", slabs * (slab_bytes // PAGE) * STRUCT_PAGE)
        var[ARRAYS] = memory.region(f"array caches of {name}", (cpus + 1) * 1024)
        var[SIZE], var[PER_SLAB], var[FIRST], var[SLAB_BYTES] = size, per_slab, first, slab_bytes
        var[LIMIT], var[BATCH], var[PARTIAL] = limit, batch, NIL
        self.state = SlabState(
            var=var,
            array=np.zeros((cpus, limit), np.int32),
            held=np.zeros(cpus, np.int64),
            shared=np.zeros(8 * batch, np.int32),
            link=np.full(per_slab * max(1, -(-room // per_slab)), NIL, np.int32),
            slab=np.full((max(1, -(-room // per_slab)), 4), NIL, np.int32),
        )

    def room(self) -> int:
        """Objects that the pool has rows for."""
        return int(self.state.link.size)

    def live(self) -> int:
        """Objects handed out and not yet freed."""
        return int(self.state.var[LIVE])

    def bytes(self) -> int:
        """Simulated memory taken by slabs, bytes."""
        return int(self.state.var[SLABS] * self.state.var[SLAB_BYTES])

    def grow(self) -> None:
        """Double the rows. MemoryError when the region is used up."""
        old = self.state
        slabs = old.slab.shape[0] * 2
        if slabs * int(old.var[PER_SLAB]) > 2 * self.most:
            raise MemoryError(f"{self.name} has no more than {self.most} objects")
        link = np.full(slabs * int(old.var[PER_SLAB]), NIL, np.int32)
        link[: old.link.size] = old.link
        slab = np.full((slabs, 4), NIL, np.int32)
        slab[: old.slab.shape[0]] = old.slab
        self.state = old._replace(link=link, slab=slab)

    def check(self) -> None:
        """Every object is in exactly one place: live, in an array, shared, free in its slab, or in a slab not yet taken."""
        s = self.state
        per_slab, slabs = int(s.var[PER_SLAB]), int(s.var[SLABS])
        seen: list[int] = []
        for cpu in range(s.array.shape[0]):
            seen += s.array[cpu, : s.held[cpu]].tolist()
        seen += s.shared[: s.var[SHARED]].tolist()
        on_list = set()
        at, before = int(s.var[PARTIAL]), NIL
        while at != NIL:
            assert s.slab[at, PREV] == before, f"slab {at}: previous is {s.slab[at, PREV]}, not {before}"
            on_list.add(at)
            at, before = int(s.slab[at, NEXT]), at
        for slab in range(slabs):
            free, count = int(s.slab[slab, FREE_HEAD]), 0
            while free != NIL:
                assert free // per_slab == slab, f"object {free} on the free list of slab {slab}"
                seen.append(free)
                free, count = int(s.link[free]), count + 1
            assert count == s.slab[slab, FREE_COUNT], f"slab {slab} counts {s.slab[slab, FREE_COUNT]} free, has {count}"
            assert (slab in on_list) == (count > 0), f"slab {slab} with {count} free objects on the wrong list"
        assert len(seen) == len(set(seen)), "an object is free twice"
        assert len(seen) + int(s.var[LIVE]) == slabs * per_slab, "objects were lost"


@kernel
def address_in(var: I64, entry: int) -> int:
    """Simulated address of an object of the slab cache whose `var` this is."""
    slab = i64(entry // var[PER_SLAB])
    within = var[FIRST] + (entry - slab * var[PER_SLAB]) * var[SIZE]
    return i64(var[BASE] + slab * var[SLAB_BYTES] + within)


@kernel
def object_address(cache: SlabState, entry: int) -> int:
    """Simulated address of an object."""
    return address_in(cache.var, entry)


@kernel
def slab_room(cache: SlabState, cpu: int) -> int:
    """Objects that can surely be allocated on this CPU before the rows must grow."""
    return i64(cache.held[cpu] + cache.var[SHARED] + cache.link.size - cache.var[SLABS] * cache.var[PER_SLAB])


@kernel
def _header(cache: SlabState, slab: int) -> int:
    return i64(cache.var[BASE] + slab * cache.var[SLAB_BYTES])


@kernel
def _unlist(cache: SlabState, log: AccessLog, function: int, slab: int) -> None:
    before = i64(cache.slab[slab, PREV])
    after = i64(cache.slab[slab, NEXT])
    if before == NIL:
        cache.var[PARTIAL] = after
    else:
        cache.slab[before, NEXT] = after
        touch(log, WRITE, function, _header(cache, before))
    if after != NIL:
        cache.slab[after, PREV] = before
        touch(log, WRITE, function, _header(cache, after))


@kernel
def _list(cache: SlabState, log: AccessLog, function: int, slab: int) -> None:
    first = cache.var[PARTIAL]
    cache.slab[slab, PREV] = NIL
    cache.slab[slab, NEXT] = first
    if first != NIL:
        cache.slab[first, PREV] = slab
        touch(log, WRITE, function, _header(cache, first))
    cache.var[PARTIAL] = slab


@kernel
def _new_slab(cache: SlabState, log: AccessLog) -> None:
    """Take the next slab of the region; its objects are free in ascending order."""
    slab = cache.var[SLABS]
    per_slab = cache.var[PER_SLAB]
    cache.var[SLABS] += 1
    for j in range(per_slab):
        cache.link[slab * per_slab + j] = slab * per_slab + j + 1
    cache.link[slab * per_slab + per_slab - 1] = NIL
    cache.slab[slab, FREE_HEAD] = slab * per_slab
    cache.slab[slab, FREE_COUNT] = per_slab
    touch(log, WRITE, CACHE_ALLOC_REFILL, _header(cache, slab))
    _list(cache, log, CACHE_ALLOC_REFILL, slab)


@kernel
def _refill(cache: SlabState, log: AccessLog, cpu: int) -> None:
    """cache_alloc_refill: a batch from the shared array if it has any, else from partial slabs, else from one new slab."""
    call(log, CACHE_ALLOC_REFILL, 1)
    wanted = cache.var[BATCH]
    if cache.var[SHARED] > 0:
        while wanted > 0 and cache.var[SHARED] > 0:
            cache.var[SHARED] -= 1
            cache.array[cpu, cache.held[cpu]] = cache.shared[cache.var[SHARED]]
            cache.held[cpu] += 1
            wanted -= 1
        touch(log, WRITE, CACHE_ALLOC_REFILL, cache.var[ARRAYS] + cache.held.size * 1024)
        return
    while wanted > 0:
        slab = cache.var[PARTIAL]
        if slab == NIL:
            if cache.held[cpu] > 0 or (cache.var[SLABS] + 1) * cache.var[PER_SLAB] > cache.link.size:
                return
            _new_slab(cache, log)
            slab = cache.var[PARTIAL]
        else:
            touch(log, WRITE, CACHE_ALLOC_REFILL, _header(cache, slab))
        while wanted > 0 and cache.slab[slab, FREE_COUNT] > 0:
            entry = i64(cache.slab[slab, FREE_HEAD])
            cache.slab[slab, FREE_HEAD] = cache.link[entry]
            cache.slab[slab, FREE_COUNT] -= 1
            cache.array[cpu, cache.held[cpu]] = entry
            cache.held[cpu] += 1
            wanted -= 1
        if cache.slab[slab, FREE_COUNT] == 0:
            _unlist(cache, log, CACHE_ALLOC_REFILL, slab)


@kernel
def slab_alloc(cache: SlabState, log: AccessLog, cpu: int) -> int:
    """A free object, NIL if the rows must grow first. Up to SLAB_RECORDS records."""
    if cache.held[cpu] == 0:
        _refill(cache, log, cpu)
        if cache.held[cpu] == 0:
            return NIL
    call(log, KMEM_CACHE_ALLOC, 1)
    cache.held[cpu] -= 1
    entry = i64(cache.array[cpu, cache.held[cpu]])
    touch(log, WRITE, KMEM_CACHE_ALLOC, cache.var[ARRAYS] + cpu * 1024 + 16 + cache.held[cpu] * 4)
    cache.var[LIVE] += 1
    return entry


@kernel
def _put_back(cache: SlabState, log: AccessLog, entry: int) -> None:
    """Give one object back to its slab: free_block's step, with slab_put_obj inside."""
    slab = entry // cache.var[PER_SLAB]
    header = _header(cache, slab)
    touch(log, READ, FREE_BLOCK, cache.var[PAGES] + slab * (cache.var[SLAB_BYTES] // PAGE) * STRUCT_PAGE)
    touch(log, WRITE, FREE_BLOCK, header)
    call(log, SLAB_PUT_OBJ, 1)
    touch(log, WRITE, SLAB_PUT_OBJ, header + 28 + 4 * (entry - slab * cache.var[PER_SLAB]))
    cache.link[entry] = cache.slab[slab, FREE_HEAD]
    cache.slab[slab, FREE_HEAD] = entry
    if cache.slab[slab, FREE_COUNT] > 0:
        _unlist(cache, log, FREE_BLOCK, slab)  # free_block moves the slab to the list that fits, each time
    cache.slab[slab, FREE_COUNT] += 1
    _list(cache, log, FREE_BLOCK, slab)


@kernel
def slab_free(cache: SlabState, log: AccessLog, cpu: int, entry: int) -> None:
    """Free an object. Up to SLAB_RECORDS records."""
    call(log, KMEM_CACHE_FREE, 1)
    slab = entry // cache.var[PER_SLAB]
    touch(log, READ, KMEM_CACHE_FREE, cache.var[PAGES] + slab * (cache.var[SLAB_BYTES] // PAGE) * STRUCT_PAGE)
    if cache.held[cpu] == cache.var[LIMIT]:
        # cache_flusharray: the oldest batch goes to the shared array, or back to the slabs when that is full.
        call(log, CACHE_FLUSHARRAY, 1)
        batch = cache.var[BATCH]
        spare = cache.shared.size - cache.var[SHARED]
        if spare > 0:
            moved = min(batch, spare)
            for j in range(moved):
                cache.shared[cache.var[SHARED] + j] = cache.array[cpu, j]
            cache.var[SHARED] += moved
            touch(log, WRITE, CACHE_FLUSHARRAY, cache.var[ARRAYS] + cache.held.size * 1024)
        else:
            moved = batch
            call(log, FREE_BLOCK, 1)
            for j in range(moved):
                _put_back(cache, log, i64(cache.array[cpu, j]))
        for j in range(cache.held[cpu] - moved):
            cache.array[cpu, j] = cache.array[cpu, j + moved]
        cache.held[cpu] -= moved
    touch(log, WRITE, KMEM_CACHE_FREE, cache.var[ARRAYS] + cpu * 1024 + 16 + cache.held[cpu] * 4)
    cache.array[cpu, cache.held[cpu]] = entry
    cache.held[cpu] += 1
    cache.var[LIVE] -= 1
