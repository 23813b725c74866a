"""A flood to random destinations ("rDoS"): every packet asks for a route that no cache has, and takes the slow path.

Known as the attack on the routing cache of Linux before 3.6. Left out: what the destinations answer.
"""

from collections.abc import Sequence

import numpy as np

from models.flow import PROTO_UDP
from traces.made.flood import AddressFlood
from traces.made.places import Places
from traces.made.stream import make_header


class RandomDestinations(AddressFlood):
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
        super().__init__(
            where,
            "destinations",
            at=(header.size - 2) // 2,
            header=header,
            family=family,
            rate_pps=rate_pps,
            packet_bytes=packet_bytes,
            interface=interface,
            start_ns=start_ns,
            rng=rng,
            described={"source": "random destinations", "source_address": sender},
        )
