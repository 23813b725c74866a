"""RouteTable: prefixes with their next hops, and the collector through which every reader makes one."""

import os
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from models.kernel import I64
from traces.addresses import BITS, format_address, format_either, from_words, parse_either, to_words

DIRECT = "direct"
"""Next hop of a route that names none: the destination is on the link itself."""

NOTHING: Mapping[str, int] = MappingProxyType({})


class RouteTable(NamedTuple):
    """Prefixes with their next hops; route i of a table is row i. No prefix stands twice, no host bit is set."""

    prefix: Any  # int64[n], network address, host order; IPv6: uint32[n, 4], high word first
    plen: I64  # int64[n], prefix length, 0 to 32 or 128
    nexthop: I64  # int64[n], index into nexthops
    nexthops: list[str]  # distinct next hops: an address or a name, DIRECT where the file gives none
    duplicates: int = 0  # routes that another one for the same prefix replaced
    family: int = 4  # 4 or 6
    form: str = "generated"  # what kind of file it was read from
    masked: int = 0  # prefixes whose host bits were set and are now 0
    left_out: Mapping[str, int] = NOTHING  # routes that were not taken, by reason
    remarks: tuple[str, ...] = ()  # choices made while reading, for instance which peer

    def text(self, route: int) -> str:
        """Row `route` as it stands in a file of `PREFIX NEXTHOP` lines."""
        return f"{self.prefix_text(route)} {self.nexthops[int(self.nexthop[route])]}"

    def prefix_text(self, route: int) -> str:
        """The prefix of row `route`."""
        if self.family == 4:
            return f"{format_address(int(self.prefix[route]))}/{int(self.plen[route])}"
        return f"{format_either(from_words(self.prefix[route : route + 1])[0], 6)}/{int(self.plen[route])}"

    def has_default(self) -> bool:
        """Whether every address has a route: a prefix of length 0."""
        return bool((self.plen == 0).any())

    def notes(self) -> list[str]:
        """What a user should know about how the file was read, one sentence each."""
        notes = list(self.remarks)
        if self.masked:
            notes.append(f"{self.masked:,} prefixes with host bits set: masked")
        if self.duplicates:
            notes.append(f"{self.duplicates:,} routes replaced by another for the same prefix")
        notes += [f"{count:,} left out: {reason}" for reason, count in self.left_out.items()]
        if not self.has_default():
            notes.append("no default route: addresses outside the prefixes are unreachable")
        return notes


def make_routes(routes: list[tuple[int, int, str]], duplicates: int = 0, family: int = 4) -> RouteTable:
    """A table of (network, length, next hop), in the order given. The caller knows that prefixes are valid and distinct."""
    index: dict[str, int] = {}
    nexthop = [index.setdefault(name, len(index)) for _, _, name in routes]
    networks = [network for network, _, _ in routes]
    return RouteTable(
        prefix=to_words(networks) if family == 6 else np.array(networks, np.int64),
        plen=np.array([plen for _, plen, _ in routes], np.int64),
        nexthop=np.array(nexthop, np.int64),
        nexthops=list(index),
        duplicates=duplicates,
        family=family,
    )


class Collector:
    """What a reader has found so far. Of several routes for a prefix that with the lowest metric counts, of equals the last."""

    def __init__(self, where: str | os.PathLike[str], family: int) -> None:
        """`where`: the file's name, for sentences. `family`: routes of the other one are counted and left out."""
        if family not in BITS:
            raise ValueError(f"a routing table is of family 4 or 6, got {family}")
        self.where = os.fspath(where)
        self.family = family
        self.left_out: Counter[str] = Counter()
        self.remarks: list[str] = []
        self.masked = self.duplicates = 0
        self.bits = BITS[family]
        self._masks = [(1 << self.bits) - (1 << (self.bits - plen)) for plen in range(self.bits + 1)]
        self._found: dict[int, str] = {}
        self._metric: dict[int, int] = {}

    def add_text(self, prefix: str, nexthop: str, metric: int = 0) -> None:
        """A route as text; `default` is that of the family asked for. ValueError for what is no prefix."""
        if prefix == "default":
            self.add(0, 0, nexthop, metric)
            return
        family, address, plen = parse_either(prefix)
        if family != self.family:
            self.left_out[f"IPv{family} routes"] += 1
        else:
            self.add(address, plen, nexthop, metric)

    def add(self, address: int, plen: int, nexthop: str, metric: int = 0) -> None:
        """A route of the table's family; the length is from 0 to 32 or 128."""
        network = address & self._masks[plen]
        if network != address:
            self.masked += 1
        key = network << 8 | plen
        if key in self._found:
            self.duplicates += 1
            if metric > self._metric.get(key, 0):
                return
        self._found[key] = nexthop
        if metric or self._metric:
            self._metric[key] = metric

    def table(self, form: str) -> RouteTable:
        """The table of what was found. ValueError if that is nothing."""
        if not self._found:
            others = "".join(f"; {count:,} left out: {reason}" for reason, count in self.left_out.items())
            if others:
                other = 10 - self.family
                cure = f"; it holds IPv{other}, so ask for that" if f"IPv{other} routes" in self.left_out else ""
                raise ValueError(f"{self.where} ({form}) holds no IPv{self.family} route that can be used{others}{cure}")
            raise ValueError(
                f"{self.where} holds no routes; write one 'PREFIX [NEXTHOP]' per line, for example '0.0.0.0/0 192.0.2.1'"
            )
        routes = [(key >> 8, key & 0xFF, nexthop) for key, nexthop in self._found.items()]
        made = make_routes(routes, self.duplicates, self.family)
        return made._replace(form=form, masked=self.masked, left_out=dict(self.left_out), remarks=tuple(self.remarks))
