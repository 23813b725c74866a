"""A flood from spoofed sources: every packet claims another sender, and is a new flow to whoever looks the source up too.

The common form of a SYN flood. Left out: filters that know which sources an interface may have.
"""

from collections.abc import Sequence

import numpy as np

from models.flow import PROTO_TCP
from traces.made.flood import AddressFlood
from traces.made.places import Places
from traces.made.stream import make_header


class SpoofedFlood(AddressFlood):
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
        super().__init__(
            where,
            "sources",
            at=0,
            header=header,
            family=family,
            rate_pps=rate_pps,
            packet_bytes=packet_bytes,
            interface=interface,
            start_ns=start_ns,
            rng=rng,
            described={"source": "spoofed flood", "destination": target},
        )
