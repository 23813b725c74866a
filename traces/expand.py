"""Flow records as packets: each flow's packets at even distances from its start to its end, all flows together in order of time.

Packet j of n arrives at start + floor(j * duration / (n - 1)); of equal times that of the earlier flow goes first. Bytes are split
evenly, what is left over going to the first packets, one byte each; a packet is those behind an Ethernet header, and no shorter
than a frame can be. The last packet of a TCP flow carries FIN. What records cannot tell is left out: how the packets of a flow
really follow each other (bursts, windows, answers) and how their lengths differ.

The active flows stand in a heap by the time of their next packet, so memory beyond the records is for concurrent flows only.
"""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from models.flow import FIN, PROTO_TCP, PacketBatch
from models.kernel import I64, U32, i64, kernel
from traces.flow_records import FlowRecords, join_flows, read_flow_records
from traces.source import Source, check_words

LINK_BYTES = 14
SHORTEST_BYTES = 60
"""An Ethernet header, and the shortest frame without its CRC."""

ARITY = 4
FIRST_ROOM = 1024

# Fields of Expansion.var
NEXT, ACTIVE, MOST_ACTIVE, SENT = 0, 1, 2, 3
VAR_SIZE = 4


class Expansion(NamedTuple):
    """Flows by start, and the heap of those that have begun and are not over."""

    start: I64  # int64[n], as in FlowRecords
    duration: I64  # int64[n]
    key: U32  # uint32[n, W]
    packets: I64  # int64[n]
    bytes: I64  # int64[n]
    sent: I64  # int64[n], packets sent of a flow
    rest: I64  # int64[n], remainder of its time, in 1 / (packets - 1) ns
    heap: I64  # int64[room, 2], time of the next packet and flow
    var: I64  # int64[VAR_SIZE], next flow to begin, flows in the heap, most that were, packets sent


@kernel
def before(heap: I64, a: int, b: int) -> bool:
    """Whether row a of the heap goes before row b."""
    return bool(heap[a, 0] < heap[b, 0] or (heap[a, 0] == heap[b, 0] and heap[a, 1] < heap[b, 1]))


@kernel
def push(heap: I64, rows: int, time: int, flow: int) -> None:
    """Add a row to a heap of so many; there must be room."""
    at = rows
    while at > 0:
        parent = (at - 1) // ARITY
        if heap[parent, 0] < time or (heap[parent, 0] == time and heap[parent, 1] < flow):
            break
        heap[at, 0] = heap[parent, 0]
        heap[at, 1] = heap[parent, 1]
        at = parent
    heap[at, 0] = time
    heap[at, 1] = flow


@kernel
def replace_first(heap: I64, rows: int, time: int, flow: int) -> None:
    """Put another row in the place of the first."""
    at = 0
    while True:
        child = at * ARITY + 1
        if child >= rows:
            break
        least = child
        for other in range(child + 1, min(child + ARITY, rows)):
            if before(heap, other, least):
                least = other
        if time < heap[least, 0] or (time == heap[least, 0] and flow < heap[least, 1]):
            break
        heap[at, 0] = heap[least, 0]
        heap[at, 1] = heap[least, 1]
        at = least
    heap[at, 0] = time
    heap[at, 1] = flow


@kernel
def write_packet(flows: Expansion, flow: int, time: int, batch: PacketBatch, row: int) -> int:
    """The next packet of a flow; returns when the one after it arrives, -1 if it was the last."""
    sent = flows.sent[flow]
    packets = flows.packets[flow]
    share = flows.bytes[flow] // packets
    if sent < flows.bytes[flow] - share * packets:
        share += 1
    batch.time[row] = time
    for word in range(batch.key.shape[1]):
        batch.key[row, word] = flows.key[flow, word]
    batch.length[row] = max(SHORTEST_BYTES, share + LINK_BYTES)
    batch.flags[row] = 0
    sent += 1
    flows.sent[flow] = sent
    if sent == packets:
        if i64(flows.key[flow, batch.key.shape[1] - 1]) >> 24 == PROTO_TCP:
            batch.flags[row] = FIN
        return -1
    gaps = packets - 1
    step = flows.duration[flow] // gaps
    flows.rest[flow] += flows.duration[flow] - step * gaps
    if flows.rest[flow] >= gaps:
        flows.rest[flow] -= gaps
        step += 1
    return int(time + step)


