"""How a dst entry leaves: unlinked now, destroyed after its grace period.

Source: net/ipv4/route.c, rt_free and ipv4_dst_destroy; include/net/dst.h, dst_rcu_free; net/core/dst.c, dst_destroy; 2.6.20.
An unlinked entry waits in the RCU queue of the CPU that unlinked it and counts as in use until it is destroyed.
Left out: entries still referenced (at most the packets in flight), which the kernel would put on its garbage list; the
objects an entry points to (neighbour, hardware header, device), whose counters are dropped without a touch of our own.
"""

from collections.abc import Iterator

from models.access import READ, WRITE, AccessLog, call, room, touch
from models.functions import number
from models.kernel import I64, NIL, i64, kernel
from models.rcu import RcuState, call_rcu, rcu_next, ready_before
from models.rt_hash.state import (
    AT_IDEV,
    AT_NEIGHBOUR,
    AT_NEXT,
    AT_PEER,
    AT_RCU,
    AT_REFCNT,
    DESTROYED,
    ENTRIES,
    FREE,
    NEXT,
    PLACE,
    STATICS,
    STATICS_OPS,
    WAITING,
    RtTable,
    touch_bucket,
    touch_entry,
)
from models.slab import SLAB_RECORDS, SlabState, slab_free

CALL_RCU_BH = number("call_rcu_bh")
RCU_DO_BATCH = number("rcu_do_batch")
DST_RCU_FREE = number("dst_rcu_free")
DST_DESTROY = number("dst_destroy")
IPV4_DST_DESTROY = number("ipv4_dst_destroy")

DESTROY_RECORDS = 6 + SLAB_RECORDS
"""Most records of one entry's destruction."""


@kernel
def rt_free(table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, entry: int, cpu: int, now: int) -> None:
    """Queue an unlinked entry for destruction. One record, one place in the RCU queue."""
    call(log, CALL_RCU_BH, 1)
    touch_entry(cache, log, WRITE, CALL_RCU_BH, entry, table.var[AT_RCU])
    table.row[entry, PLACE] = WAITING
    call_rcu(rcu, cpu, entry, now)


@kernel
def unlink(table: RtTable, cache: SlabState, log: AccessLog, function: int, slot: int, before: int, entry: int) -> None:
    """Take an entry out of its chain; `before` is the entry in front of it or NIL. One record."""
    after = table.row[entry, NEXT]
    if before == NIL:
        table.bucket[slot] = after
        touch_bucket(table, log, WRITE, function, slot)
    else:
        table.row[before, NEXT] = after
        touch_entry(cache, log, WRITE, function, before, table.var[AT_NEXT])


@kernel
def _destroy(table: RtTable, cache: SlabState, log: AccessLog, entry: int, cpu: int) -> None:
    var = table.var
    touch_entry(cache, log, READ, RCU_DO_BATCH, entry, var[AT_RCU])
    call(log, DST_RCU_FREE, 1)
    touch_entry(cache, log, READ, DST_RCU_FREE, entry, var[AT_REFCNT])
    call(log, DST_DESTROY, 1)
    touch_entry(cache, log, READ, DST_DESTROY, entry, var[AT_NEIGHBOUR])
    touch(log, WRITE, DST_DESTROY, var[STATICS] + STATICS_OPS)
    call(log, IPV4_DST_DESTROY, 1)
    touch_entry(cache, log, READ, IPV4_DST_DESTROY, entry, var[AT_PEER])
    touch_entry(cache, log, READ, IPV4_DST_DESTROY, entry, var[AT_IDEV])
    table.row[entry, PLACE] = FREE
    var[ENTRIES] -= 1
    table.stat[DESTROYED] += 1
    slab_free(cache, log, cpu, entry)


@kernel
def reclaim(table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, limit: int, cpu: int, deadline: int) -> int:
    """Destroy up to `limit` entries queued on this CPU at or before `deadline` (ns), while the log has room; how many."""
    limit = min(limit, ready_before(rcu, cpu, deadline))
    done = 0
    while done < limit and room(log) >= DESTROY_RECORDS:
        _destroy(table, cache, log, i64(rcu_next(rcu, cpu)), cpu)
        done += 1
    if done > 0:
        call(log, RCU_DO_BATCH, 1)
    return done


@kernel
def reclaim_loop(table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, numbers: I64) -> Iterator[int]:
    """`reclaim` over and over; numbers: limit, cpu, deadline."""
    while True:
        yield reclaim(table, cache, rcu, log, i64(numbers[0]), i64(numbers[1]), i64(numbers[2]))
