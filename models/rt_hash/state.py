"""The routing cache's state: bucket array, one row per dst entry, scalars and counters; and where a dst entry's fields lie.

Source: net/ipv4/route.c, include/net/dst.h and include/net/route.h of Linux 2.6.20 (and the moved fields of 2.6.21), i386.
A bucket is one 4-byte pointer to the head of a singly linked chain, newest entry first. A dst entry (struct rtable) is an
object of 256 bytes of the slab cache ip_dst_cache, on four cache lines; its row here is found under its slab id.
Left out: reference counts (an entry in flight may expire), per-bucket locks (uncontended with two CPUs), expiry times,
metrics and everything else of an entry that no forwarded packet reads.
"""

from typing import NamedTuple

import numpy as np

from models.access import ON, AccessLog, touch
from models.kernel import I32, I64, NIL, U32, kernel
from models.slab import SLAB_RECORDS, SlabState, object_address

SRC, DST, IIF_TOS, NEXT, LASTUSE, ROUTE, USE, PLACE = range(8)
"""Columns of a row: addresses, interface | tos << 16, next in chain, jiffies of last use, route, hits, where the entry is."""
FREE, LINKED, WAITING = range(3)
"""Values of PLACE: not in use, on a chain, unlinked and waiting for its grace period."""

# Fixed for the run, except for the hash secret.
MASK, RND, GC_THRESH, MAX_SIZE, ELASTICITY, GC_TIMEOUT, GC_INTERVAL, GC_MIN_INTERVAL, PER_TICK, TABLE, STATICS = range(11)
"""Buckets - 1, hash secret, limits in entries (two), chain bound, jiffies (three), buckets an expiry run visits, two addresses."""
AT_KEY, AT_NEXT, AT_LASTUSE, AT_REFCNT, AT_USE, AT_EXPIRES, AT_RCU, AT_NEIGHBOUR, AT_IDEV, AT_PEER = range(11, 21)
"""Byte offsets of fields in a dst entry."""
FIELDS = ("key", "next", "lastuse", "refcnt", "use", "expires", "rcu_head", "neighbour", "idev", "peer")
"""Their names, in the order of the indices."""
ROOM_LOOKUP, ROOM_INSERT, ROOM_BUCKET = range(21, 24)
"""Records that one lookup, one insertion, one bucket of a sweep can write."""
# Moving.
ENTRIES, EXPIRE, LAST_GC, ROVER, EQUILIBRIUM, PHASE, GOAL, LEFT, RESULT, MISSED = range(24, 34)
"""Entries in use; statics of the collection (jiffies, jiffies, bucket, entries); then what a call leaves for the next one:
phase of the pending insertion, entries the sweep must still remove, buckets it may still visit, entry inserted, packet missed."""
CHECK_ROVER, CHECK_LEFT, FLUSH_AT = range(34, 37)
"""Bucket and remaining buckets of the periodic expiry, next bucket of a flush (-1: none runs)."""
VARS = 37

START, COLLECT, SWEEP, PASSED, REFUSED = range(5)
"""Values of PHASE: nothing pending; collection due; sweep under way; collection let the insertion pass; it refused the packet."""

COUNTERS = (
    # columns of rtstat
    "in_hit", "in_slow_tot", "gc_total", "gc_ignored", "gc_goal_miss", "gc_dst_overflow", "in_hlist_search",
    # what rtstat does not show
    "errors", "gc_runs", "gc_danger", "gc_buckets", "gc_scans", "gc_removed", "evicted", "duplicates", "in_hlist_miss",
    "check_runs", "check_scans", "check_removed", "flushes", "flushed", "removed", "allocated", "destroyed",
)  # fmt: skip
(
    IN_HIT, IN_SLOW_TOT, GC_TOTAL, GC_IGNORED, GC_GOAL_MISS, GC_DST_OVERFLOW, IN_HLIST_SEARCH,
    ERRORS, GC_RUNS, GC_DANGER, GC_BUCKETS, GC_SCANS, GC_REMOVED, EVICTED, DUPLICATES, IN_HLIST_MISS,
    CHECK_RUNS, CHECK_SCANS, CHECK_REMOVED, FLUSHES, FLUSHED, REMOVED, ALLOCATED, DESTROYED,
) = range(len(COUNTERS))  # fmt: skip
DEPTH = len(COUNTERS)
DEPTHS = 16
"""Behind the counters: hits by depth in the chain, the last one for that depth and all below."""

