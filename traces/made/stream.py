"""What made sources share: an even clock, a flow key that most packets have most of, and random numbers drawn outside the kernels.

A packet takes its own row of draws and rows are drawn in blocks of fixed size, so the stream does not depend on the batches it is
read with.
"""

from typing import Any, NamedTuple

import numpy as np

from models.flow import WORDS_IPV4, WORDS_IPV6, PacketBatch
from models.kernel import I64, kernel
from traces.addresses import BITS, format_either, parse_either, to_words
from traces.pace import EVEN_SIZE, EVEN_TIME, LATEST_NS, set_even, tick
from traces.source import Source, check_words

BLOCK = 4096
WORDS = {4: WORDS_IPV4, 6: WORDS_IPV6}
SHORTEST, LONGEST = {4: 42, 6: 62}, 65535
"""Bytes of a packet: at least the headers of Ethernet, IP and UDP."""

# Fields of Stream.var
DRAWN, PACKETS = 0, 1
VAR_SIZE = 2


class Stream(NamedTuple):
    """State of a made source."""

    draws: I64  # int64[BLOCK, k], k times 64 random bits for each packet
    clock: I64  # int64[EVEN_SIZE], an even clock of traces.pace
    header: I64  # int64[W], flow key of every packet before a source changes it
    length: I64  # int64[1], bytes of every packet
    var: I64  # int64[VAR_SIZE], rows of draws used, packets sent


@kernel
def rows_left(stream: Stream, batch: PacketBatch, start: int) -> int:
    """How many packets can be written from row `start` on before new draws are needed."""
    return int(min(batch.time.size - start, stream.draws.shape[0] - stream.var[DRAWN]))


@kernel
def write_packet(stream: Stream, batch: PacketBatch, row: int) -> None:
    """A packet with the source's flow key."""
    batch.time[row] = tick(stream.clock)
    for word in range(stream.header.size):
        batch.key[row, word] = stream.header[word]
    batch.length[row] = stream.length[0]
    batch.flags[row] = 0


@kernel
def count_packets(stream: Stream, packets: int) -> None:
    """Note that so many packets have been written and their draws used."""
    stream.var[DRAWN] += packets
    stream.var[PACKETS] += packets


def make_stream(
    *,
    rate_pps: float,
    header: I64,
    draws: int,
    packet_bytes: int,
    start_ns: int,
) -> Stream:
    """A stream of packets with this flow key, each with so many draws. ValueError for what cannot work."""
    family = 4 if header.size == WORDS_IPV4 else 6
    if not SHORTEST[family] <= packet_bytes <= LONGEST:
        raise ValueError(f"packet_bytes must be from {SHORTEST[family]} to {LONGEST}, got {packet_bytes}")
    if not 0 <= start_ns <= LATEST_NS:
        raise ValueError(f"start_ns must be from 0 to {LATEST_NS}, got {start_ns}")
    clock = np.zeros(EVEN_SIZE, np.int64)
    set_even(clock, rate_pps, start_ns)
    var = np.zeros(VAR_SIZE, np.int64)
    var[DRAWN] = BLOCK
    return Stream(np.zeros((BLOCK, draws), np.int64), clock, header, np.array([packet_bytes], np.int64), var)


def make_header(
    family: int, source: str, destination: str, sport: int, dport: int, protocol: int, interface: int, tos: int = 0
) -> I64:
    """A flow key as int64[W] from addresses as text. ValueError."""
    if family not in BITS:
        raise ValueError(f"traffic is of family 4 or 6, got {family}")
    for name, value, most in (
        ("sport", sport, 0xFFFF),
        ("dport", dport, 0xFFFF),
        ("protocol", protocol, 0xFF),
        ("interface", interface, 0xFFFF),
        ("tos", tos, 0xFF),
    ):
        if not 0 <= value <= most:
            raise ValueError(f"{name} must be from 0 to {most}, got {value}")
    words = [*address_words(source, family), *address_words(destination, family)]
    return np.array([*words, sport << 16 | dport, protocol << 24 | tos << 16 | interface], np.int64)


def address_words(text: str, family: int) -> list[int]:
    """An address as one word or four. ValueError for one of the other family and for prefixes."""
    address, plen = parse_prefix_of(text, family)
    if plen != BITS[family]:
        raise ValueError(f"{text!r} is a prefix where one address is needed, for example {format_either(address, family)}")
    return [address] if family == 4 else to_words([address])[0].tolist()


def parse_prefix_of(text: str, family: int) -> tuple[int, int]:
    """A prefix of this family as (network, length); an address alone is a host route. ValueError."""
    found, address, plen = parse_either(text)
    if found != family:
        raise ValueError(f"{text!r} is of IPv{found} and the traffic of IPv{family}; give addresses of its family")
    network = address >> (BITS[family] - plen) << (BITS[family] - plen)
    if network != address:
        raise ValueError(f"{text!r} has bits set beyond its first {plen}; write {format_either(network, family)}/{plen}")
    return network, plen


def draw_again(stream: Stream, rng: np.random.Generator | None) -> None:
    """New draws if all are used. ValueError once the packets would arrive too late."""
    if stream.var[DRAWN] < BLOCK:
        return
    if stream.clock[EVEN_TIME] > LATEST_NS:
        raise ValueError("the packets would not arrive within 146 years; give a higher rate")
    if rng is not None:
        stream.draws[:] = rng.integers(-(1 << 63), 1 << 63, stream.draws.shape)
    stream.var[DRAWN] = 0


class MadeSource(Source):
    """A source that never ends. `_write` writes a run of packets; the rest is the same for all."""

    def __init__(self, stream: Stream, rng: np.random.Generator | None, described: dict[str, Any]) -> None:
        """`rng` draws for the stream; None for one without draws."""
        self.words = stream.header.size
        self._stream = stream
        self._rng = rng
        self._described = described

    def _write(self, batch: PacketBatch, start: int) -> int:
        """Write packets from row `start` on, as many as there are draws for; returns the rows then filled."""
        raise TypeError(f"{type(self).__name__} has no _write()")

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch; the stream never ends."""
        check_words(self, batch)
        filled = 0
        while filled < batch.time.size:
            draw_again(self._stream, self._rng)
            filled = int(self._write(batch, filled))
        batch.packets[0] = filled
        return filled

    def describe(self) -> dict[str, Any]:
        """Parameters of the source."""
        return dict(self._described)
