"""Kinds of generated traffic and what a scenario may ask of each; sim/made_traffic.py makes the sources. Imports nothing heavy."""

from __future__ import annotations

from typing import Any

import msgspec

from sim.errors import UserError, did_you_mean
from sim.scenario import Traffic
from sim.toml_input import decode

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
"""Options of each kind of generated traffic (`traffic.options`)."""

KINDS = (*OPTIONS, "mixture")
"""Kinds of generated traffic."""


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
