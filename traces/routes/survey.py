"""What a routing table or a list of its changes is made of, for people to look at."""

from typing import NamedTuple

import numpy as np

from models.kernel import I64
from traces.addresses import BITS, from_words
from traces.routes.table import RouteTable


class Survey(NamedTuple):
    """Counts of a routing table."""

    by_length: dict[int, int]  # prefixes by their length
    nested_by_length: dict[int, int]  # of them inside a shorter prefix of the table
    by_nexthop: list[tuple[str, int]]  # next hops with their prefixes, most first


def survey(table: RouteTable) -> Survey:
    """Count a table."""
    inside = nested(table)
    counts, within = np.bincount(table.plen), np.bincount(table.plen[inside], minlength=BITS[table.family] + 1)
    hops = np.bincount(table.nexthop, minlength=len(table.nexthops))
    order = np.argsort(-hops, kind="stable")
    return Survey(
        by_length={length: int(n) for length, n in enumerate(counts.tolist()) if n},
        nested_by_length={length: int(within[length]) for length, n in enumerate(counts.tolist()) if n},
        by_nexthop=[(table.nexthops[hop], int(hops[hop])) for hop in order.tolist() if hops[hop]],
    )


def nested(table: RouteTable) -> np.ndarray:
    """bool[n], which prefixes lie inside a shorter one: in order of address, those that begin before an earlier one ends."""
    if table.family == 4:
        first: I64 = table.prefix
        last = first + (np.int64(1) << (32 - table.plen)) - 1
        order = np.lexsort((table.plen, first))
        before = np.maximum.accumulate(last[order])
        found = np.zeros(table.plen.size, np.bool_)
        found[order[1:]] = before[:-1] >= first[order[1:]]
        return found
    found = np.zeros(table.plen.size, np.bool_)
    ends = -1
    rows = sorted(zip(from_words(table.prefix), table.plen.tolist(), range(table.plen.size), strict=True))
    for address, plen, row in rows:
        found[row] = ends >= address
        ends = max(ends, address + (1 << (128 - plen)) - 1)
    return found
