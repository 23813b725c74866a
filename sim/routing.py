"""The routes of a run: its table, what every answer is checked against, and the changes on the way.

Without changes the truth of IPv4 is a flattened table (models/route_ranges.py), the fastest there is; where routes change, and for
IPv6, it is a table that can change (models/route_hash.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.interface import FlowCache, World
from models.kernel import I64
from models.route_hash import RouteHash
from models.route_ranges import RouteRanges
from models.slow_path import SlowPath
from sim.live_routes import LiveRoutes, Resolver
from sim.scenario import Fib
from sim.streams import stream
from traces.churn import Churn, read_updates
from traces.made_churn import made_churn
from traces.routes import RouteTable, default_routes, full_table, read_routes


@dataclass
class Routing:
    """Routes of one run. `unreachable` is the number of the route that stands for no route."""

    table: RouteTable
    truth: Resolver
    unreachable: int
    churn: Churn | None
    hop_of: I64  # int64[next hops of the churn], their numbers among the table's, new ones behind those
    hops: int  # different next hops of both

    def live(self, structure: FlowCache, slow_path: SlowPath) -> LiveRoutes | None:
        """The changes as they meet a structure and its slow path. ValueError for a structure that cannot flush."""
        if self.churn is None:
            return None
        assert isinstance(self.truth, RouteHash)
        return LiveRoutes(
            self.churn,
            self.truth,
            slow_path,
            structure,
            nexthop=self.hop_of,
            next_route=self.unreachable + 1,
            unreachable=self.unreachable,
        )

    def slow_path(self, world: World) -> SlowPath:
        """The FIB of the run."""
        table = self.table
        return SlowPath(world, table.prefix, table.plen, np.arange(table.plen.size), table.nexthop, nexthops=self.hops)

    def notes(self) -> list[str]:
        """What a reader of the result must know about the files."""
        return [*self.table.notes(), *(self.churn.notes() if self.churn is not None else [])]


def make_table(fib: Fib, family: int, seed: int) -> RouteTable:
    """The routing table: a user's file, or one generated from the seed."""
    if fib.file is not None:
        return read_routes(fib.file, family=family, peer=fib.peer)
    rng = stream(seed, "routes")
    if fib.kind == "full":
        return full_table(rng, fib.prefixes, family, default=True)
    if family != 4:
        raise ValueError('the small generated table holds IPv4 prefixes; set fib.kind = "full" or give fib.file')
    return default_routes(rng, fib.prefixes)


def make_churn(fib: Fib, table: RouteTable, seed: int, seconds: float) -> Churn | None:
    """The changes of routes: those of a user's file, or generated ones for so many simulated seconds; None for none."""
    if fib.updates is not None:
        return read_updates(fib.updates, family=table.family, peer=fib.peer)
    if fib.churn > 0:
        return made_churn(stream(seed, "churn"), table, seconds, scale=fib.churn)
    return None


def make_routing(fib: Fib, table: RouteTable, seed: int, seconds: float) -> Routing:
    """Everything a row needs of its routes; `seconds` bounds the generated changes. ValueError for files that cannot be read."""
    churn = make_churn(fib, table, seed, seconds)
    names = {name: i for i, name in enumerate(table.nexthops)}
    hop_of = np.array([names.setdefault(name, len(names)) for name in (churn.nexthops if churn is not None else [])], np.int64)
    truth, unreachable = make_truth(table, changing=churn is not None)
    return Routing(table, truth, unreachable, churn, hop_of, len(names))


def make_truth(table: RouteTable, changing: bool = False) -> tuple[Resolver, int]:
    """What route each packet must get, and the number of the route that stands for unreachable.

    The kernel caches that a destination has no route as it caches a route, so a table without default route gets one here, and
    here alone: the slow path looks for it in vain.
    """
    routes = table.plen.size
    route = np.arange(routes, dtype=np.int64)
    prefix, plen = table.prefix, table.plen
    if not table.has_default():
        nothing: Any = np.zeros((1, *prefix.shape[1:]), prefix.dtype)
        prefix, plen, route = np.append(prefix, nothing, axis=0), np.append(plen, 0), np.append(route, routes)
    if table.family == 4 and not changing:
        return RouteRanges(prefix, plen, route), routes
    return RouteHash(prefix, plen, route, table.family), routes
