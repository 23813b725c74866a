"""Generated traffic: the sources of a row. What a scenario may ask of each kind is in sim/traffic_kinds.py.

Each sender is a source of its own, with an input interface, a random stream and its share of the rate; senders alternate in time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from sim.scenario import Traffic
from sim.streams import stream
from sim.traffic_kinds import (
    OPTIONS,
    ROUTES,
    BurstsOptions,
    CollisionOptions,
    FloodOptions,
    Part,
    PktgenOptions,
    ScanOptions,
    SpoofedOptions,
)
from traces.made import Bursts, Collisions, Mixture, Places, PortScan, RandomDestinations, SpoofedFlood, Zipf, destinations_from
from traces.pktgen import Pktgen
from traces.routes import RouteTable
from traces.source import Source


def made_sources(traffic: Traffic, seed: int, table: Callable[[], RouteTable]) -> list[Source]:
    """The packet sources of a row, one for each sender; `table` gives the routing table if destinations are drawn from it."""
    places: list[Places] = []

    def routes() -> Places:
        if not places:
            places.append(destinations_from(table()))
        return places[0]

    return [_sender(traffic, sender, seed, routes) for sender in range(traffic.senders)]


def _sender(traffic: Traffic, sender: int, seed: int, routes: Callable[[], Places]) -> Source:
    rate = traffic.offered_kpps * 1000.0 / traffic.senders
    start_ns = round(sender * 1e9 / (rate * traffic.senders))
    key = msgspec.json.encode([traffic.source, traffic.flows, traffic.options, traffic.parts, traffic.bursts]).decode()

    def rng(*more: str) -> np.random.Generator:
        if traffic.source == "pktgen" and not more:
            return stream(seed, "pktgen", str(traffic.flow_length), str(traffic.flows), traffic.destination, str(sender))
        return stream(seed, "made", key, str(sender), *more)

    if traffic.source != "mixture":
        made = _make(traffic, sender, rate, start_ns, rng(), routes)
    else:
        parts: list[tuple[float, Source]] = []
        for i, values in enumerate(traffic.parts):
            part = msgspec.convert(values, Part)
            one = msgspec.structs.replace(
                traffic,
                source=part.source,
                flows=traffic.flows if part.flows is None else part.flows,
                flow_length=traffic.flow_length if part.flow_length is None else part.flow_length,
                options=part.options,
            )
            parts.append((part.share, _make(one, sender, rate, 0, rng(str(i)), routes)))
        made = Mixture(parts, rate_pps=rate, rng=rng("mixture"), start_ns=start_ns)
    if traffic.bursts:
        bursts = msgspec.convert(traffic.bursts, BurstsOptions)
        made = Bursts(made, bursts.on_s, bursts.off_s, rng=rng("bursts") if bursts.drawn else None)
    return made


def _make(
    traffic: Traffic, sender: int, rate: float, start_ns: int, rng: np.random.Generator, routes: Callable[[], Places]
) -> Source:
    """One source of one kind."""
    interface, family = 2 * sender + 1, traffic.family
    own = f"192.168.{sender + 1}.1" if family == 4 else f"2001:db8:{sender + 1:x}::1"
    found = msgspec.convert(traffic.options, OPTIONS[traffic.source])
    if isinstance(found, PktgenOptions):
        return Pktgen(
            flows=traffic.flows,
            flow_length=traffic.flow_length,
            rate_pps=rate,
            destination=traffic.destination,
            source=own,
            interface=interface,
            start=traffic.start,
            end_mark=traffic.end_mark,
            packet_bytes=traffic.packet_bytes,
            rng=rng,
            start_ns=start_ns,
        )
    shared: dict[str, Any] = {"rate_pps": rate, "interface": interface, "start_ns": start_ns, "packet_bytes": traffic.packet_bytes}
    if isinstance(found, CollisionOptions):
        return Collisions(found.keys, buckets=found.buckets, secret=found.secret, rng=rng, **shared)
    if isinstance(found, ScanOptions):
        return PortScan(found.hosts, source=own, first_port=found.first_port, last_port=found.last_port, family=family, **shared)
    if isinstance(found, SpoofedOptions):
        return SpoofedFlood(found.sources or None, destination=found.destination, family=family, rng=rng, **shared)
    where = routes() if found.destinations == ROUTES else found.destinations
    if isinstance(found, FloodOptions):
        return RandomDestinations(where, source=own, family=family, rng=rng, **shared)
    return Zipf(traffic.flows, found.exponent, destinations=where, family=family, rng=rng, **shared)
