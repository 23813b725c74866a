"""The packet path's own memory: descriptors, buffers, socket buffers and the lines that driver and stack touch for every packet.

A path is a list of rows (phase, function, kind, object, offset). Phase `receive` comes before a packet's lookup, `forward` after
it, `complete` when its transmission is cleaned up. Objects follow the e1000 driver and the 2.6.20 stack: rings of 16-byte
descriptors, receive buffers of 2 KB that the card writes (frame at byte 2), sk_buffs 256 bytes apart, their data 512 bytes apart.
Frames below the copybreak of 256 bytes are copied, so that every line of theirs is read; of longer ones only the headers are.

sk_buffs and data are slots of one last-in-first-out stack per CPU (120, exchanged in batches of 60 through a shared one, as
mm/slab.c does), so that a completion on the other CPU moves them. What boot allocates lies together: tables and rings in one large
page, receive buffers in a second, sk_buffs and data in a third.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from models.access import LINE, READ, WRITE
from models.functions import number
from models.kernel import I64, i64, kernel
from models.simulated_memory import SimulatedMemory

PHASES = ("receive", "forward", "complete")
RECEIVE, FORWARD, COMPLETE = 0, 1, 2
KINDS = {"read": READ, "write": WRITE}

NONE, RX, TX, SLOT, DST = range(5)
"""What moves an object's address from packet to packet: nothing, ring positions, the sk_buff slot, the packet's dst entry."""

FUNCTION, KIND, OBJECT, OFFSET = range(4)
BASE, PER_CPU, STRIDE, MOVES = range(4)
RX_MASK, TX_MASK, SLOTS_MADE, SHARED_HELD = range(4)
RX_WRITTEN, RX_NEXT, TX_NEXT, TX_DONE, OPEN, OPEN_SLOT, HELD = range(7)

RECENT = 1 << 12
"""Packets that a CPU's state remembers: received and not yet looked at, transmitted and not yet completed. A power of two."""
LIMIT, BATCH = 120, 60
COPYBREAK = 256
FRAME_OFFSET = 2
BUFFER = 2048


