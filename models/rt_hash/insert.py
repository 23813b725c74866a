"""The slow path's part of the cache: dst_alloc, then rt_intern_hash.

Source: net/core/dst.c, dst_alloc; net/ipv4/route.c, ip_route_input_slow and rt_intern_hash; 2.6.20.
dst_alloc asks for collection whenever more than gc_thresh entries are in use; nearly all of these calls end at the rate limit.
rt_intern_hash walks the chain once more, for a twin that another CPU may have inserted and for a victim: with more than
gc_elasticity entries on the chain the one with the lowest score, that is the longest unused, makes room; ties go to the deepest.
Left out: rt_score's bonus for redirected and expiring routes, which forwarded unicast never has; the neighbour's binding, which the
slow path itself accounts for.
"""

from models.access import READ, WRITE, AccessLog, call, room, touch, touch_range
from models.functions import number
from models.interface import NEED_COLLECT, NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import NIL, i64, kernel
from models.rcu import RcuState, rcu_room
from models.rt_hash.free import rt_free, unlink
from models.rt_hash.lookup import RT_HASH_CODE, iif_tos, rt_hash_code
from models.rt_hash.state import (
    ALLOCATED,
    AT_KEY,
    AT_NEXT,
    AT_REFCNT,
    COLLECT,
    DST,
    DUPLICATES,
    ELASTICITY,
    ENTRIES,
    EVICTED,
    GC_IGNORED,
    GC_MIN_INTERVAL,
    GC_THRESH,
    GC_TOTAL,
    IIF_TOS,
    LAST_GC,
    LASTUSE,
    LINKED,
    MAX_SIZE,
    NEXT,
    PHASE,
    PLACE,
    REFUSED,
    RESULT,
    ROOM_INSERT,
    ROUTE,
    RTABLE_BYTES,
    SRC,
    START,
    STATICS,
    STATICS_GC,
    STATICS_OPS,
    SWEEP,
    USE,
    RtTable,
    apart,
    touch_bucket,
    touch_entry,
)
from models.slab import SlabState, object_address, slab_alloc, slab_room

DST_ALLOC = number("dst_alloc")
IP_ROUTE_INPUT_SLOW = number("ip_route_input_slow")
RT_INTERN_HASH = number("rt_intern_hash")
RT_GARBAGE_COLLECT = number("rt_garbage_collect")

_SCORE_BITS = 0x3FFFFFFF


@kernel
def _collection_is_due(table: RtTable, log: AccessLog, jiffies: int) -> bool:
    """dst_alloc's threshold, then rt_garbage_collect up to its rate limit."""
    var = table.var
    if var[ENTRIES] <= var[GC_THRESH]:
        return False
    call(log, RT_GARBAGE_COLLECT, 1)
    table.stat[GC_TOTAL] += 1
    touch(log, READ, RT_GARBAGE_COLLECT, var[STATICS] + STATICS_GC)
    if jiffies - var[LAST_GC] < var[GC_MIN_INTERVAL] and var[ENTRIES] < var[MAX_SIZE]:
        table.stat[GC_IGNORED] += 1
        return False
    return True


@kernel
def _dst_alloc(table: RtTable, cache: SlabState, log: AccessLog, cpu: int) -> int:
    """A new entry, zeroed, counted as in use."""
    call(log, DST_ALLOC, 1)
    entry = slab_alloc(cache, log, cpu)
    touch_range(log, WRITE, DST_ALLOC, object_address(cache, entry), RTABLE_BYTES)
    touch(log, WRITE, DST_ALLOC, table.var[STATICS] + STATICS_OPS)
    table.var[ENTRIES] += 1
    table.stat[ALLOCATED] += 1
    return entry


