"""A batch of packets through the cache, in one kernel: look up, insert on a miss, stop wherever something must be done first.

The same decisions, records and counters as FlowCache.forward makes with lookup and insert, packet by packet.
"""

from collections.abc import Iterator

from models.access import DROPPED, USED, AccessLog, room
from models.flow import PacketBatch
from models.interface import NEED_LOG, NEED_NOTHING
from models.kernel import I64, NIL, i64, kernel
from models.rcu import RcuState
from models.rt_hash.insert import insert
from models.rt_hash.lookup import iif_tos, lookup, read_ahead
from models.rt_hash.state import AHEAD, ERRORS, IN_HIT, IN_SLOW_TOT, MISSED, RESULT, ROOM_LOOKUP, ROUTE, RtTable
from models.slab import SlabState, object_address


@kernel
def route_of(table: RtTable, entry: int) -> int:
    """Route of an entry; the row holds it as an unsigned word."""
    word = i64(table.row[entry, ROUTE])
    return word - ((word >> 31) << 32)


@kernel
def forward(
    table: RtTable,
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
    var = table.var
    stop = i64(batch.packets[0])
    i = i64(start)
    while i < stop:
        first = i
        last = min(stop, first + AHEAD)
        read_ahead(table, batch.key, first, last)
        while i < last:
            slot = i64(table.ahead[0, i - first])
            src = i64(batch.key[i, 0])
            dst = i64(batch.key[i, 1])
            iif = iif_tos(i64(batch.key[i, 3]))
            if var[MISSED] == NIL:
                if room(log) < var[ROOM_LOOKUP]:
                    return i, NEED_LOG
                entry = lookup(table, cache, log, slot, src, dst, iif, jiffies)
                if entry != NIL:
                    table.stat[IN_HIT] += 1
                    log.answer[i] = route_of(table, entry)
                    log.entry[i] = object_address(cache, entry)
                    log.end[i] = log.head[USED]
                    i += 1
                    continue
                log.miss[i] = log.head[USED]
                var[MISSED] = i
            need = insert(table, cache, rcu, log, slot, src, dst, iif, i64(batch.route[i]), cpu, now, jiffies)
            if need != NEED_NOTHING:
                return i, need
            var[MISSED] = NIL
            entry = i64(var[RESULT])
            if entry == NIL:
                table.stat[ERRORS] += 1
                log.answer[i] = DROPPED
                log.entry[i] = 0
            else:
                table.stat[IN_SLOW_TOT] += 1
                log.answer[i] = batch.route[i]
                log.entry[i] = object_address(cache, entry)
            log.end[i] = log.head[USED]
            i += 1
    return stop, NEED_NOTHING


@kernel
def forward_loop(
    table: RtTable, cache: SlabState, rcu: RcuState, log: AccessLog, batch: PacketBatch, numbers: I64
) -> Iterator[tuple[int, int]]:
    """`forward` over and over; numbers: start, cpu, now, jiffies."""
    while True:
        yield forward(table, cache, rcu, log, batch, i64(numbers[0]), i64(numbers[1]), i64(numbers[2]), i64(numbers[3]))
