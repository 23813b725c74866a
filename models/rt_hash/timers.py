"""What empties the cache without a slow path: the periodic expiry, the flush, and the removal of one flow. All in slices.

Source: net/ipv4/route.c, 2.6.20, rt_check_expire, rt_run_flush, rt_secret_rebuild, rt_del.
The expiry visits gc_interval / gc_timeout of the buckets, but the kernel's breaks off as soon as a tick has passed; here a fixed
number of buckets stands for the work of one tick. A flush draws a new hash secret and detaches every chain, last bucket first;
entries that are inserted while it runs use the new secret, and go too if their bucket is still to come.
"""

from models.access import READ, WRITE, AccessLog, call, room
from models.functions import number
from models.interface import NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import NIL, i64, kernel
from models.rcu import RcuState, rcu_room
from models.rt_hash.collect import scan_bucket
from models.rt_hash.free import rt_free, unlink
from models.rt_hash.lookup import iif_tos, rt_hash_code
from models.rt_hash.state import (
    AT_KEY,
    AT_NEXT,
    CHECK_LEFT,
    CHECK_REMOVED,
    CHECK_ROVER,
    CHECK_RUNS,
    CHECK_SCANS,
    DST,
    ELASTICITY,
    FLUSH_AT,
    FLUSHED,
    FLUSHES,
    GC_INTERVAL,
    GC_TIMEOUT,
    IIF_TOS,
    MASK,
    NEXT,
    PER_TICK,
    REMOVED,
    RND,
    ROOM_BUCKET,
    SRC,
    RtTable,
    touch_bucket,
    touch_entry,
)
from models.slab import SlabState

RT_CHECK_EXPIRE = number("rt_check_expire")
RT_RUN_FLUSH = number("rt_run_flush")
RT_FREE = number("rt_free")


@kernel
def check_expire(table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, cpu: int, now: int, jiffies: int) -> int:
    """Go on with a periodic expiry, or begin one: NEED_NOTHING when it is over, else what must be done first."""
    var = table.var
    if var[CHECK_LEFT] < 0:
        buckets = var[MASK] + 1
        share = var[GC_INTERVAL] * buckets // max(i64(1), var[GC_TIMEOUT])
        var[CHECK_LEFT] = min(share, buckets, var[PER_TICK])
        table.stat[CHECK_RUNS] += 1
        call(log, RT_CHECK_EXPIRE, 1)
    while var[CHECK_LEFT] > 0:
        if room(log) < var[ROOM_BUCKET]:
            return NEED_LOG
        if rcu_room(rcu, cpu) < var[ELASTICITY] + 1:
            return NEED_POOL
        slot = (var[CHECK_ROVER] + 1) & var[MASK]
        scanned, removed = scan_bucket(table, cache, rcu, log, RT_CHECK_EXPIRE, slot, i64(var[GC_TIMEOUT]), cpu, now, jiffies)
        var[CHECK_ROVER] = slot
        var[CHECK_LEFT] -= 1
        table.stat[CHECK_SCANS] += scanned
        table.stat[CHECK_REMOVED] += removed
    var[CHECK_LEFT] = -1
    return NEED_NOTHING


@kernel
def begin_flush(table: RtTable, log: AccessLog, secret: int) -> None:
    """Take a new hash secret; the chains go with run_flush."""
    table.var[RND] = secret
    table.var[FLUSH_AT] = table.var[MASK]
    table.stat[FLUSHES] += 1
    call(log, RT_RUN_FLUSH, 1)


@kernel
def run_flush(table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, cpu: int, now: int) -> int:
    """Go on with a flush: NEED_NOTHING when all chains are gone, else what must be done first."""
    var = table.var
    while var[FLUSH_AT] >= 0:
        if room(log) < var[ROOM_BUCKET]:
            return NEED_LOG
        if rcu_room(rcu, cpu) < var[ELASTICITY] + 1:
            return NEED_POOL
        slot = i64(var[FLUSH_AT])
        touch_bucket(table, log, READ, RT_RUN_FLUSH, slot)
        entry = i64(table.bucket[slot])
        if entry != NIL:
            table.bucket[slot] = NIL
            touch_bucket(table, log, WRITE, RT_RUN_FLUSH, slot)
        while entry != NIL:
            touch_entry(cache, log, READ, RT_RUN_FLUSH, entry, var[AT_NEXT])
            after = i64(table.row[entry, NEXT])
            rt_free(table, cache, rcu, log, entry, cpu, now)
            table.stat[FLUSHED] += 1
            entry = after
        var[FLUSH_AT] = slot - 1
    return NEED_NOTHING


@kernel
def remove(
    table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, src: int, dst: int, word: int, cpu: int, now: int
) -> bool:
    """Unlink the entry of one flow; False if there is none. Up to var[ROOM_BUCKET] records, one place in the RCU queue."""
    row = table.row
    iif = iif_tos(word)
    slot = rt_hash_code(table, src, dst, iif)
    touch_bucket(table, log, READ, RT_FREE, slot)
    before = NIL
    entry = i64(table.bucket[slot])
    while entry != NIL:
        touch_entry(cache, log, READ, RT_FREE, entry, table.var[AT_KEY])
        if i64(row[entry, DST]) == dst and i64(row[entry, SRC]) == src and i64(row[entry, IIF_TOS]) == iif:
            unlink(table, cache, log, RT_FREE, slot, before, entry)
            rt_free(table, cache, rcu, log, entry, cpu, now)
            table.stat[REMOVED] += 1
            return True
        touch_entry(cache, log, READ, RT_FREE, entry, table.var[AT_NEXT])
        before = entry
        entry = i64(row[entry, NEXT])
    return False
