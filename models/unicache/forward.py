"""A batch of packets in one kernel: look up, take finished flows out, insert on a miss, stop wherever something must be done first.

The same decisions, records and counters as FlowCache.forward makes with lookup, after_hit and insert, packet by packet.
"""

from collections.abc import Iterator

from models.access import DROPPED, USED, AccessLog, room
from models.flow import PacketBatch
from models.interface import NEED_LOG, NEED_NOTHING
from models.kernel import I64, NIL, i64, kernel
from models.lc_trie.nodes import TrieState
from models.lc_trie.update import descent_records
from models.rcu import RcuState
from models.slab import SlabState
from models.unicache.insert import insert
from models.unicache.key import make_key, read_ahead
from models.unicache.lookup import LOOKUP_EXTRA, lookup, route_of
from models.unicache.remove import take_out
from models.unicache.state import (
    ACTIVE,
    AHEAD,
    END_OF_FLOW,
    ERRORS,
    GC_ACTIVE,
    IN_HIT,
    IN_SLOW_TOT,
    LEAVING,
    MISSED,
    RESULT,
    UnicacheState,
    entry_address,
)


@kernel
def forward(
    u: UnicacheState,
    trie: TrieState,
    leaves: SlabState,
    cache: SlabState,
    rcu: RcuState,
    log: AccessLog,
    batch: PacketBatch,
    start: int,
    cpu: int,
    now: int,
    jiffies: int,
) -> tuple[int, int]:
    """Packets `start` and on of a batch: where it stopped and why, see FlowCache.forward."""
    var = u.var
    stop = i64(batch.packets[0])
    need_room = descent_records(trie) + LOOKUP_EXTRA
    i = i64(start)
    while i < stop:
        first = i
        last = min(stop, first + AHEAD)
        read_ahead(u, trie, batch.key, first, last - first)
        while i < last:
            if var[MISSED] == NIL and var[LEAVING] == NIL:
                if room(log) < need_room:
                    return i, NEED_LOG
                make_key(u, batch.key, i, i64(u.ahead[0, i - first]))
                leaf = lookup(u, trie, log, jiffies)
                if leaf != NIL:
                    u.stat[IN_HIT] += 1
                    log.answer[i] = route_of(trie, leaf)
                    log.entry[i] = entry_address(trie, leaf)
                    if (i64(batch.flags[i]) & END_OF_FLOW) == 0 or var[ACTIVE] == 0:
                        log.end[i] = log.head[USED]
                        i += 1
                        continue
                    var[LEAVING] = leaf
                else:
                    log.miss[i] = log.head[USED]
                    var[MISSED] = i
            if var[LEAVING] != NIL:
                need = take_out(u, trie, rcu, log, i64(var[LEAVING]), cpu, now)
                if need != NEED_NOTHING:
                    return i, need
                var[LEAVING] = NIL
                u.stat[GC_ACTIVE] += 1
                log.end[i] = log.head[USED]
                i += 1
                continue
            make_key(u, batch.key, i, i64(u.ahead[0, i - first]))
            need = insert(u, trie, leaves, cache, log, i64(batch.route[i]), cpu, jiffies)
            if need != NEED_NOTHING:
                return i, need
            var[MISSED] = NIL
            leaf = i64(var[RESULT])
            if leaf == NIL:
                u.stat[ERRORS] += 1
                log.answer[i] = DROPPED
                log.entry[i] = 0
            else:
                u.stat[IN_SLOW_TOT] += 1
                log.answer[i] = batch.route[i]
                log.entry[i] = entry_address(trie, leaf)
            log.end[i] = log.head[USED]
            i += 1
    return stop, NEED_NOTHING


@kernel
def forward_loop(
    u: UnicacheState,
    trie: TrieState,
    leaves: SlabState,
    cache: SlabState,
    rcu: RcuState,
    log: AccessLog,
    batch: PacketBatch,
    numbers: I64,
) -> Iterator[tuple[int, int]]:
    """`forward` over and over; numbers: start, cpu, now, jiffies."""
    while True:
        yield forward(u, trie, leaves, cache, rcu, log, batch, i64(numbers[0]), i64(numbers[1]), i64(numbers[2]), i64(numbers[3]))
