"""Pricing: puts packet path, structure and slow path in the kernel's order, and sends every touch through the memory model.

For each packet: its `receive` rows, the structure's records up to the end of its lookup, on a miss the slow path's records, the
structure's remaining records, its `forward` rows. A packet may be spread over several logs: what one call has done of it is
remembered, so that each part is priced once. The order is written to a flat list first and then priced in one loop:
the memory model is compiled in one place, and its state stays in registers and the host's caches.

Counts land in Memory.counts; turning them into cycles is the cost sheet's affair.
"""

import numpy as np

from models.access import (
    DMA,
    DROPPED,
    LINE,
    LINE_SHIFT,
    USED,
    AccessLog,
    record_function,
    record_kind,
    record_line,
    record_lines,
)
from models.flow import PacketBatch
from models.functions import MAX_FUNCTIONS, number
from models.kernel import I32, I64, NIL, i64, inlined, kernel
from sim.cache import access, device_write
from sim.memory import MOST_LINES, Memory, cpu_base
from sim.packet_path import (
    BASE,
    COMPLETE,
    COPYBREAK,
    DST,
    FORWARD,
    FRAME,
    FRAME_OFFSET,
    FUNCTION,
    KIND,
    MOVES,
    OBJECT,
    OFFSET,
    OPEN,
    OPEN_SLOT,
    PER_CPU,
    RECEIVE,
    RECENT,
    RX,
    RX_MASK,
    RX_NEXT,
    RX_WRITTEN,
    SLOT,
    STRIDE,
    TX,
    TX_DONE,
    TX_MASK,
    TX_NEXT,
    PacketPath,
    give_slot,
    take_slot,
    with_room,
)

RX_IRQ = number("e1000_clean_rx_irq")
TX_IRQ = number("e1000_clean_tx_irq")
RX_DESC, RX_BUFFER, TX_DESC = 0, 2, 6

_NOTHING = np.zeros(0, np.int32)

CLOSED, LOOKED_UP, ROUTED = 0, 1, 2
"""How much of the open packet is priced: nothing; its receive rows; its slow path too."""


@inlined
def _price(mem: Memory, cpu: int, records: I64, stop: int) -> None:
    """Send records through the memory model in order."""
    base = cpu_base(mem, cpu)
    for i in range(stop):
        record = records[i]
        line = record_line(record)
        function = record_function(record)
        kind = record_kind(record)
        for j in range(record_lines(record)):
            # An address beyond the simulated memory wraps: it must not reach beyond the model's arrays.
            at = (line + j) & MOST_LINES
            if kind == DMA:
                device_write(mem, at, function, False)
            else:
                access(mem, base, cpu, at, kind, function)


@inlined
def _rows(path: PacketPath, n: int, phase: int, cpu: int, position: int, slot: int, entry: int, plane: int) -> int:
    """Write the rows of one phase of one packet behind `n` records; returns the new number of records."""
    ring = path.var[RX_MASK] if phase == RECEIVE else path.var[TX_MASK]
    for r in range(path.begin[phase], path.begin[phase + 1]):
        which = path.row[r, OBJECT]
        moves = path.object[which, MOVES]
        index = 0
        if RX <= moves <= TX:
            index = position & ring
        elif moves == SLOT:
            index = slot
        elif moves == DST:
            if entry <= 0:
                continue
            index = entry
        address = path.object[which, BASE] + cpu * path.object[which, PER_CPU] + index * path.object[which, STRIDE]
        address += path.row[r, OFFSET]
        more = 0
        if which == FRAME:
            more = path.lines[cpu, position & (RECENT - 1)] - 1
        function = path.row[r, FUNCTION] + plane * MAX_FUNCTIONS
        path.todo[n] = ((address >> LINE_SHIFT) << 28) | (more << 12) | (function << 3) | path.row[r, KIND]
        n += 1
    return n


@inlined
def _copy(path: PacketPath, n: int, records: I64, first: int, stop: int, plane: int) -> int:
    """Write records of a log behind `n` records, in a plane; returns the new number of records."""
    for r in range(first, stop):
        path.todo[n] = records[r] | (plane * MAX_FUNCTIONS << 3)
        n += 1
    return n


