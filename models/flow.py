"""Flow keys and packet batches: what a traffic source hands to everything behind it.

A flow key is a row of 32-bit words. IPv4 (4 words): source, destination, source port << 16 | destination port,
protocol << 24 | tos << 16 | input interface. IPv6 (10 words): source (4), destination (4), then the same two.
Kernels read a word as `np.int64(key[i, w])`: JIT and interpreted code disagree on unsigned arithmetic.
"""

from typing import NamedTuple

import numpy as np

from models.kernel import I32, I64, U8, U32

WORDS_IPV4 = 4
WORDS_IPV6 = 10

SRC, DST, PORTS, PROTO = 0, 1, 2, 3
"""Words of an IPv4 key."""

FIN, RST, END_MARK = 1, 2, 4
"""Packet flags: TCP FIN, TCP RST, the generator's own end-of-flow mark."""

PROTO_TCP, PROTO_UDP = 6, 17


class PacketBatch(NamedTuple):
    """Packets in arrival order. Only the first `packets[0]` rows are packets; the arrays are buffers and may be longer."""

    packets: I64  # int64[1], packets in the batch
    time: I64  # int64[n], arrival at the network card, ns
    key: U32  # uint32[n, W], flow keys
    length: I32  # int32[n], bytes on the wire without CRC
    flags: U8  # uint8[n], FIN | RST | END_MARK
    route: I32  # int32[n], the route that the FIB gives for the destination (the truth; -1: none known yet)


def make_batch(room: int, words: int = WORDS_IPV4) -> PacketBatch:
    """An empty batch with room for `room` packets whose keys have `words` words."""
    if room < 1:
        raise ValueError(f"a batch needs room for at least one packet, got {room}")
    return PacketBatch(
        packets=np.zeros(1, np.int64),
        time=np.zeros(room, np.int64),
        key=np.zeros((room, words), np.uint32),
        length=np.zeros(room, np.int32),
        flags=np.zeros(room, np.uint8),
        route=np.full(room, -1, np.int32),
    )


def pack_ipv4(
    source: int, destination: int, sport: int = 0, dport: int = 0, proto: int = PROTO_UDP, tos: int = 0, iif: int = 1
) -> tuple[int, int, int, int]:
    """The four words of an IPv4 flow key from its parts (addresses as 32-bit integers in host order)."""
    return (source, destination, (sport << 16) | dport, (proto << 24) | (tos << 16) | iif)