@kernel
def expand(flows: Expansion, batch: PacketBatch, start: int) -> int:
    """Write packets from row `start` on until the batch is full, the heap is, or all are sent; returns the rows then filled."""
    row = start
    active = flows.var[ACTIVE]
    while row < batch.time.size:
        flow = flows.var[NEXT]
        if flow < flows.start.size and (active == 0 or flows.start[flow] < flows.heap[0, 0]):
            if active == flows.heap.shape[0]:
                break
            flows.var[NEXT] = flow + 1
            after = write_packet(flows, flow, flows.start[flow], batch, row)
            if after >= 0:
                push(flows.heap, active, after, flow)
                active += 1
                flows.var[MOST_ACTIVE] = max(flows.var[MOST_ACTIVE], active)
        elif active > 0:
            flow = flows.heap[0, 1]
            after = write_packet(flows, flow, flows.heap[0, 0], batch, row)
            if after < 0:
                active -= 1
                after, flow = flows.heap[active, 0], flows.heap[active, 1]
            if active > 0:
                replace_first(flows.heap, active, after, flow)
        else:
            break
        row += 1
    flows.var[ACTIVE] = active
    flows.var[SENT] += row - start
    return row


class FlowRecordSource(Source):
    """The packets of flow records, in order of time (ns since 1970).

    Memory: 64 bytes a record (IPv6: 88) and 16 more for each flow that is active at the same time.
    """

    def __init__(self, records: FlowRecords, name: str = "") -> None:
        """`records` by start, as `read_flow_records` gives them; `name` stands in the description."""
        if (np.diff(records.start) < 0).any():
            raise ValueError("flow records must be in order of their start; sort them first")
        if records.packets.size and records.packets.min() < 1:
            raise ValueError("a flow without packets cannot be expanded; leave it out")
        self.words = records.key.shape[1]
        self.records = records
        self.name = name
        flows = records.start.size
        self._state = Expansion(
            *records[:5],
            sent=np.zeros(flows, np.int64),
            rest=np.zeros(flows, np.int64),
            heap=np.zeros((FIRST_ROOM, 2), np.int64),
            var=np.zeros(VAR_SIZE, np.int64),
        )

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch; fewer only at the end."""
        check_words(self, batch)
        filled = 0
        while True:
            filled = int(expand(self._state, batch, filled))
            heap = self._state.heap
            if filled == batch.time.size or self._state.var[ACTIVE] < heap.shape[0]:
                break
            self._state = self._state._replace(heap=np.concatenate((heap, np.zeros_like(heap))))
        batch.packets[0] = filled
        return filled

    def skipped(self) -> dict[str, int]:
        """Records that are no flow here, by reason."""
        return {f"flow record: {reason}": count for reason, count in self.records.left_out.items()}

    def describe(self) -> dict[str, Any]:
        """Where the records come from, what was changed, and how far the expansion is."""
        records = self.records
        return {
            "source": "flow records",
            "file": self.name,
            "format": records.form,
            "records": records.records,
            "flows": int(records.start.size),
            "packets_recorded": int(records.packets.sum()),
            "packets": int(self._state.var[SENT]),
            "most_active": int(self._state.var[MOST_ACTIVE]),
            "changed": dict(records.changed),
        }


def open_flow_records(paths: Sequence[str | os.PathLike[str]], *, family: int = 4, **settings: Any) -> FlowRecordSource:
    """The packets of one or several files of flow records, together in order of time; file i arrives on interface i + 1.

    `settings` are those of `read_flow_records` (columns, time_unit, duration_unit, delimiter). FlowRecordError.
    """
    if not paths:
        raise ValueError("there are no flow records to read; give at least one file")
    parts = [read_flow_records(path, family=family, interface=i, **settings) for i, path in enumerate(paths, 1)]
    joined = parts[0] if len(parts) == 1 else join_flows(parts, parts[0].key.shape[1])
    return FlowRecordSource(joined, ", ".join(os.fspath(path) for path in paths))
