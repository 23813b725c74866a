"""Garbage collection on the slow path: rt_garbage_collect, in slices.

Source: net/ipv4/route.c, 2.6.20, rt_garbage_collect and rt_may_expire. Beyond its rate limit a run sets itself a goal: up to
gc_elasticity entries a bucket ("normal") half of what exceeds a creeping equilibrium, above it ("danger") at least one
entry a bucket. It walks the buckets from where the last run stopped until the goal is met. An entry goes if it has not been used
for `expire`, halved for each entry kept before it on its chain. `expire` itself is halved by a sweep that misses its goal and grows
by gc_min_interval with each success.
Left out: the further sweeps that the kernel makes outside softirq (forwarding is always inside: exactly one), the immunity of
referenced and of redirected routes (forwarded unicast has neither), two CPUs collecting at once.
"""

from models.access import READ, WRITE, AccessLog, call, room, touch
from models.functions import number
from models.interface import NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import NIL, i64, kernel
from models.rcu import RcuState, rcu_room
from models.rt_hash.free import rt_free, unlink
from models.rt_hash.insert import RT_GARBAGE_COLLECT
from models.rt_hash.state import (
    AT_EXPIRES,
    AT_NEXT,
    AT_REFCNT,
    COLLECT,
    ELASTICITY,
    ENTRIES,
    EQUILIBRIUM,
    EXPIRE,
    GC_BUCKETS,
    GC_DANGER,
    GC_DST_OVERFLOW,
    GC_GOAL_MISS,
    GC_MIN_INTERVAL,
    GC_REMOVED,
    GC_RUNS,
    GC_SCANS,
    GC_THRESH,
    GC_TIMEOUT,
    GOAL,
    LAST_GC,
    LASTUSE,
    LEFT,
    MASK,
    MAX_SIZE,
    NEXT,
    PASSED,
    PHASE,
    REFUSED,
    ROOM_BUCKET,
    ROVER,
    STATICS,
    STATICS_GC,
    SWEEP,
    RtTable,
    apart,
    touch_bucket,
    touch_entry,
)
from models.slab import SlabState

RT_MAY_EXPIRE = number("rt_may_expire")


@kernel
def scan_bucket(
    table: RtTable,
    cache: SlabState,
    rcu: RcuState,
    log: AccessLog,
    function: int,
    slot: int,
    timeout: int,
    cpu: int,
    now: int,
    jiffies: int,
) -> tuple[int, int]:
    """Unlink what may expire on one chain; entries scanned and removed. Up to 2 + 5 * chain records, chain RCU places."""
    var = table.var
    touch_bucket(table, log, READ, function, slot)
    before = NIL
    entry = i64(table.bucket[slot])
    scanned = 0
    removed = 0
    while entry != NIL:
        call(log, RT_MAY_EXPIRE, 1)
        touch_entry(cache, log, READ, RT_MAY_EXPIRE, entry, var[AT_REFCNT])
        if apart(table, AT_EXPIRES, AT_REFCNT):
            touch_entry(cache, log, READ, RT_MAY_EXPIRE, entry, var[AT_EXPIRES])
        if apart(table, AT_NEXT, AT_REFCNT) and apart(table, AT_NEXT, AT_EXPIRES):
            touch_entry(cache, log, READ, function, entry, var[AT_NEXT])
        scanned += 1
        after = i64(table.row[entry, NEXT])
        if (jiffies - i64(table.row[entry, LASTUSE])) & 0xFFFFFFFF <= timeout:  # 32 bits, as on i386
            timeout >>= 1
            before = entry
        else:
            unlink(table, cache, log, function, slot, before, entry)
            rt_free(table, cache, rcu, log, entry, cpu, now)
            removed += 1
        entry = after
    return scanned, removed


@kernel
def _set_goal(table: RtTable, log: AccessLog, jiffies: int) -> None:
    """How many entries this run wants to remove, and how the equilibrium moves."""
    var = table.var
    buckets = var[MASK] + 1
    goal = var[ENTRIES] - var[ELASTICITY] * buckets
    if goal <= 0:
        var[EQUILIBRIUM] = max(var[EQUILIBRIUM], var[GC_THRESH])
        goal = var[ENTRIES] - var[EQUILIBRIUM]
        if goal > 0:
            var[EQUILIBRIUM] += min(goal // 2, buckets)
            goal = var[ENTRIES] - var[EQUILIBRIUM]
    else:
        table.stat[GC_DANGER] += 1
        goal = max(goal // 2, buckets)
        var[EQUILIBRIUM] = var[ENTRIES] - goal
    if jiffies - var[LAST_GC] >= var[GC_MIN_INTERVAL]:
        var[LAST_GC] = jiffies
    if goal <= 0:
        var[EQUILIBRIUM] += goal
    var[GOAL] = goal
    var[LEFT] = buckets
    table.stat[GC_RUNS] += 1
    touch(log, WRITE, RT_GARBAGE_COLLECT, var[STATICS] + STATICS_GC)


@kernel
def _finish(table: RtTable, log: AccessLog) -> None:
    """What a run that met its goal, or swept all buckets in vain, leaves behind."""
    var = table.var
    touch(log, WRITE, RT_GARBAGE_COLLECT, var[STATICS] + STATICS_GC)
    if var[GOAL] <= 0:
        var[EXPIRE] += var[GC_MIN_INTERVAL]
        # The second condition never holds on the slow path, which comes here with entries above gc_thresh.
        if var[EXPIRE] > var[GC_TIMEOUT] or var[ENTRIES] < var[GC_THRESH]:
            var[EXPIRE] = var[GC_TIMEOUT]
        var[PHASE] = PASSED
        return
    table.stat[GC_GOAL_MISS] += 1
    var[EXPIRE] >>= 1
    if var[ENTRIES] < var[MAX_SIZE]:
        var[PHASE] = PASSED
    else:
        table.stat[GC_DST_OVERFLOW] += 1
        var[PHASE] = REFUSED


@kernel
def collect(table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, cpu: int, now: int, jiffies: int) -> int:
    """Go on with the collection that is due: NEED_NOTHING when it is over (or none is due), else what must be done first."""
    var = table.var
    if var[PHASE] != COLLECT and var[PHASE] != SWEEP:
        return NEED_NOTHING
    if room(log) < var[ROOM_BUCKET]:
        return NEED_LOG
    if var[PHASE] == COLLECT:
        _set_goal(table, log, jiffies)
        var[PHASE] = SWEEP
    while var[GOAL] > 0 and var[LEFT] > 0:
        if room(log) < var[ROOM_BUCKET]:
            return NEED_LOG
        if rcu_room(rcu, cpu) < var[ELASTICITY] + 1:
            return NEED_POOL
        slot = (var[ROVER] + 1) & var[MASK]
        scanned, removed = scan_bucket(table, cache, rcu, log, RT_GARBAGE_COLLECT, slot, i64(var[EXPIRE]), cpu, now, jiffies)
        var[ROVER] = slot
        var[LEFT] -= 1
        var[GOAL] -= removed
        table.stat[GC_BUCKETS] += 1
        table.stat[GC_SCANS] += scanned
        table.stat[GC_REMOVED] += removed
    if room(log) < var[ROOM_BUCKET]:
        return NEED_LOG
    _finish(table, log)
    return NEED_NOTHING
