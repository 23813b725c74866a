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
    """Starts and routes of the disjoint ranges of a table, O(n log n): short prefixes are painted first, longer ones over them."""
    clipped = np.clip(plen, 0, 32)
    end = prefix + (np.int64(1) << (32 - clipped))
    bad = (plen != clipped) | (prefix & (end - prefix - 1) != 0) | (prefix >> 32 != 0)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"not a prefix: address {int(prefix[i]):#x} with length {int(plen[i])}")
    order = np.lexsort((prefix, plen))
    low, high, length = prefix[order], end[order], plen[order]
    twice = (low[1:] == low[:-1]) & (length[1:] == length[:-1])
    if twice.any():
        i = int(np.argmax(twice))
        raise ValueError(f"prefix {int(low[i]):#x}/{int(length[i])} stands twice in the table")
    starts = np.sort(np.concatenate([np.zeros(1, np.int64), low, high[high < 1 << 32]]))
    starts = starts[np.append(True, np.diff(starts) > 0)]  # np.unique hashes first, which is slower
    routes = np.full(starts.size, NO_ROUTE, np.int32)
    first = np.searchsorted(length, np.arange(34))  # rows of each length, which are disjoint
    for rows in (slice(first[plen], first[plen + 1]) for plen in range(33)):
        begin = np.searchsorted(starts, low[rows])
        ranges = np.searchsorted(starts, high[rows]) - begin
        before = np.cumsum(ranges) - ranges
        routes[np.repeat(begin - before, ranges) + np.arange(int(ranges.sum()))] = np.repeat(route[order[rows]], ranges)
    return starts, routes


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
