"""State of unicache beside its trie: where each thing lies, what is in progress, the counters.

A leaf is one line of 64 bytes: header, the four key words, parent, list head. Its route entries are rtables of 256 bytes
with the field offsets of 2.6.20 on i386 (include/net/route.h). Because the leaf's key holds every part that the IPv4 match looks
at, a list has one entry here; gc_elasticity (3), which bounds its length, has nothing to do.
"""

from typing import NamedTuple

import numpy as np

from models.access import WRITE, AccessLog, touch
from models.flow import END_MARK, FIN, RST
from models.functions import number
from models.kernel import I32, I64, NIL, U32, i64, kernel
from models.lc_trie.nodes import TrieState

CALL_RCU_BH = number("call_rcu_bh")

KEY_WORDS = 4
HEADER, ENTRY, ROUTE, LASTUSE = 0, 5, 6, 7
"""Words of a leaf's row: header, key words 1 to 4, address of the route entry / 256 (0: not in use), route, last use in jiffies."""
TRIE_WORDS, COLUMNS = 5, 3

OBJECT_BYTES, PER_SLAB_OBJECTS, FIRST_OBJECT, RTABLE_BYTES = 256, 15, 256, 232
LEAF_BYTES = 64
AT_REFCNT, AT_NEIGHBOUR, AT_STATE, AT_RCU, AT_KEY, AT_PEER = 4, 104, 116, 128, 164, 228
"""Bytes within an rtable. The flow's state, which unicache_tcp_establish reads, is taken to lie beside `input`: inferred."""

SECRET, GC_THRESH, GC_GOAL, GC_SCAN, MAX_SIZE, TIMEOUT, INTERVAL, ACTIVE, STATICS = range(9)
ENTRIES, MISSED, LEAVING, RESULT, PHASE, NEW_LEAF, SINK = range(9, 16)
GC_LEFT, ROVER, SCANNED, LOOKED, BEST, BEST_AGE, VICTIM = range(16, 23)
TIMER_LEFT, TIMER_ROVER, TIMER_VICTIM, OUT = range(23, 27)
VARS = 27

START, COLLECT, COLLECTED, LINK = range(4)
"""var[PHASE], of the insertion in progress."""
IN_TRIE, UNLINKED = 0, 1
"""var[OUT], of the removal in progress."""

COUNTERS = (
    "in_hit", "in_slow_tot", "errors", "gc_total", "gc_passive", "gc_timer", "gc_active", "gc_scanned", "removed", "refused",
    "destroyed", "flushes", "flushed",
)  # fmt: skip
IN_HIT, IN_SLOW_TOT, ERRORS, GC_TOTAL, GC_PASSIVE, GC_TIMER, GC_ACTIVE, GC_SCANNED, REMOVED, REFUSED = range(10)
DESTROYED, FLUSHES, FLUSHED = 10, 11, 12

END_OF_FLOW = FIN | RST | END_MARK
"""Packet flags at which active collection takes a flow out."""

AHEAD = 300
"""Packets whose rows are read ahead of their lookups."""


class UnicacheState(NamedTuple):
    """What belongs to neither the trie nor the slab caches."""

    var: I64  # int64[VARS]: parameters, work in progress, see the index names above
    stat: I64  # int64[len(COUNTERS)]
    entry_of: I32  # int32[leaves]: the route entry of each leaf that is not destroyed
    probe: U32  # uint32[1, TRIE_WORDS]: the key being looked up
    ahead: I64  # int64[2, AHEAD]: headers of the next packets, and a reference of the trie for each


def make_state(rows: int, fixed: dict[int, int]) -> UnicacheState:
    """An empty state for `rows` leaves; `fixed` gives the parameters by index of `var`."""
    var = np.zeros(VARS, np.int64)
    for index, value in fixed.items():
        var[index] = value
    var[[MISSED, LEAVING, RESULT, NEW_LEAF, BEST, VICTIM, TIMER_VICTIM]] = NIL
    var[BEST_AGE] = -1
    return UnicacheState(
        var=var,
        stat=np.zeros(len(COUNTERS), np.int64),
        entry_of=np.full(rows, NIL, np.int32),
        probe=np.zeros((1, TRIE_WORDS), np.uint32),
        ahead=np.zeros((2, AHEAD), np.int64),
    )


@kernel
def entry_address(trie: TrieState, leaf: int) -> int:
    """Simulated address of the route entry of a leaf that is in use; it is a multiple of 256."""
    return i64(trie.leaf[leaf, ENTRY]) << 8


@kernel
def touch_statics(u: UnicacheState, log: AccessLog, function: int) -> None:
    """Write the line of the counters that every insertion and removal changes. One record."""
    touch(log, WRITE, function, u.var[STATICS])
