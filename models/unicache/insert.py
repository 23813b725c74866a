"""The slow path's part of the cache: dst_alloc, a leaf, its place in the trie; passive collection before that if it is due.

A packet is refused (-ENOBUFS) when max_size route entries are in use, those that wait for their grace period among them.
ipv4_dst_ops.gc_thresh (3 * gc_thresh, unicache2 README), at which dst_alloc would ask for collection too, lies beyond what is
reached here and is left out.
"""

from models.access import WRITE, AccessLog, call, room, touch, touch_range
from models.functions import number
from models.interface import NEED_COLLECT, NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import NIL, i64, kernel
from models.lc_trie.moves import EXTRACT
from models.lc_trie.nodes import LEAVES, TrieState, leaf_address
from models.lc_trie.update import insert as trie_insert
from models.slab import SLAB_RECORDS, SlabState, object_address, slab_alloc, slab_room
from models.unicache.lookup import HASH_CODE
from models.unicache.state import (
    COLLECT,
    ENTRIES,
    ENTRY,
    GC_GOAL,
    GC_LEFT,
    GC_THRESH,
    GC_TOTAL,
    LASTUSE,
    LINK,
    MAX_SIZE,
    NEW_LEAF,
    PHASE,
    REFUSED,
    RESULT,
    ROUTE,
    RTABLE_BYTES,
    START,
    TRIE_WORDS,
    UnicacheState,
    touch_statics,
)

DST_ALLOC = number("dst_alloc")
IP_ROUTE_INPUT_SLOW = number("ip_route_input_slow")
TRIE_INSERT = number("trie_insert")

INSERT_RECORDS = 2 * SLAB_RECORDS + 8
"""Most records of an insertion before its leaf goes into the trie."""


@kernel
def insert(
    u: UnicacheState,
    trie: TrieState,
    leaves: SlabState,
    cache: SlabState,
    log: AccessLog,
    route: int,
    cpu: int,
    jiffies: int,
) -> int:
    """Cache the route of the flow in u.probe: NEED_NOTHING with its leaf in var[RESULT] (NIL: refused), or what must be done first.

    Called again with the same arguments after a stop.
    """
    var = u.var
    if var[PHASE] == COLLECT:
        return NEED_COLLECT
    if var[PHASE] != LINK:
        if room(log) < INSERT_RECORDS:
            return NEED_LOG
        if var[PHASE] == START and trie.var[LEAVES] >= var[GC_THRESH]:
            var[PHASE] = COLLECT
            var[GC_LEFT] = var[GC_GOAL]
            u.stat[GC_TOTAL] += 1
            return NEED_COLLECT
        if var[ENTRIES] >= var[MAX_SIZE]:
            var[PHASE] = START
            var[RESULT] = NIL
            u.stat[REFUSED] += 1
            return NEED_NOTHING
        if slab_room(cache, cpu) < 1 or slab_room(leaves, cpu) < 1:
            return NEED_POOL
        var[NEW_LEAF] = _new_leaf(u, trie, leaves, cache, log, route, cpu, jiffies)
        var[PHASE] = LINK
    need = trie_insert(trie, log, cpu, i64(var[NEW_LEAF]))
    if need == NEED_NOTHING:
        var[RESULT] = var[NEW_LEAF]
        var[NEW_LEAF] = NIL
        var[PHASE] = START
    return need


@kernel
def _new_leaf(
    u: UnicacheState,
    trie: TrieState,
    leaves: SlabState,
    cache: SlabState,
    log: AccessLog,
    route: int,
    cpu: int,
    jiffies: int,
) -> int:
    """A route entry, zeroed and filled, and a leaf with the key of u.probe that holds it."""
    call(log, DST_ALLOC, 1)
    entry = slab_alloc(cache, log, cpu)
    touch_range(log, WRITE, DST_ALLOC, object_address(cache, entry), RTABLE_BYTES)
    touch_statics(u, log, DST_ALLOC)
    touch_range(log, WRITE, IP_ROUTE_INPUT_SLOW, object_address(cache, entry), RTABLE_BYTES)
    u.var[ENTRIES] += 1
    call(log, HASH_CODE, 1)
    call(log, EXTRACT, 1)
    leaf = slab_alloc(leaves, log, cpu)
    touch(log, WRITE, TRIE_INSERT, leaf_address(trie, leaf))
    for word in range(TRIE_WORDS):
        trie.leaf[leaf, word] = u.probe[0, word]
    trie.leaf[leaf, ENTRY] = object_address(cache, entry) >> 8
    trie.leaf[leaf, ROUTE] = route & 0xFFFFFFFF
    trie.leaf[leaf, LASTUSE] = jiffies & 0xFFFFFFFF
    u.entry_of[leaf] = entry
    return leaf