@kernel
def _merge(path: PacketPath, log: AccessLog, slow: AccessLog, cpu: int, first: int, stop: int, packets: int) -> int:
    """Write to `todo` what price_poll prices; returns the number of records."""
    n = 0
    at = 0
    slow_at = 0
    missed = 0
    used = log.head[USED]
    for i in range(first, stop + 1):
        whole = i < stop
        miss = NIL
        if i < packets:
            miss = log.miss[i]
        done = path.cpu[cpu, OPEN]
        if not whole:
            if i >= packets:
                return _copy(path, n, log.record, at, used, 0)
            if at == used and (miss == NIL or done == ROUTED):
                return n
        plane = 0 if miss == NIL else 1
        if done == CLOSED:
            slot = take_slot(path, cpu)
            path.cpu[cpu, OPEN_SLOT] = slot
            n = _rows(path, n, RECEIVE, cpu, path.cpu[cpu, RX_NEXT], slot, 0, plane)
            path.cpu[cpu, RX_NEXT] += 1
            done = LOOKED_UP
        if miss != NIL and done != ROUTED:
            n = _copy(path, n, log.record, at, miss, plane)
            at = max(at, miss)
            n = _copy(path, n, slow.record, slow_at, slow.end[missed], plane)
            slow_at = slow.end[missed]
            missed += 1
            done = ROUTED
        end = log.end[i] if whole else used
        n = _copy(path, n, log.record, at, end, plane)
        at = max(at, end)
        path.cpu[cpu, OPEN] = done
        if whole:
            path.cpu[cpu, OPEN] = CLOSED
            slot = path.cpu[cpu, OPEN_SLOT]
            if log.answer[i] == DROPPED:
                give_slot(path, cpu, slot)
            else:
                position = path.cpu[cpu, TX_NEXT]
                n = _rows(path, n, FORWARD, cpu, position, slot, log.entry[i], plane)
                path.sent[cpu, 2 * (position & (RECENT - 1))] = slot
                path.sent[cpu, 2 * (position & (RECENT - 1)) + 1] = log.entry[i]
                path.cpu[cpu, TX_NEXT] = position + 1
    return n


@kernel
def price_poll(
    mem: Memory, path: PacketPath, log: AccessLog, slow: AccessLog, cpu: int, first: int, stop: int, packets: int
) -> int:
    """See Pricing.poll; `todo` has room for every record."""
    n = _merge(path, log, slow, cpu, first, stop, packets)
    _price(mem, cpu, path.todo, n)
    return n


@kernel
def price_records(mem: Memory, log: AccessLog, cpu: int) -> int:
    """See Pricing.records."""
    _price(mem, cpu, log.record, log.head[USED])
    return i64(log.head[USED])


@inlined
def _arrive(mem: Memory, path: PacketPath, length: I32, cpu: int, packets: int) -> None:
    written = -1
    for i in range(packets):
        position = path.cpu[cpu, RX_WRITTEN]
        index = position & path.var[RX_MASK]
        size = i64(length[i])
        lines = (FRAME_OFFSET + max(size, 1) + LINE - 1) // LINE
        path.lines[cpu, position & (RECENT - 1)] = lines if size < COPYBREAK else 1
        path.cpu[cpu, RX_WRITTEN] = position + 1
        for which in range(RX_DESC, RX_BUFFER + 1, RX_BUFFER - RX_DESC):
            address = path.object[which, BASE] + cpu * path.object[which, PER_CPU] + index * path.object[which, STRIDE]
            for j in range(1 if which == RX_DESC else lines):
                line = (address >> LINE_SHIFT) + j
                device_write(mem, line, RX_IRQ, which == RX_DESC and line == written)
                if which == RX_DESC:
                    written = line


@inlined
def _complete(mem: Memory, path: PacketPath, cpu: int, ring: int, packets: int) -> None:
    base = path.object[TX_DESC, BASE] + ring * path.object[TX_DESC, PER_CPU]
    first = path.cpu[ring, TX_DONE]
    written = -1
    for position in range(first, first + packets):
        line = i64((base + (position & path.var[TX_MASK]) * path.object[TX_DESC, STRIDE]) >> LINE_SHIFT)
        device_write(mem, line, TX_IRQ, line == written)
        written = line
    n = 0
    for position in range(first, first + packets):
        slot = path.sent[ring, 2 * (position & (RECENT - 1))]
        n = _rows(path, n, COMPLETE, ring, position, slot, path.sent[ring, 2 * (position & (RECENT - 1)) + 1], 0)
        give_slot(path, cpu, slot)
    path.cpu[ring, TX_DONE] = first + packets
    _price(mem, cpu, path.todo, n)


