"""The receive side of a network card: a ring that fills at the times of the source and is emptied by polls.

Models the e1000's receive ring under NAPI (2.6.20): a packet that arrives while the ring is full is dropped by the card, at no CPU
cost and without regard to its flow. The driver keeps one descriptor free, so a ring of 256 holds 255 packets. Arrivals between
two polls are arithmetic on the source's times, not events. Left out: the on-chip FIFO, PAUSE frames, interrupt moderation.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from models.flow import PacketBatch, make_batch
from models.kernel import I64, Standing, i64, kernel

HEAD, QUEUED, NEXT, OFFERED, DROPPED_PACKETS, TAKEN = range(6)


class RingState(NamedTuple):
    """What waits in the ring, and how far the current chunk of arrivals has been taken in."""

    var: I64  # int64[6]: slot of the oldest packet, packets queued, next packet of the chunk; totals offered, dropped, taken
    slots: PacketBatch  # the ring's packets


class Port:
    """One receiving port: a ring and the chunk of arrivals that is under way."""

    def __init__(self, ring: int, words: int, chunk: int = 4096) -> None:
        """`ring`: descriptors, a power of two of at least 2; `words`: words of a flow key."""
        if ring < 2 or ring & (ring - 1):
            raise ValueError(f"rx_ring must be a power of two of at least 2, got {ring}")
        self.state = RingState(np.zeros(6, np.int64), make_batch(ring, words))
        self.chunk = make_batch(chunk, words)
        self._receive, self._both = Standing(_receive_loop, 1), Standing(_both_loop, 2)

    def receive(self, until: int) -> None:
        """Take in every packet of the chunk that arrives at or before `until` (ns); what finds the ring full is dropped."""
        self._receive((self.state, self.chunk), until)

    def poll(self, batch: PacketBatch, quota: int) -> int:
        """Move up to `quota` packets, oldest first, into a batch; returns how many."""
        return self.receive_and_poll(-1, batch, quota)  # no packet arrives before time 0

    def receive_and_poll(self, until: int, batch: PacketBatch, quota: int) -> int:
        """`receive`, then `poll`, in one call."""
        packets: int = self._both((self.state, self.chunk, batch), until, quota)
        return packets

    def begin_chunk(self) -> None:
        """The chunk has been filled anew."""
        self.state.var[NEXT] = 0

    def next_arrival(self) -> int | None:
        """Time of the next packet of the chunk that has not been taken in, ns; None when there is none."""
        at = int(self.state.var[NEXT])
        return int(self.chunk.time[at]) if at < self.chunk.packets[0] else None

    @property
    def queued(self) -> int:
        return int(self.state.var[QUEUED])

    def totals(self) -> tuple[int, int, int]:
        """Packets offered, dropped at the full ring, and taken by polls, since the port was made."""
        var = self.state.var
        return int(var[OFFERED]), int(var[DROPPED_PACKETS]), int(var[TAKEN])


@kernel
def copy_packet(source: PacketBatch, i: int, target: PacketBatch, j: int) -> None:
    """Packet i of one batch becomes packet j of another."""
    target.time[j] = source.time[i]
    for w in range(source.key.shape[1]):
        target.key[j, w] = source.key[i, w]
    target.length[j] = source.length[i]
    target.flags[j] = source.flags[i]
    target.route[j] = source.route[i]


@kernel
def copy_packets(source: PacketBatch, first: int, target: PacketBatch, packets: int) -> None:
    """Make a batch of `packets` packets of another one, from `first` on."""
    for j in range(packets):
        copy_packet(source, first + j, target, j)
    target.packets[0] = packets


@kernel
def receive(ring: RingState, chunk: PacketBatch, until: int) -> None:
    """See Port.receive."""
    size = ring.slots.time.size
    at = ring.var[NEXT]
    while at < chunk.packets[0] and chunk.time[at] <= until:
        ring.var[OFFERED] += 1
        if ring.var[QUEUED] < size - 1:
            copy_packet(chunk, at, ring.slots, (ring.var[HEAD] + ring.var[QUEUED]) & (size - 1))
            ring.var[QUEUED] += 1
        else:
            ring.var[DROPPED_PACKETS] += 1
        at += 1
    ring.var[NEXT] = at


@kernel
def poll(ring: RingState, batch: PacketBatch, quota: int) -> int:
    """See Port.poll."""
    size = ring.slots.time.size
    n = i64(min(quota, ring.var[QUEUED]))
    head = ring.var[HEAD]
    for j in range(n):
        copy_packet(ring.slots, (head + j) & (size - 1), batch, j)
    batch.packets[0] = n
    ring.var[HEAD] = (head + n) & (size - 1)
    ring.var[QUEUED] -= n
    ring.var[TAKEN] += n
    return n


@kernel
def _receive_loop(ring: RingState, chunk: PacketBatch, numbers: I64) -> Iterator[int]:
    """`receive` over and over; numbers: until."""
    while True:
        receive(ring, chunk, i64(numbers[0]))
        yield 0


@kernel
def _both_loop(ring: RingState, chunk: PacketBatch, batch: PacketBatch, numbers: I64) -> Iterator[int]:
    """`receive` and `poll` over and over; numbers: until, quota."""
    while True:
        receive(ring, chunk, i64(numbers[0]))
        yield poll(ring, batch, i64(numbers[1]))
