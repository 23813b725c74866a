"""Many flows of which few are heavy: each packet is of flow k with a probability in proportion to k ** -exponent.

Source: the law as it is used for flow and destination popularity since L. Breslau et al., Web Caching and Zipf-like Distributions,
INFOCOM 1999. The universe is bounded and every flow lives for ever. Flows are told apart by their source addresses; destinations
and source ports are drawn. Left out: that real flows begin and end, and that packets of a flow come together (see Bursts).

A flow takes 24 bytes (IPv6: 48), a draw one access to the table of probabilities and one to the flow's key.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.flow import PROTO_UDP, PacketBatch
from models.kernel import U32, i64, kernel
from traces.addresses import BITS
from traces.made.alias import Alias, make_alias, pick
from traces.made.places import Places, as_places, draw_addresses
from traces.made.stream import (
    DRAWN,
    Stream,
    count_packets,
    fill_from,
    make_header,
    make_stream,
    parse_prefix_of,
    rows_left,
    write_packet,
)
from traces.source import Source

MOST_FLOWS = 1 << 22
M = 0xFFFFFFFF


@kernel
def from_universe(stream: Stream, keys: U32, alias: Alias, batch: PacketBatch, start: int) -> int:
    """Packets of flows drawn from a universe, from row `start` on; returns the rows then filled."""
    packets = rows_left(stream, batch, start)
    for row in range(start, start + packets):
        write_packet(stream, batch, row)
        flow = pick(alias, stream.draws[stream.var[DRAWN] + row - start, 0])
        for word in range(keys.shape[1]):
            batch.key[row, word] = i64(keys[flow, word])
    count_packets(stream, packets)
    return start + packets


class Zipf(Source):
    """An endless stream of packets of `flows` flows (up to 2**22), evenly spaced at `rate_pps`.

    Flow k, from 1 on, has a share in proportion to k ** -exponent; 0 makes all alike. Sources are distinct addresses of the prefix
    `source`, which must hold as many; destinations are drawn from `destinations`, a prefix, several, or `destinations_from(table)`.
    `rng` must be this source's own. ValueError for what cannot work.
    """

    def __init__(
        self,
        flows: int,
        exponent: float = 1.0,
        *,
        rate_pps: float = 500_000.0,
        source: str | None = None,
        destinations: str | Sequence[str] | Places | None = None,
        family: int = 4,
        dport: int = 80,
        protocol: int = PROTO_UDP,
        packet_bytes: int = 62,
        interface: int = 1,
        rng: np.random.Generator,
        start_ns: int = 0,
    ) -> None:
        if not 1 <= flows <= MOST_FLOWS:
            raise ValueError(f"flows must be from 1 to {MOST_FLOWS:,}, got {flows:,}")
        if not 0 <= exponent <= 10:
            raise ValueError(f"the exponent must be from 0 to 10, got {exponent:g}")
        prefix = source or ("10.0.0.0/8" if family == 4 else "2001:db8::/32")
        where = destinations if destinations is not None else ("172.16.0.0/12" if family == 4 else "2001:db9::/32")
        anywhere = "0.0.0.0" if family == 4 else "::"
        header = make_header(family, anywhere, anywhere, 0, dport, protocol, interface)
        self.words = header.size
        self._rng = rng
        self._stream = make_stream(rate_pps=rate_pps, header=header, draws=1, packet_bytes=packet_bytes, start_ns=start_ns)
        self._keys = np.empty((flows, self.words), np.uint32)
        ends = (self.words - 2) // 2
        self._keys[:, :ends] = distinct_addresses(prefix, family, flows, rng)
        self._keys[:, ends : 2 * ends] = draw_addresses(as_places(where, family), rng, flows)
        self._keys[:, -2] = rng.integers(1024, 1 << 16, flows) << 16 | dport
        self._keys[:, -1] = header[-1]
        self._alias = make_alias(np.arange(1, flows + 1, dtype=np.float64) ** -float(exponent))
        self._described: dict[str, Any] = {
            "source": "zipf",
            "flows": flows,
            "exponent": float(exponent),
            "rate_pps": float(rate_pps),
            "source_prefix": prefix,
            "destinations": where if isinstance(where, str) else "prefixes" if not isinstance(where, Places) else "places",
            "family": family,
            "interface": interface,
            "packet_bytes": packet_bytes,
        }

    @property
    def keys(self) -> U32:
        """The flow keys, uint32[flows, W], heaviest first."""
        return self._keys

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch; the stream never ends."""
        write = lambda row: from_universe(self._stream, self._keys, self._alias, batch, row)  # noqa: E731
        return fill_from(self, self._stream, self._rng, batch, write)

    def describe(self) -> dict[str, Any]:
        """Parameters of the source."""
        return dict(self._described)


def distinct_addresses(prefix: str, family: int, count: int, rng: np.random.Generator) -> U32:
    """So many different addresses of a prefix in no order, uint32[count, w]. ValueError if it does not hold as many."""
    network, plen = parse_prefix_of(prefix, family)
    bits = min(32, BITS[family] - plen)
    if count > 1 << bits:
        raise ValueError(f"{prefix} holds {1 << bits:,} addresses, {count:,} are needed; give a shorter prefix")
    # Odd factors and a shift to the right are permutations of the numbers of so many bits.
    mask = np.uint64((1 << bits) - 1)
    odd = rng.integers(0, 1 << 31, 2, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    host = (np.arange(count, dtype=np.uint64) + rng.integers(0, 1 << bits, dtype=np.uint64)) & mask
    for factor in odd:
        host = host * factor & mask
        host ^= host >> np.uint64(bits // 2 + 1)
    words = 1 if family == 4 else 4
    found = np.empty((count, words), np.uint32)
    for word in range(words):
        found[:, word] = network >> (32 * (words - 1 - word)) & M
    found[:, -1] |= host.astype(np.uint32)
    return found
