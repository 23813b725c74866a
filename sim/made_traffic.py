"""Generated traffic by name: what a scenario may ask of each kind, and the source that makes it.

Each sender is a source of its own, with an input interface, a random stream and its share of the rate; senders alternate in time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from sim.errors import UserError, did_you_mean
from sim.scenario import Traffic
from sim.streams import stream
from sim.toml_input import decode
from traces.made import Bursts, Collisions, Mixture, Places, PortScan, RandomDestinations, SpoofedFlood, Zipf, destinations_from
from traces.pktgen import Pktgen
from traces.routes import RouteTable
from traces.source import Source

ROUTES = "routes"
"""As `destinations`: drawn from the run's routing table, a prefix by the number of its addresses."""


class PktgenOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Nothing beyond the keys of `traffic`."""


class ZipfOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """`traffic.flows` flows of each sender, flow k with a share of the packets in proportion to 1 / k^exponent."""

    exponent: float = 1.0
    destinations: str | None = None  # a prefix, or "routes"


class ScanOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One address looks at every port of some hosts, one packet a port."""

    hosts: str | None = None  # an address or a prefix
    first_port: int = 1
    last_port: int = 65535


class FloodOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Packets of one source to random destinations: no destination comes twice soon."""

    destinations: str | None = None  # a prefix, or "routes"


class SpoofedOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Packets to one destination from random sources."""

    sources: list[str] = []  # prefixes
    destination: str | None = None


class CollisionOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Flows whose keys fall into one bucket of an rt_hash with so many buckets and that secret."""

    keys: int = 1000
    buckets: int = 32768
    secret: int = 0


OPTIONS: dict[str, Any] = {
    "pktgen": PktgenOptions,
    "zipf": ZipfOptions,
    "scan": ScanOptions,
    "flood": FloodOptions,
    "spoofed": SpoofedOptions,
    "collision": CollisionOptions,
}
"""Kinds of generated traffic and their options (`traffic.options`)."""


class Part(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One part of a mixture: which share of the packets it makes, and what it is."""

    share: float
    source: str
    flows: int | None = None
    flow_length: int | None = None
    options: dict[str, Any] = {}


class BurstsOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Packets come for `on_s` seconds and then not for `off_s`; `drawn`: these are means of exponential times."""

    on_s: float
    off_s: float
    drawn: bool = False


def check_made(traffic: Traffic, where: str) -> None:
    """Refuse options that a kind does not take (UserError). Nothing is made."""
    _options(traffic.source, traffic.options, traffic.parts, f"{where}: traffic")
    if traffic.bursts:
        decode(traffic.bursts, BurstsOptions, f"{where}: traffic.bursts")
    if traffic.family == 6 and traffic.source == "pktgen":
        raise UserError(f"{where}: pktgen makes IPv4 packets; for family 6 use zipf, scan, flood or spoofed")


def _options(kind: str, options: dict[str, Any], parts: list[dict[str, Any]], place: str) -> None:
    if kind == "mixture":
        if not parts:
            raise UserError(f"{place}.parts is empty; a mixture needs parts, each with share and source")
        for i, values in enumerate(parts, 1):
            part = decode(values, Part, f"{place}.parts, part {i}")
            if part.source not in OPTIONS:
                raise UserError(f"{place}.parts, part {i}: source {part.source!r} is unknown; {did_you_mean(part.source, OPTIONS)}")
            if not part.share > 0:
                raise UserError(f"{place}.parts, part {i}: share must be more than 0, got {part.share:g}")
            _options(part.source, part.options, [], f"{place}.parts, part {i}")
    else:
        if parts:
            raise UserError(f'{place}.parts belong to source = "mixture", not to {kind!r}')
        decode(options, OPTIONS[kind], f"{place}.options of {kind}")


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
        if traffic.source == "pktgen":
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
