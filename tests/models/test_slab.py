import numpy as np
import pytest

from models.access import empty, make_log, record_line
from models.functions import number
from models.kernel import NIL, compiled
from models.simulated_memory import LARGE_PAGE, PAGE, SimulatedMemory
from models.slab import SLAB_RECORDS, SlabCache, object_address, slab_alloc, slab_free, slab_room


def test_regions_never_overlap_and_know_their_owner():
    memory = SimulatedMemory()
    a, b = memory.region("a", 1), memory.region("b", LARGE_PAGE + 1)
    assert a % PAGE == b % PAGE == 0
    assert a < b
    assert memory.region("c", 5) == a + PAGE  # small ones lie side by side
    assert [memory.owner(x) for x in (a - 1, a, a + 1, b, b + LARGE_PAGE, b + LARGE_PAGE + 1)] == [None, "a", None, "b", "b", None]
    with pytest.raises(ValueError, match="needs at least one byte"):
        memory.region("d", 0)
    with pytest.raises(ValueError, match="more than a simulated memory of 2 TiB holds"):
        memory.region("e", 1 << 70)


def small(**options):
    memory = SimulatedMemory()
    values = {"per_slab": 3, "first": 256, "room": 3, "limit": 4, "batch": 2} | options
    return SlabCache(memory, "objects", 256, **values), memory


@pytest.mark.parametrize("seed", range(6))
def test_objects_are_handed_out_once_and_nothing_is_lost(seed):
    """A set is the oracle; the pool grows from one slab, and every branch of the shared array and of the slab lists is met."""
    rng = np.random.default_rng(seed)
    cache, memory = small()
    log, live, seen = make_log(SLAB_RECORDS, 1), [], set()
    for step in range(1_500 if compiled() else 500):
        empty(log)
        cpu = int(rng.integers(2))
        if rng.random() < (0.7, 0.3)[step // 100 % 2] or not live:
            while slab_room(cache.state, cpu) < 1:
                cache.grow()
            entry = int(slab_alloc(cache.state, log, cpu))
            assert entry != NIL
            assert entry not in live
            live.append(entry)
        else:
            slab_free(cache.state, log, cpu, live.pop(int(rng.integers(len(live)))))
        seen |= set(np.flatnonzero(log.calls).tolist())
        assert all(memory.owner(int(record_line(r)) * 64) for r in log.record[: log.head[0]].tolist())
        assert cache.live() == len(live)
        if step % 10 == 0:
            cache.check()
    expected = ("kmem_cache_alloc", "cache_alloc_refill", "kmem_cache_free", "cache_flusharray", "free_block", "slab_put_obj")
    assert {number(name) for name in expected} == seen


def test_addresses_follow_the_slab_layout():
    """Fifteen objects of 256 bytes to a page, after a header and index of 256 bytes."""
    cache, memory = small(per_slab=15, room=45)
    base = memory.regions[0][1]
    assert [int(object_address(cache.state, entry)) - base for entry in (0, 1, 14, 15, 31)] == [
        256,
        512,
        3840,
        4096 + 256,
        8192 + 512,
    ]


def test_the_last_object_freed_is_the_next_one_given():
    cache, _ = small()
    log = make_log(SLAB_RECORDS, 1)
    first = slab_alloc(cache.state, log, 0)
    slab_free(cache.state, log, 0, first)
    assert slab_alloc(cache.state, log, 0) == first


def test_a_pool_without_rows_says_so_and_a_full_region_refuses_to_grow():
    cache, _ = small(most=6)
    log = make_log(10 * SLAB_RECORDS, 1)
    assert [int(slab_alloc(cache.state, log, 0)) == NIL for _ in range(4)] == [False, False, False, True]
    cache.grow()
    cache.grow()
    with pytest.raises(MemoryError, match="objects has no more than 6 objects"):
        cache.grow()


def test_objects_that_do_not_fit_their_slab_are_refused():
    with pytest.raises(ValueError, match="16 objects of 256 bytes from byte 256 do not fit a slab of 4096"):
        small(per_slab=16)


def test_no_step_writes_more_records_than_promised():
    """The dearest step: an array of 120 overflows while the shared array is full, each object into another slab."""
    cache, _ = small(per_slab=15, room=15 * 200, limit=120, batch=60)
    log, most = make_log(4 * SLAB_RECORDS, 1), 0
    objects = [int(slab_alloc(cache.state, log, empty(log) or 0)) for _ in range(2_000)]
    np.random.default_rng(1).shuffle(objects)
    for entry in objects:
        empty(log)
        slab_free(cache.state, log, 0, entry)
        most = max(most, int(log.head[0]))
    assert 60 * 3 < most <= SLAB_RECORDS
