"""Many flows of which few are heavy: each packet is of flow k with a probability in proportion to k ** -exponent.

Source: the law as it is used for flow and destination popularity since L. Breslau et al., Web Caching and Zipf-like Distributions,
INFOCOM 1999. The universe is bounded and every flow lives for ever. Flows are told apart by their source addresses; destinations
and source ports are drawn. Left out: that real flows begin and end, and that packets of a flow come together (see Bursts).

A flow takes 24 bytes (IPv6: 48), a draw one access to the table of probabilities and one to the flow's key.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.flow import PROTO_UDP
from models.kernel import U32
from traces.addresses import BITS
from traces.made.places import Places, as_places, draw_addresses
from traces.made.stream import (
    make_header,
    make_stream,
    parse_prefix_of,
)
from traces.made.universe import Universe

MOST_FLOWS = 1 << 22
M = 0xFFFFFFFF


class Zipf(Universe):
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
        stream = make_stream(rate_pps=rate_pps, header=header, draws=1, packet_bytes=packet_bytes, start_ns=start_ns)
        keys = np.empty((flows, header.size), np.uint32)
        ends = (header.size - 2) // 2
        keys[:, :ends] = distinct_addresses(prefix, family, flows, rng)
        keys[:, ends : 2 * ends] = draw_addresses(as_places(where, family), rng, flows)
        keys[:, -2] = rng.integers(1024, 1 << 16, flows) << 16 | dport
        keys[:, -1] = header[-1]
        described: dict[str, Any] = {
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
        super().__init__(stream, rng, described, keys, np.arange(1, flows + 1, dtype=np.float64) ** -float(exponent))


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
