"""A flood to random destinations ("rDoS"): every packet asks for a route that no cache has, and takes the slow path.

Known as the attack on the routing cache of Linux before 3.6. Left out: what the destinations answer.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.flow import PROTO_UDP, PacketBatch
from traces.made.places import DRAWS, Places, as_places, flood
from traces.made.stream import fill_from, make_header, make_stream
from traces.source import Source


class RandomDestinations(Source):
    """An endless stream from one source to addresses drawn from `destinations`: a prefix, several, or `destinations_from(table)`.

    Packets are evenly spaced at `rate_pps`; `rng` must be this source's own. ValueError for what cannot work.
    """

    def __init__(
        self,
        destinations: str | Sequence[str] | Places | None = None,
        *,
        rate_pps: float = 500_000.0,
        source: str | None = None,
        sport: int = 40000,
        dport: int = 80,
        family: int = 4,
        protocol: int = PROTO_UDP,
        packet_bytes: int = 62,
        interface: int = 1,
        rng: np.random.Generator,
        start_ns: int = 0,
    ) -> None:
        where = destinations if destinations is not None else ("10.0.0.0/8" if family == 4 else "2001:db8::/32")
        sender = source or ("192.0.2.1" if family == 4 else "2001:db8:1::1")
        header = make_header(family, sender, "0.0.0.0" if family == 4 else "::", sport, dport, protocol, interface)
        self.words = header.size
        self._rng = rng
        self._places = as_places(where, family)
        self._stream = make_stream(
            rate_pps=rate_pps, header=header, draws=DRAWS[family], packet_bytes=packet_bytes, start_ns=start_ns
        )
        self._described: dict[str, Any] = {
            "source": "random destinations",
            "destinations": where if isinstance(where, str) else f"{self._places.network.shape[0]} prefixes",
            "rate_pps": float(rate_pps),
            "source_address": sender,
            "family": family,
            "interface": interface,
            "packet_bytes": packet_bytes,
        }

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch; the stream never ends."""
        at = (self.words - 2) // 2
        return fill_from(self, self._stream, self._rng, batch, lambda row: flood(self._stream, self._places, at, batch, row))

    def describe(self) -> dict[str, Any]:
        """Parameters of the source."""
        return dict(self._described)
