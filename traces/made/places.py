"""Places: prefixes with weights, from which addresses are drawn; a prefix by its weight, then any address in it evenly.

Left out: that a drawn address may belong to a longer prefix of the same table (it is then looked up as one of that).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.kernel import I64, U32, kernel
from traces.addresses import to_words
from traces.made.alias import Alias, make_alias, pick, pick_many
from traces.made.stream import parse_prefix_of
from traces.routes.table import RouteTable

DRAWS = {4: 2, 6: 3}
"""Draws of 64 bits for an address: one for the prefix, the others for what is behind it."""


class Places(NamedTuple):
    """n prefixes of w words, 1 for IPv4 and 4 for IPv6."""

    network: I64  # int64[n, w], high word first
    host: I64  # int64[n, w], 1 where a bit is drawn
    alias: Alias  # which prefix


@kernel
def write_address(places: Places, draws: I64, draw: int, key: U32, row: int, at: int) -> None:
    """Write an address to the words of key[row] from `at` on, by row `draw` of the draws."""
    prefix = pick(places.alias, draws[draw, 0])
    for word in range(places.network.shape[1]):
        bits = draws[draw, 1 + (word >> 1)] >> ((word & 1) * 32)
        key[row, at + word] = places.network[prefix, word] | (bits & places.host[prefix, word])


def places_in(prefixes: str | Sequence[str], family: int = 4) -> Places:
    """Places in one prefix or several, each address as likely as any other. ValueError."""
    texts = [prefixes] if isinstance(prefixes, str) else list(prefixes)
    if not texts:
        raise ValueError("there is no prefix to draw addresses from; give at least one")
    found = [parse_prefix_of(text, family) for text in texts]
    return _make([network for network, _ in found], np.array([plen for _, plen in found], np.int64), family, None)


def destinations_from(table: RouteTable, weights: str | npt.NDArray[np.float64] = "addresses") -> Places:
    """Places in the prefixes of a routing table, its default route left out.

    `weights`: "addresses", each address of a prefix counts; "prefixes", each prefix counts once; or a weight for each row of the
    table. ValueError for a table without other prefixes.
    """
    rows = np.flatnonzero(table.plen > 0)
    if not rows.size:
        raise ValueError("the routing table has no prefixes other than the default route; nothing can be drawn from it")
    plen = table.plen[rows]
    given: npt.NDArray[np.float64] | None
    if isinstance(weights, str):
        if weights not in ("addresses", "prefixes"):
            raise ValueError(f"weights are 'addresses', 'prefixes' or one number for each route, got {weights!r}")
        given = None if weights == "addresses" else np.ones(rows.size)
    else:
        if weights.size != table.plen.size:
            raise ValueError(f"there are {weights.size:,} weights for {table.plen.size:,} routes; give one for each")
        given = weights[rows].astype(np.float64)
    network = table.prefix[rows].astype(np.int64).reshape(rows.size, -1)
    return Places(network, _host_masks(plen, network.shape[1]), make_alias(_weights(plen) if given is None else given))


def _make(networks: list[int], plen: I64, family: int, weights: npt.NDArray[np.float64] | None) -> Places:
    words = np.array(networks, np.int64).reshape(-1, 1) if family == 4 else to_words(networks).astype(np.int64)
    return Places(words, _host_masks(plen, words.shape[1]), make_alias(_weights(plen) if weights is None else weights))


def _weights(plen: I64) -> npt.NDArray[np.float64]:
    """By the number of addresses."""
    return np.exp2(-plen.astype(np.float64))


def _host_masks(plen: I64, words: int) -> I64:
    """Which bits of each word lie behind the prefix."""
    inside = np.clip(plen[:, None] - 32 * np.arange(words), 0, 32)
    masks: I64 = np.int64(0xFFFFFFFF) >> inside
    return masks


def draw_addresses(places: Places, rng: np.random.Generator, count: int) -> U32:
    """`count` addresses at once, uint32[count, w]."""
    words = places.network.shape[1]
    prefix = pick_many(places.alias, rng.integers(-(1 << 63), 1 << 63, count))
    bits = rng.integers(0, 1 << 32, (count, words))
    return (places.network[prefix] | (bits & places.host[prefix])).astype(np.uint32)


def family_of(places: Places) -> int:
    """4 or 6."""
    return 4 if places.network.shape[1] == 1 else 6


def as_places(where: "str | Sequence[str] | Places", family: int) -> Places:
    """Places as they are, or those in prefixes. ValueError for those of the other family."""
    if not isinstance(where, Places):
        return places_in(where, family)
    if family_of(where) != family:
        raise ValueError(
            f"the addresses to draw are of IPv{family_of(where)} and the traffic of IPv{family}; give those of its family"
        )
    return where