class Row(Protocol):
    """What a row must have; `resolve_path` rows count only while every packet takes the neighbour's resolve path."""

    @property
    def phase(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def object(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def resolve_path(self) -> bool: ...


class DefaultRow(NamedTuple):
    """A row of the default path."""

    phase: str
    function: str
    kind: str
    object: str
    offset: int = 0
    resolve_path: bool = False


DEFAULT_ROWS = (
    DefaultRow("receive", "e1000_clean_rx_irq", "read", "rx_desc"),
    DefaultRow("receive", "__alloc_skb", "write", "skb", 0),
    DefaultRow("receive", "__alloc_skb", "write", "skb", 128),  # head, data, tail, end
    DefaultRow("receive", "__alloc_skb", "write", "data", 128),  # skb_shared_info behind 60 bytes of frame and its headroom
    DefaultRow("receive", "e1000_clean_rx_irq", "read", "frame", FRAME_OFFSET),
    DefaultRow("receive", "e1000_clean_rx_irq", "write", "data", 0),
    DefaultRow("forward", "ip_rcv", "read", "entry", 116),  # input
    DefaultRow("forward", "ip_forward", "read", "entry", 140),  # rt_flags
    DefaultRow("forward", "dev_queue_xmit", "write", "qdisc"),
    DefaultRow("forward", "e1000_xmit_frame", "write", "tx_info"),
    DefaultRow("forward", "e1000_xmit_frame", "write", "tx_desc"),
    DefaultRow("complete", "e1000_clean_tx_irq", "read", "tx_desc"),
    DefaultRow("complete", "kfree_skb", "write", "skb", 0),
    DefaultRow("complete", "kfree_skb", "write", "entry", 4),  # refcnt, in dst_release
    DefaultRow("complete", "kfree", "write", "data", 128),
)
"""Lines that can miss: of several touches to one line in a row only the first stands here, the others hit L1 and are part of
the functions' instruction work."""


class PacketPath(NamedTuple):
    """State of the packet path of all CPUs. Positions count packets since the start; `position & (RECENT - 1)` is their place."""

    row: I64  # int64[rows, 4]: function, kind, object, offset; by phase
    begin: I64  # int64[4], first row of each phase, and the number of rows
    object: I64  # int64[objects, 4]: base address, bytes per CPU, bytes per index, what the index is
    var: I64  # int64[4]: receive ring - 1, transmit ring - 1, slots made so far, slots in the shared stack
    cpu: I64  # int64[cpus, 7]: written by the card, received, transmitted, completed; open packet, its slot; stack height
    lines: I64  # int64[cpus, RECENT], lines of each received frame that the CPU reads
    sent: I64  # int64[cpus, 2 * RECENT], slot and dst entry of each transmitted packet
    stack: I64  # int64[cpus, LIMIT], free slots, last in first out
    shared: I64  # int64[slots], free slots shared by the CPUs
    todo: I64  # int64[room], records in the order in which they are priced; the function's bit 8 is the plane


OBJECTS = (
    "rx_desc", "rx_info", "rx_buffer", "frame", "skb", "data", "tx_desc", "tx_info", "entry", "softnet", "rx_device", "tx_device",
    "qdisc", "neighbour", "statistics",
)  # fmt: skip
FRAME = OBJECTS.index("frame")


def _objects(memory: SimulatedMemory, cpus: int, rx_ring: int, tx_ring: int, slots: int) -> I64:
    """Lay the objects out; see the module's header."""
    table = np.zeros((len(OBJECTS), 4), np.int64)
    small = (
        ("softnet", LINE * 4, 0, NONE),
        ("statistics", LINE * 4, 0, NONE),
        ("rx_device", 1024, 0, NONE),
        ("tx_device", 1024, 0, NONE),
        ("qdisc", 512, 0, NONE),
        ("neighbour", 256, 0, NONE),
        ("rx_desc", 16 * rx_ring, 16, RX),
        ("tx_desc", 16 * tx_ring, 16, TX),
        ("rx_info", 24 * rx_ring, 24, RX),
        ("tx_info", 24 * tx_ring, 24, TX),
    )
    per_cpu = [-(-size // LINE) * LINE for _, size, _, _ in small]
    at = memory.region("packet path tables and rings", cpus * sum(per_cpu))
    for (name, _, stride, moves), size in zip(small, per_cpu, strict=True):
        table[OBJECTS.index(name)] = at, size, stride, moves
        at += cpus * size
    buffers = memory.region("receive buffers", cpus * rx_ring * BUFFER)
    for name in ("rx_buffer", "frame"):
        table[OBJECTS.index(name)] = buffers, rx_ring * BUFFER, BUFFER, RX
    heads = memory.region("sk_buffs and data", slots * (256 + 512))
    table[OBJECTS.index("skb")] = heads, 0, 256, SLOT
    table[OBJECTS.index("data")] = heads + slots * 256, 0, 512, SLOT
    table[OBJECTS.index("entry")] = 0, 0, 1, DST
    return table


def _power_of_two(name: str, value: int) -> None:
    if value < 2 or value & (value - 1) or value > RECENT:
        raise ValueError(f"{name} must be a power of two from 2 to {RECENT}, got {value}")


def make_path(
    memory: SimulatedMemory,
    cpus: int,
    rows: Iterable[Row] = (),
    *,
    rx_ring: int = 256,
    tx_ring: int = 256,
    resolve_path: bool = False,
) -> PacketPath:
    """A path at rest, laid out in `memory`. `rows` empty: the default path. ValueError names a wrong row and what is known."""
    _power_of_two("rx_ring", rx_ring)
    _power_of_two("tx_ring", tx_ring)
    table: list[tuple[int, int, int, int, int]] = []
    for row in tuple(rows) or DEFAULT_ROWS:
        for what, value, known in (("phase", row.phase, PHASES), ("kind", row.kind, tuple(KINDS)), ("object", row.object, OBJECTS)):
            if value not in known:
                raise ValueError(f"packet path, row of {row.function}: {what} must be one of {', '.join(known)}, got {value!r}")
        if row.object == "entry" and row.phase == "receive":
            raise ValueError(f"packet path, row of {row.function}: a packet has no dst entry in phase receive")
        if row.object in ("rx_desc", "rx_info", "rx_buffer", "frame") and row.phase != "receive":
            raise ValueError(f"packet path, row of {row.function}: {row.object} can be touched in phase receive only")
        if row.object in ("tx_desc", "tx_info") and row.phase == "receive":
            raise ValueError(f"packet path, row of {row.function}: a packet has no {row.object} in phase receive")
        if row.offset < 0:
            raise ValueError(f"packet path, row of {row.function}: offset must not be negative, got {row.offset}")
        try:
            function = number(row.function)
        except KeyError:
            raise ValueError(f"packet path: no function is named {row.function!r}") from None
        if resolve_path or not row.resolve_path:
            table.append((PHASES.index(row.phase), function, KINDS[row.kind], OBJECTS.index(row.object), row.offset))
    table.sort(key=lambda entry: entry[0])
    order = np.array(table, np.int64).reshape(-1, 5)
    slots = cpus * (RECENT + LIMIT + BATCH) + BATCH
    var = np.zeros(4, np.int64)
    var[RX_MASK], var[TX_MASK] = rx_ring - 1, tx_ring - 1
    return PacketPath(
        row=np.ascontiguousarray(order[:, 1:]),
        begin=np.searchsorted(order[:, 0], np.arange(len(PHASES) + 1)).astype(np.int64),
        object=_objects(memory, cpus, rx_ring, tx_ring, slots),
        var=var,
        cpu=np.zeros((cpus, 7), np.int64),
        lines=np.ones((cpus, RECENT), np.int64),
        sent=np.zeros((cpus, 2 * RECENT), np.int64),
        stack=np.zeros((cpus, LIMIT), np.int64),
        shared=np.zeros(slots, np.int64),
        todo=np.zeros(1 << 12, np.int64),
    )


def with_room(path: PacketPath, records: int) -> PacketPath:
    """The path with room for so many records to be priced at once; the other arrays are the same ones."""
    if path.todo.size >= records:
        return path
    return path._replace(todo=np.zeros(max(records, 2 * path.todo.size), np.int64))


def free_slots(path: PacketPath) -> list[int]:
    """Slots that no packet holds, for checks."""
    held = [slot for cpu in range(path.cpu.shape[0]) for slot in path.stack[cpu, : path.cpu[cpu, HELD]].tolist()]
    held += path.shared[: path.var[SHARED_HELD]].tolist()
    return held


@kernel
def take_slot(path: PacketPath, cpu: int) -> int:
    """A free sk_buff slot: the one this CPU freed last, else a batch from the shared stack, else a batch of new ones."""
    if path.cpu[cpu, HELD] == 0:
        for j in range(BATCH):
            if path.var[SHARED_HELD] > 0:
                path.var[SHARED_HELD] -= 1
                path.stack[cpu, j] = path.shared[path.var[SHARED_HELD]]
            elif j == 0 or path.var[SLOTS_MADE] % BATCH != 0:
                if path.var[SLOTS_MADE] >= path.shared.size:
                    raise RuntimeError("more packets are under way than the packet path has sk_buffs for")
                path.stack[cpu, j] = path.var[SLOTS_MADE]
                path.var[SLOTS_MADE] += 1
            else:
                break
            path.cpu[cpu, HELD] += 1
    path.cpu[cpu, HELD] -= 1
    return i64(path.stack[cpu, path.cpu[cpu, HELD]])


@kernel
def give_slot(path: PacketPath, cpu: int, slot: int) -> None:
    """Free a slot on this CPU; the oldest batch of a full stack goes to the shared one."""
    if path.cpu[cpu, HELD] == LIMIT:
        for j in range(BATCH):
            path.shared[path.var[SHARED_HELD]] = path.stack[cpu, j]
            path.var[SHARED_HELD] += 1
        for j in range(LIMIT - BATCH):
            path.stack[cpu, j] = path.stack[cpu, j + BATCH]
        path.cpu[cpu, HELD] = LIMIT - BATCH
    path.stack[cpu, path.cpu[cpu, HELD]] = slot
    path.cpu[cpu, HELD] += 1