@kernel
def begin_poll(mem: Memory, path: PacketPath, length: I32, cpu: int, ring: int, completed: int, packets: int) -> None:
    """See Pricing.begin_poll; `todo` has room for the rows of what is completed."""
    _complete(mem, path, cpu, ring, completed)
    _arrive(mem, path, length, cpu, packets)


class Pricing:
    """One memory and one packet path, with room for whatever is to be priced. Counts land in `memory.counts`."""

    def __init__(self, memory: Memory, path: PacketPath) -> None:
        self.memory = memory
        self.path = path

    def arrive(self, batch: PacketBatch, cpu: int) -> None:
        """The card has written descriptors and frames of a batch that CPU `cpu` is about to poll: all caches lose those lines."""
        self.begin_poll(batch, cpu, cpu, 0)

    def begin_poll(self, batch: PacketBatch, cpu: int, ring: int, most: int) -> int:
        """`complete` and `arrive` in one call, which is cheaper. Returns how many packets were completed."""
        completed = self.ready_to_begin(batch, cpu, ring, most)
        begin_poll(self.memory, self.path, batch.length, cpu, ring, completed, int(batch.packets[0]))
        return completed

    def ready_to_begin(self, batch: PacketBatch, cpu: int, ring: int, most: int) -> int:
        """Make room for begin_poll; returns how many packets it is to complete."""
        if self.path.cpu[cpu, RX_WRITTEN] + batch.packets[0] - self.path.cpu[cpu, RX_NEXT] > RECENT:
            raise ValueError(f"CPU {cpu} has more than {RECENT} packets written and not yet priced")
        completed = min(most, self.untransmitted(ring))
        self.path = with_room(self.path, completed * int(self.path.row.shape[0]))
        return completed

    def poll(self, log: AccessLog, slow: AccessLog, cpu: int, first: int, stop: int, packets: int) -> int:
        """Price packets [first, stop) of a batch of `packets`, and what the log holds of the open packet `stop`.

        A CPU whose transmitted packets nobody cleans up (the other CPU stalls) cleans the oldest up itself before RECENT wait.
        slow.end[k] ends the slow path's records of the k-th packet whose slow path is due: those of [first, stop] with a miss
        mark, but not `first` if an earlier log of the batch has brought its slow path. Returns the number of records priced.
        """
        self.make_room(cpu, stop - first, int(log.head[USED] + slow.head[USED]))
        return int(price_poll(self.memory, self.path, log, slow, cpu, first, stop, packets))

    def make_room(self, cpu: int, packets: int, records: int) -> None:
        """Make sure that so many more packets of a CPU, with so many records of structure and slow path, can be priced."""
        excess = self.untransmitted(cpu) + packets - RECENT
        if excess > 0:
            self.complete(cpu, cpu, excess)
        self.path = with_room(self.path, records + (packets + 1) * int(self.path.row.shape[0]))

    def records(self, log: AccessLog, cpu: int) -> int:
        """Price a log that belongs to no packet: collections, timers, delayed frees. Returns the number of records."""
        return int(price_records(self.memory, log, cpu))

    def untransmitted(self, ring: int) -> int:
        """Packets handed to a CPU's transmit ring and not yet completed."""
        return int(self.path.cpu[ring, TX_NEXT] - self.path.cpu[ring, TX_DONE])

    def complete(self, cpu: int, ring: int, packets: int) -> int:
        """CPU `cpu` cleans up the oldest `packets`, or as many as there are, of what CPU `ring` transmitted; returns how many."""
        packets = min(packets, self.untransmitted(ring))
        self.path = with_room(self.path, packets * int(self.path.row.shape[0]))
        begin_poll(self.memory, self.path, _NOTHING, cpu, ring, packets, 0)
        return packets
