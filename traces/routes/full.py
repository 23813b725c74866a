"""A generated full BGP table: lengths, nesting and closeness as in the table of 2008 (shape_2008.py).

Prefixes are laid from the shortest to the longest. Those of one length come in runs of neighbours; a run begins at a place drawn
inside a prefix of the length that the shape asks for, some prefixes drawn far more often than others, or in space that no prefix
covers yet. What would lie elsewhere than asked is drawn again.
"""

from typing import NamedTuple

import numpy as np

from models.kernel import I64
from traces.addresses import format_address, format_either, to_words
from traces.routes.generated import FIRST_NEXTHOP
from traces.routes.outer import Outer, outer_4, outer_6
from traces.routes.shape_2008 import LENGTHS, Length
from traces.routes.shape_ipv6 import BITS_LAID, LARGE, SMALL, SMALL_UP_TO
from traces.routes.table import RouteTable

MOST = {4: 1 << 20, 6: 100_000}
ROUNDS = 60
UNEQUAL = 6
"""Rounds in which shares count; what has found no place then is laid wherever it fits."""
NOBODY = -1
TINY = 1e-9
"""Share of what holds no others, unless all are such."""

PARENT_SPREAD = 1.2
"""Standard deviation of the logarithm of a prefix's share of what lies in those of its length: chosen by how many hold others."""
EVEN = 0.4
"""Share of the runs that are made to begin at an even place: chosen by how many prefixes have their other half beside them."""
LONG_RUN = 4.0
"""Mean length of runs of two and more."""
CLUSTER = 5
"""Runs that follow each other at short distance, in the mean."""
LONGEST_GAP = 50
"""Places between two such runs, at most; the logarithm is drawn evenly."""
GROWS = 20
"""Tables larger than that of the shape have more prefixes of this length and longer, no more shorter ones."""
SAME_AS_PARENT = 0.6255
"""Of the nested prefixes of 2008 so many have the origin AS of the prefix around them; here they have its next hop."""
FIRST_NEXTHOP_6 = 0x20010DB8_0000FFFF_00000000_00000001


class Laid(NamedTuple):
    """Prefixes in the order in which they were laid, shortest first."""

    prefix: I64  # int64[n], the first bits of the address as a number
    plen: I64  # int64[n]
    parent: I64  # int64[n], the longest prefix around it, by its row, or NOBODY


def full_table(
    seed: int | np.random.Generator, prefixes: int = 270_000, family: int = 4, *, nexthops: int = 32, default: bool = False
) -> RouteTable:
    """A table of exactly so many prefixes in the order of their addresses; with `default`, the last is a default route.

    The shape of IPv6 is that of shape_ipv6.py. Next hop k of `nexthops` has a share proportional to 1 / k of the prefixes.
    ValueError for impossible numbers.
    """
    if family not in (4, 6):
        raise ValueError(f"a routing table is of family 4 or 6, got {family}")
    if not 100 <= prefixes <= MOST[family]:
        raise ValueError(f"a generated full table of IPv{family} has from 100 to {MOST[family]} prefixes, got {prefixes}")
    if nexthops < 1:
        raise ValueError(f"a routing table needs at least one next hop, got {nexthops}")
    rng = np.random.default_rng(seed)
    if family == 4:
        laid = lay(rng, LENGTHS, prefixes - default, 32, outer_4(rng))
    else:
        laid = lay(rng, SMALL if prefixes <= SMALL_UP_TO else LARGE, prefixes - default, BITS_LAID, outer_6())
    hop = _hops(rng, laid, nexthops)
    order = np.lexsort((laid.plen, laid.prefix))
    prefix, plen, nexthop = laid.prefix[order], laid.plen[order], hop[order]
    if default:
        prefix, plen, nexthop = np.append(prefix, 0), np.append(plen, 0), np.append(nexthop, 0)
    if family == 4:
        return RouteTable(prefix, plen, nexthop, [format_address(FIRST_NEXTHOP + k) for k in range(nexthops)])
    words = to_words([network << (128 - BITS_LAID) for network in prefix.tolist()])
    return RouteTable(words, plen, nexthop, [format_either(FIRST_NEXTHOP_6 + k, 6) for k in range(nexthops)], family=6)