@kernel
def _intern(
    table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, slot: int, new: int, cpu: int, now: int, jiffies: int
) -> int:
    """rt_intern_hash: link `new`, or throw it away for an entry with the same key. Returns the entry that is on the chain."""
    var = table.var
    row = table.row
    call(log, RT_INTERN_HASH, 1)
    touch_bucket(table, log, READ, RT_INTERN_HASH, slot)
    before = NIL
    entry = i64(table.bucket[slot])
    victim = NIL
    before_victim = NIL
    lowest = 0xFFFFFFFF
    chain_length = 0
    while entry != NIL:
        touch_entry(cache, log, READ, RT_INTERN_HASH, entry, var[AT_KEY])
        if (
            i64(row[entry, DST]) == i64(row[new, DST])
            and i64(row[entry, SRC]) == i64(row[new, SRC])
            and i64(row[entry, IIF_TOS]) == i64(row[new, IIF_TOS])
        ):
            unlink(table, cache, log, RT_INTERN_HASH, slot, before, entry)
            row[entry, NEXT] = table.bucket[slot]
            table.bucket[slot] = entry
            row[entry, LASTUSE] = jiffies & 0xFFFFFFFF
            row[entry, USE] = (i64(row[entry, USE]) + 1) & 0xFFFFFFFF
            touch_entry(cache, log, WRITE, RT_INTERN_HASH, entry, var[AT_NEXT])
            touch_bucket(table, log, WRITE, RT_INTERN_HASH, slot)
            rt_free(table, cache, rcu, log, new, cpu, now)
            table.stat[DUPLICATES] += 1
            return entry
        touch_entry(cache, log, READ, RT_INTERN_HASH, entry, var[AT_REFCNT])
        if apart(table, AT_NEXT, AT_REFCNT) and apart(table, AT_NEXT, AT_KEY):
            touch_entry(cache, log, READ, RT_INTERN_HASH, entry, var[AT_NEXT])
        score = ~(jiffies - i64(row[entry, LASTUSE])) & _SCORE_BITS
        if score <= lowest:
            victim = entry
            before_victim = before
            lowest = score
        chain_length += 1
        before = entry
        entry = i64(row[entry, NEXT])
    if victim != NIL and chain_length > var[ELASTICITY]:
        unlink(table, cache, log, RT_INTERN_HASH, slot, before_victim, victim)
        rt_free(table, cache, rcu, log, victim, cpu, now)
        table.stat[EVICTED] += 1
    row[new, NEXT] = table.bucket[slot]
    row[new, PLACE] = LINKED
    table.bucket[slot] = new
    touch_entry(cache, log, WRITE, RT_INTERN_HASH, new, var[AT_NEXT])
    touch_bucket(table, log, WRITE, RT_INTERN_HASH, slot)
    return new


@kernel
def insert(
    table: RtTable,
    cache: SlabState,
    rcu: RcuState,
    log: AccessLog,
    slot: int,
    src: int,
    dst: int,
    iif: int,
    route: int,
    cpu: int,
    now: int,
    jiffies: int,
) -> int:
    """Cache the route of a missed packet: NEED_NOTHING with the entry in var[RESULT] (NIL: refused), or what must be done first.

    Called again with the same arguments after a stop. Up to var[ROOM_INSERT] records, one object, one place in the RCU queue.
    """
    var = table.var
    row = table.row
    if var[PHASE] == COLLECT or var[PHASE] == SWEEP:
        return NEED_COLLECT
    if room(log) < var[ROOM_INSERT]:
        return NEED_LOG
    if var[PHASE] == REFUSED:
        var[PHASE] = START
        var[RESULT] = NIL
        return NEED_NOTHING
    if slab_room(cache, cpu) < 1 or rcu_room(rcu, cpu) < 1:
        return NEED_POOL
    if var[PHASE] == START and _collection_is_due(table, log, jiffies):
        var[PHASE] = COLLECT
        return NEED_COLLECT
    var[PHASE] = START
    new = _dst_alloc(table, cache, log, cpu)
    touch_range(log, WRITE, IP_ROUTE_INPUT_SLOW, object_address(cache, new), RTABLE_BYTES)
    row[new, SRC] = src
    row[new, DST] = dst
    row[new, IIF_TOS] = iif
    row[new, LASTUSE] = jiffies & 0xFFFFFFFF
    row[new, ROUTE] = route & 0xFFFFFFFF
    row[new, USE] = 0
    call(log, RT_HASH_CODE, 1)
    var[RESULT] = _intern(table, cache, rcu, log, slot, new, cpu, now, jiffies)
    return NEED_NOTHING


@kernel
def insert_key(
    table: RtTable,
    cache: SlabState,
    rcu: RcuState,
    log: AccessLog,
    src: int,
    dst: int,
    word: int,
    route: int,
    cpu: int,
    now: int,
    jiffies: int,
) -> int:
    """insert() of a flow given by its key words."""
    iif = iif_tos(word)
    slot = rt_hash_code(table, src, dst, iif)
    return insert(table, cache, rcu, log, slot, src, dst, iif, route, cpu, now, jiffies)
