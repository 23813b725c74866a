"""A flood from spoofed sources: every packet claims another sender, and is a new flow to whoever looks the source up too.

The common form of a SYN flood. Left out: filters that know which sources an interface may have.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.flow import PROTO_TCP, PacketBatch
from traces.made.places import DRAWS, Places, as_places, flood
from traces.made.stream import fill_from, make_header, make_stream
from traces.source import Source


class SpoofedFlood(Source):
    """An endless stream to one destination from addresses drawn from `sources`: a prefix, several (each address as likely as any
    other), or Places. Packets are evenly spaced at `rate_pps`; `rng` must be this source's own. ValueError for what cannot work.
    """

    def __init__(
        self,
        sources: str | Sequence[str] | Places | None = None,
        *,
        rate_pps: float = 500_000.0,
        destination: str | None = None,
        sport: int = 40000,
        dport: int = 80,
        family: int = 4,
        protocol: int = PROTO_TCP,
        packet_bytes: int = 74,
        interface: int = 1,
        rng: np.random.Generator,
        start_ns: int = 0,
    ) -> None:
        where = sources if sources is not None else ("10.0.0.0/8" if family == 4 else "2001:db8::/32")
        target = destination or ("198.51.100.1" if family == 4 else "2001:db8:1::1")
        header = make_header(family, "0.0.0.0" if family == 4 else "::", target, sport, dport, protocol, interface)
        self.words = header.size
        self._rng = rng
        self._places = as_places(where, family)
        self._stream = make_stream(
            rate_pps=rate_pps, header=header, draws=DRAWS[family], packet_bytes=packet_bytes, start_ns=start_ns
        )
        self._described: dict[str, Any] = {
            "source": "spoofed flood",
            "sources": where if isinstance(where, str) else f"{self._places.network.shape[0]} prefixes",
            "rate_pps": float(rate_pps),
            "destination": target,
            "family": family,
            "interface": interface,
            "packet_bytes": packet_bytes,
        }

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch; the stream never ends."""
        return fill_from(self, self._stream, self._rng, batch, lambda row: flood(self._stream, self._places, 0, batch, row))

    def describe(self) -> dict[str, Any]:
        """Parameters of the source."""
        return dict(self._described)