def lay(rng: np.random.Generator, shape: dict[int, Length], prefixes: int, bits: int, outer: Outer) -> Laid:
    """Lay `prefixes` prefixes of a shape in a space of `bits` bits. ValueError where they find no room."""
    counts = _counts(shape, prefixes)
    prefix, plen, parent = (np.zeros(prefixes, np.int64) for _ in range(3))
    weight = np.zeros(prefixes)
    starts, owner = np.zeros(1, np.int64), np.full(1, NOBODY, np.int64)
    rows_of: dict[int, I64] = {}
    done = 0
    for (length, about), count in zip(shape.items(), counts.tolist(), strict=True):
        inside = {around: n for around, n in about.inside.items() if around in rows_of}
        shares = _apportion(np.array([about.prefixes - sum(inside.values()), *inside.values()]), count)
        size = 1 << (bits - length)
        first = done
        for around, need in zip((NOBODY, *inside), shares.tolist(), strict=True):
            rows = rows_of.get(around)
            shared = np.zeros(0) if rows is None else np.cumsum(weight[rows])
            evenly = shared if rows is None else np.cumsum(weight[rows] > TINY) + TINY * np.arange(1, rows.size + 1)
            found = np.zeros(0, np.int64)
            for attempt in range(ROUNDS):
                if found.size == need:
                    break
                runs, ahead = _clusters(rng, 1 - about.adjacent, need - found.size)
                if rows is None:
                    begin = outer.draw(rng, length, int(ahead[-1, 0]) + 1, attempt < UNEQUAL)
                else:
                    sums = shared if attempt < UNEQUAL else evenly
                    drawn = rows[
                        np.searchsorted(sums, rng.random(int(ahead[-1, 0]) + 1) * sums[-1], side="right").clip(max=rows.size - 1)
                    ]
                    begin = prefix[drawn] + rng.integers(0, 1 << (length - around), drawn.size) * size
                begin = begin[ahead[:, 0]] + ahead[:, 1] * size
                begin -= np.where(rng.random(runs.size) < EVEN, begin & size, 0)
                places = np.repeat(begin, runs) + (np.arange(int(runs.sum())) - np.repeat(np.cumsum(runs) - runs, runs)) * size
                places = places[places >> bits == 0]
                around_it = owner[np.searchsorted(starts, places, side="right") - 1]
                if attempt < ROUNDS // 2:  # what still finds none may lie anywhere
                    fits = around_it == NOBODY if rows is None else plen[around_it] == around
                    places = places[fits & ((around_it == NOBODY) == (rows is None))]
                _, at = np.unique(places, return_index=True)
                places = places[np.sort(at)]
                seen = np.sort(np.concatenate([prefix[first:done], found, [-1]]))  # np.isin hashes, which is ten times slower
                places = places[seen[np.searchsorted(seen, places, side="right") - 1] != places]
                found = np.append(found, places[: need - found.size])
            if found.size < need:
                raise ValueError(f"there is no room for {prefixes} generated prefixes; ask for fewer")
            rows_here = slice(done, done + need)
            prefix[rows_here], plen[rows_here] = found, length
            parent[rows_here] = owner[np.searchsorted(starts, found, side="right") - 1]
            done += need
        holds = rng.random(done - first) < about.holders / about.prefixes
        weight[first:done] = np.where(holds, rng.lognormal(0, PARENT_SPREAD, done - first), TINY)
        if done > first:
            rows_of[length] = np.arange(first, done)
            outer.cover(np.sort(prefix[first:done]), length)
            starts, owner = _insert(starts, owner, prefix[first:done], size, first, bits)
    return Laid(prefix, plen, parent)


def _clusters(rng: np.random.Generator, alone: float, prefixes: int) -> tuple[I64, I64]:
    """Runs of about so many prefixes: lengths, and for each its cluster and how far ahead of the cluster's beginning it is.

    `alone`: share of the prefixes without a neighbour. The others' runs have a long tail, and so have the gaps between runs, as in
    2008 (of the runs of /24: median 3, one in a hundred over 31, mean 4.4).
    """
    single = alone * LONG_RUN / (1 - alone + alone * LONG_RUN)
    n = max(4, int(prefixes * 1.1 / (single + (1 - single) * LONG_RUN)))
    longer = np.minimum(2 + np.floor(3 * rng.pareto(2.2, n)), 256)
    runs = np.where(rng.random(n) < single, 1, longer).astype(np.int64)
    begins = rng.random(n) < 1 / CLUSTER
    begins[0] = True
    gap = np.exp(rng.uniform(0, np.log(LONGEST_GAP), n)).astype(np.int64)
    end = np.cumsum(runs + gap)
    cluster = np.cumsum(begins) - 1
    start = end - runs - gap
    return runs, np.stack([cluster, start - start[begins][cluster]], axis=1)


def _insert(starts: I64, owner: I64, prefix: I64, size: int, first: int, bits: int) -> tuple[I64, I64]:
    """Ranges and their owners with disjoint new prefixes laid over them, rows `first` and on."""
    ends = prefix + size
    new = np.sort(np.concatenate([starts, prefix, ends[ends >> bits == 0]]))
    new = new[np.append(True, np.diff(new) > 0)]
    owners = owner[np.searchsorted(starts, new, side="right") - 1]
    owners[np.searchsorted(new, prefix)] = np.arange(first, first + prefix.size)
    return new, owners


def _counts(shape: dict[int, Length], prefixes: int) -> I64:
    """Prefixes by length. What is asked for beyond the size of the shape is long: there is no room for more short ones."""
    whole = np.array([length.prefixes for length in shape.values()])
    grows = np.array([length >= GROWS for length in shape])
    if prefixes <= whole.sum() or not grows.any():
        return _apportion(whole, prefixes)
    return whole + _apportion(whole * grows, prefixes - int(whole.sum()))


def _apportion(shares: I64, total: int) -> I64:
    """Whole numbers in proportion to `shares` that add up to `total`, by largest remainder."""
    exact = shares * (total / shares.sum())
    whole: I64 = np.floor(exact).astype(np.int64)
    rest = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:rest]] += 1
    return whole


def _hops(rng: np.random.Generator, laid: Laid, nexthops: int) -> I64:
    """A next hop for each prefix: often that of the prefix around it, else drawn by share."""
    shared = np.cumsum(1 / np.arange(1, nexthops + 1))
    hop: I64 = np.searchsorted(shared, rng.random(laid.plen.size) * shared[-1], side="right").astype(np.int64)
    follows = (rng.random(laid.plen.size) < SAME_AS_PARENT) & (laid.parent != NOBODY)
    for length in np.unique(laid.plen).tolist():
        rows = np.flatnonzero(follows & (laid.plen == length))
        hop[rows] = hop[laid.parent[rows]]
    return hop