AHEAD, AHEAD_LEVELS = 64, 8
"""Packets whose chains are read ahead together, and how many entries deep."""

OBJECT_BYTES, RTABLE_BYTES, PER_SLAB_OBJECTS, FIRST_OBJECT = 256, 232, 15, 256
"""ip_dst_cache on i386: object, what of it dst_alloc zeroes, objects a page, where the first lies behind the slab header."""

STATICS_OPS, STATICS_GC = 0, 64
"""In the statics' region: ipv4_dst_ops (entries, gc_thresh) and the collection's variables, each on a line."""

LAYOUTS: dict[str, dict[int, int]] = {
    "2.6.20": {
        AT_NEXT: 0, AT_REFCNT: 4, AT_USE: 8, AT_LASTUSE: 28, AT_EXPIRES: 32, AT_NEIGHBOUR: 104, AT_RCU: 128, AT_IDEV: 136,
        AT_KEY: 168, AT_PEER: 228,
    },
    "2.6.21": {
        AT_RCU: 0, AT_EXPIRES: 24, AT_NEIGHBOUR: 96, AT_LASTUSE: 120, AT_REFCNT: 124, AT_USE: 128, AT_NEXT: 132, AT_KEY: 140,
        AT_IDEV: 196, AT_PEER: 228,
    },
}  # fmt: skip
"""Field offsets in struct rtable on i386, without CONFIG_NET_CLS_ROUTE."""


class RtTable(NamedTuple):
    """The routing cache, apart from the slab cache its entries come from."""

    var: I64  # int64[VARS], see the index names above
    stat: I64  # int64[DEPTH + DEPTHS], counters and hits by depth
    bucket: I32  # int32[buckets], first entry of each chain or NIL
    row: U32  # uint32[entries, 8], one row per slab object, see the column names above
    ahead: I32  # int32[2, AHEAD], scratch of the read-ahead: bucket of each packet, entry it has got to


def make_rows(rows: int) -> U32:
    """Zeroed rows of 32 bytes, none of which straddles a cache line of the host."""
    raw = np.zeros(rows * 8 + 16, np.uint32)
    skip = (-raw.ctypes.data % 64) // 4
    return raw[skip : skip + rows * 8].reshape(rows, 8)


def make_table(buckets: int, rows: int, fixed: dict[int, int], layout: str) -> RtTable:
    """An empty table; `fixed` gives the scalars that the parameters decide, by index."""
    var = np.zeros(VARS, np.int64)
    for index, value in (fixed | LAYOUTS[layout]).items():
        var[index] = value
    chain = int(var[ELASTICITY]) + 1
    var[MASK] = buckets - 1
    var[ROOM_LOOKUP] = 3 + 2 * chain
    var[ROOM_INSERT] = SLAB_RECORDS + 16 + 3 * chain
    var[ROOM_BUCKET] = 2 + 5 * chain
    var[EXPIRE] = var[GC_TIMEOUT]
    var[LAST_GC] = -var[GC_MIN_INTERVAL]  # the box has been up for a while: the first collection is not held back
    var[RESULT] = var[MISSED] = NIL
    var[CHECK_LEFT] = var[FLUSH_AT] = -1
    return RtTable(
        var=var,
        stat=np.zeros(DEPTH + DEPTHS, np.int64),
        bucket=np.full(buckets, NIL, np.int32),
        row=make_rows(rows),
        ahead=np.zeros((2, AHEAD), np.int32),
    )


@kernel
def touch_entry(cache: SlabState, log: AccessLog, kind: int, function: int, entry: int, offset: int) -> None:
    """One access to the field of an entry that lies `offset` bytes in."""
    if log.head[ON] != 0:
        touch(log, kind, function, object_address(cache, entry) + offset)


@kernel
def touch_bucket(table: RtTable, log: AccessLog, kind: int, function: int, slot: int) -> None:
    """One access to a bucket's pointer."""
    touch(log, kind, function, table.var[TABLE] + 4 * slot)


@kernel
def apart(table: RtTable, one: int, other: int) -> bool:
    """True if two fields of an entry lie on different cache lines."""
    return bool((table.var[one] >> 6) != (table.var[other] >> 6))
