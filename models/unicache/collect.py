"""Passive collection (at insertion) and the timer's.

Public of them (unicache2 README): the number of leaves is the measure, checked against gc_thresh at insertion; entries go until
gc_goal is met; a timer collects beside it. Inferred: a rover walks over the leaves, gc_scan of them are looked at for each
one removed, and the longest unused goes; the timer visits the share gc_interval / gc_timeout of the leaves each time and removes
what was idle for gc_timeout. A look costs the leaf's line and the entry's first line (lastuse). `last used` of ties: the first.
"""

from models.access import READ, AccessLog, call, room, touch
from models.functions import number
from models.interface import NEED_LOG, NEED_NOTHING
from models.kernel import NIL, i64, kernel
from models.lc_trie.nodes import LEAVES, TrieState, leaf_address
from models.rcu import RcuState
from models.slab import PER_SLAB, SLABS, SlabState
from models.unicache.remove import take_out
from models.unicache.state import (
    AT_REFCNT,
    BEST,
    BEST_AGE,
    COLLECT,
    COLLECTED,
    ENTRY,
    GC_LEFT,
    GC_PASSIVE,
    GC_SCAN,
    GC_SCANNED,
    GC_TIMER,
    LASTUSE,
    LOOKED,
    PHASE,
    ROVER,
    SCANNED,
    TIMEOUT,
    TIMER_LEFT,
    TIMER_ROVER,
    TIMER_VICTIM,
    VICTIM,
    UnicacheState,
    entry_address,
)

GARBAGE_COLLECT = number("unicache_garbage_collect")


@kernel
def _idle(u: UnicacheState, trie: TrieState, log: AccessLog, leaf: int, jiffies: int) -> int:
    """Jiffies since a leaf was last used. Two records."""
    touch(log, READ, GARBAGE_COLLECT, leaf_address(trie, leaf))
    touch(log, READ, GARBAGE_COLLECT, entry_address(trie, leaf) + AT_REFCNT)
    u.stat[GC_SCANNED] += 1
    return (jiffies - i64(trie.leaf[leaf, LASTUSE])) & 0xFFFFFFFF


@kernel
def _scan(u: UnicacheState, trie: TrieState, leaves: SlabState, log: AccessLog, jiffies: int) -> int:
    """Look at gc_scan leaves from the rover on, or at all if there are fewer; the longest unused becomes var[VICTIM]."""
    var = u.var
    ids = i64(leaves.var[SLABS] * leaves.var[PER_SLAB])
    while var[SCANNED] < var[GC_SCAN] and var[LOOKED] < ids:
        if room(log) < 2:
            return NEED_LOG
        leaf = i64(var[ROVER]) if var[ROVER] < ids else 0
        var[ROVER] = leaf + 1
        var[LOOKED] += 1
        if i64(trie.leaf[leaf, ENTRY]) != 0:
            age = _idle(u, trie, log, leaf, jiffies)
            var[SCANNED] += 1
            if age > var[BEST_AGE]:
                var[BEST_AGE] = age
                var[BEST] = leaf
    var[VICTIM] = var[BEST]
    var[BEST] = NIL
    var[BEST_AGE] = -1
    var[SCANNED] = 0
    var[LOOKED] = 0
    return NEED_NOTHING


@kernel
def collect(
    u: UnicacheState,
    trie: TrieState,
    leaves: SlabState,
    rcu: RcuState,
    log: AccessLog,
    cpu: int,
    now: int,
    jiffies: int,
) -> int:
    """The passive collection that an insertion has asked for; NEED_NOTHING when its goal is met."""
    var = u.var
    if var[PHASE] != COLLECT:
        return NEED_NOTHING
    while True:
        if var[VICTIM] != NIL:
            need = take_out(u, trie, rcu, log, i64(var[VICTIM]), cpu, now)
            if need != NEED_NOTHING:
                return need
            var[VICTIM] = NIL
            var[GC_LEFT] -= 1
            u.stat[GC_PASSIVE] += 1
        if var[GC_LEFT] == 0 or trie.var[LEAVES] == 0:
            var[PHASE] = COLLECTED
            return NEED_NOTHING
        if var[LOOKED] == 0:
            call(log, GARBAGE_COLLECT, 1)
        need = _scan(u, trie, leaves, log, jiffies)
        if need != NEED_NOTHING:
            return need


@kernel
def collect_timer(
    u: UnicacheState,
    trie: TrieState,
    leaves: SlabState,
    rcu: RcuState,
    log: AccessLog,
    cpu: int,
    now: int,
    jiffies: int,
) -> int:
    """A slice of the timer's collection: var[TIMER_LEFT] leaf ids are still to be visited."""
    var = u.var
    ids = i64(leaves.var[SLABS] * leaves.var[PER_SLAB])
    while True:
        if var[TIMER_VICTIM] != NIL:
            need = take_out(u, trie, rcu, log, i64(var[TIMER_VICTIM]), cpu, now)
            if need != NEED_NOTHING:
                return need
            var[TIMER_VICTIM] = NIL
            u.stat[GC_TIMER] += 1
        if var[TIMER_LEFT] <= 0 or ids == 0:
            var[TIMER_LEFT] = 0
            return NEED_NOTHING
        if room(log) < 2:
            return NEED_LOG
        leaf = i64(var[TIMER_ROVER]) if var[TIMER_ROVER] < ids else 0
        var[TIMER_ROVER] = leaf + 1
        var[TIMER_LEFT] -= 1
        if i64(trie.leaf[leaf, ENTRY]) != 0 and _idle(u, trie, log, leaf, jiffies) > var[TIMEOUT]:
            var[TIMER_VICTIM] = leaf
