"""Longest prefix match as a sorted list of address ranges: the truth that every answer is checked against.

A routing table is flattened once into disjoint ranges, each with the route of its longest prefix; a look-up is a binary search
among the few ranges that an address's first 20 bits leave. Nothing here is priced and nothing is shared with the LC-trie of the
simulated FIB, so the two check each other.
"""

from typing import NamedTuple

import numpy as np

from models.flow import DST, PacketBatch
from models.kernel import I32, I64, i64, kernel

NO_ROUTE = -1
INDEX_SHIFT = 12


class RangeState(NamedTuple):
    """The flattened table and an index into it."""

    start: I64  # int64[ranges], first address of each range, ascending, start[0] == 0
    route: I32  # int32[ranges], route of the range, or NO_ROUTE
    first: I32  # int32[2^20 + 1], range that holds address i << INDEX_SHIFT


class RouteRanges:
    """A table of prefixes with a route each. IPv4 only."""

    def __init__(self, prefix: I64, plen: I64, route: I64) -> None:
        """int64[n] each: network addresses, prefix lengths 0..32, routes >= 0. ValueError for host bits or double prefixes."""
        starts, routes = flatten(prefix, plen, route)
        first = np.arange((1 << (32 - INDEX_SHIFT)) + 1, dtype=np.int64) << INDEX_SHIFT
        index = np.searchsorted(starts, first, side="right") - 1
        self.state = RangeState(starts, routes, index.astype(np.int32))

    def lookup(self, address: int) -> int:
        """Route of one address, NO_ROUTE if no prefix holds it."""
        at = int(np.searchsorted(self.state.start, address, side="right")) - 1
        return int(self.state.route[at])

    def resolve(self, batch: PacketBatch) -> None:
        """Write the route of each packet's destination into batch.route."""
        resolve(self.state, batch, int(batch.packets[0]))


def flatten(prefix: I64, plen: I64, route: I64) -> tuple[I64, I32]:
    """Starts and routes of the disjoint ranges of a table, O(n log n). Nested prefixes are handled with a stack of open ones."""
    order = np.lexsort((plen, prefix))
    starts: list[int] = []
    routes: list[int] = []
    open_: list[tuple[int, int]] = []  # (first address after the prefix, its route), innermost last

    def cut(at: int, found: int) -> None:
        if starts and starts[-1] == at:
            routes[-1] = found
        else:
            starts.append(at)
            routes.append(found)

    cut(0, NO_ROUTE)
    last = (-1, -1)
    for i in order:
        network, length, found = int(prefix[i]), int(plen[i]), int(route[i])
        if not 0 <= length <= 32 or network & ((1 << (32 - length)) - 1) or network >> 32:
            raise ValueError(f"not a prefix: address {network:#x} with length {length}")
        if (network, length) == last:
            raise ValueError(f"prefix {network:#x}/{length} stands twice in the table")
        last = (network, length)
        while open_ and open_[-1][0] <= network:
            end, _ = open_.pop()
            cut(end, open_[-1][1] if open_ else NO_ROUTE)
        cut(network, found)
        open_.append((network + (1 << (32 - length)), found))
    while open_:
        end, _ = open_.pop()
        if end < 1 << 32:
            cut(end, open_[-1][1] if open_ else NO_ROUTE)
    return np.array(starts, np.int64), np.array(routes, np.int32)


@kernel
def find_route(ranges: RangeState, address: int) -> int:
    """Route of one address by binary search."""
    low = i64(ranges.first[address >> INDEX_SHIFT])
    high = i64(ranges.first[(address >> INDEX_SHIFT) + 1]) + 1
    while high - low > 1:
        middle = (low + high) >> 1
        if ranges.start[middle] <= address:
            low = middle
        else:
            high = middle
    return i64(ranges.route[low])


@kernel
def resolve(ranges: RangeState, batch: PacketBatch, packets: int) -> None:
    """Routes of the first `packets` packets into batch.route."""
    for i in range(packets):
        batch.route[i] = find_route(ranges, i64(batch.key[i, DST]))
