"""RouteHash: a routing table that can change while it is used, as one hash table over prefixes of every length.

The truth of runs in which routes change, and of IPv6: a look-up tries the lengths that occur near the address, longest first. An
index by the first 16 bits says which lengths of 16 and more those are; shorter ones are noted once for the whole table. A note is
never taken back, which costs time and no correctness.
Nothing here is priced, and nothing is shared with the LC-trie of the simulated FIB, so the two check each other.
"""

from typing import Any, NamedTuple

import numpy as np

from models.flow import WORDS_IPV4, PacketBatch
from models.kernel import I32, I64, U32, i64, kernel
from models.route_ranges import NO_ROUTE

EMPTY, DELETED = -1, -2
"""In place of a prefix length: a slot that was never used, and one whose prefix is gone."""

M = 0xFFFFFFFF
INDEX_BITS = 16
FIRST_SLOTS = 1 << 10
LIVE, TAKEN, SHORT = 0, 1, 2
"""Fields of `var`: prefixes in the table; slots that are not EMPTY; bit L: there was a prefix of length L < 16."""


class RouteHashState(NamedTuple):
    """The table. W is the words of an address: 1 for IPv4, 4 for IPv6, high word first."""

    word: U32  # uint32[slots, W], network addresses; slots is a power of two
    plen: I32  # int32[slots], prefix length, EMPTY or DELETED
    route: I32  # int32[slots]
    lengths: I64  # int64[2^16, W // 2 + 1], bit L of row a: there was a prefix of length L >= 16 that begins with a
    var: I64  # int64[3]


@kernel
def masked(word: int, at: int, plen: int) -> int:
    """Word number `at` of an address with everything beyond its first `plen` bits cleared."""
    bits = min(32, max(0, plen - 32 * at))
    return word & ((M << (32 - bits)) & M)


@kernel
def _slot_of(s: RouteHashState, key: U32, row: int, first: int, plen: int) -> int:
    """Slot of the prefix of `plen` bits of the address in key[row, first:]; the EMPTY slot that ends the search if it has none."""
    h = plen
    for w in range(s.word.shape[1]):
        h = ((h ^ masked(i64(key[row, first + w]), w, plen)) & M) * 0x2C1B3C6D
        h ^= h >> 29
    at = h & (s.plen.size - 1)
    while s.plen[at] != EMPTY:
        if s.plen[at] == plen:
            same = True
            for w in range(s.word.shape[1]):
                same &= i64(s.word[at, w]) == masked(i64(key[row, first + w]), w, plen)
            if same:
                return at
        at = (at + 1) & (s.plen.size - 1)
    return at


@kernel
def find_live_route(s: RouteHashState, key: U32, row: int, first: int) -> int:
    """Route of the longest prefix that holds the address in key[row, first:], or NO_ROUTE."""
    near = i64(key[row, first]) >> (32 - INDEX_BITS)
    words = s.lengths.shape[1]
    for back in range(words):
        word = words - 1 - back
        present = i64(s.lengths[near, word])
        if word == 0:
            present |= i64(s.var[SHORT])
        plen = 64 * word + 63
        while present != 0:
            if present < 0:  # bit 63
                at = _slot_of(s, key, row, first, plen)
                if s.plen[at] == plen:
                    return i64(s.route[at])
            present <<= 1
            plen -= 1
    return NO_ROUTE


@kernel
def _note_length(s: RouteHashState, near: int, plen: int) -> None:
    if plen < INDEX_BITS:
        s.var[SHORT] |= 1 << plen
    else:
        s.lengths[near, plen // 64] |= i64(1) << (plen % 64)


@kernel
def put_routes(s: RouteHashState, key: U32, plen: I64, route: I64, begin: int) -> int:
    """Insert prefixes key[i] / plen[i], or change the route of those that are there; returns the first that found no room."""
    for i in range(begin, plen.size):
        if 2 * s.var[TAKEN] >= s.plen.size:
            return i
        length = i64(plen[i])
        at = _slot_of(s, key, i, 0, length)
        if s.plen[at] == EMPTY:
            for w in range(s.word.shape[1]):
                s.word[at, w] = key[i, w]
            s.plen[at] = length
            s.var[TAKEN] += 1
            s.var[LIVE] += 1
            _note_length(s, i64(key[i, 0]) >> (32 - INDEX_BITS), length)
        s.route[at] = route[i]
    return i64(plen.size)


@kernel
def _remove_route(s: RouteHashState, key: U32, plen: int) -> bool:
    at = _slot_of(s, key, 0, 0, plen)
    if s.plen[at] == EMPTY:
        return False
    s.plen[at] = DELETED
    s.var[LIVE] -= 1
    return True


@kernel
def _resolve(s: RouteHashState, batch: PacketBatch, packets: int, first: int) -> None:
    for i in range(packets):
        batch.route[i] = find_live_route(s, batch.key, i, first)


@kernel
def _find_all(s: RouteHashState, key: U32, routes: I64) -> None:
    for i in range(routes.size):
        routes[i] = find_live_route(s, key, i, 0)


class RouteHash:
    """A changeable table of prefixes with a route each, of either family."""

    def __init__(self, prefix: Any, plen: I64, route: I64, family: int = 4) -> None:
        """`prefix`: int64[n] (IPv4) or uint32[n, 4] (IPv6, high word first); `plen`, `route`: int64[n], routes >= 0.

        A prefix that stands twice keeps its last route. ValueError for host bits and lengths that the family does not have.
        """
        self.family = family
        self._words = 1 if family == 4 else 4
        self.state = _make(FIRST_SLOTS, self._words)
        self.load(prefix, plen, route)

    def load(self, prefix: Any, plen: I64, route: I64) -> None:
        """Insert many prefixes; see __init__."""
        key = np.ascontiguousarray(np.asarray(prefix).reshape(-1, self._words).astype(np.uint32))
        _check(key, plen, route, self._words)
        done = int(put_routes(self.state, key, plen, route, 0))
        while done < plen.size:
            self._grow()
            done = int(put_routes(self.state, key, plen, route, done))

    def insert(self, prefix: int, plen: int, route: int) -> None:
        """Insert one prefix, or change its route. `prefix`: the network address as one number."""
        self.load(self._row(prefix), np.array([plen], np.int64), np.array([route], np.int64))

    def remove(self, prefix: int, plen: int) -> bool:
        """Take a prefix out; False if it is not there."""
        return bool(_remove_route(self.state, self._row(prefix), plen))

    def lookup(self, address: int) -> int:
        """Route of one address (as one number), NO_ROUTE if no prefix holds it."""
        return int(find_live_route(self.state, self._row(address), 0, 0))

    def lookup_batch(self, addresses: Any) -> I64:
        """Routes of addresses: int64[n] (IPv4) or uint32[n, 4] (IPv6)."""
        key = np.ascontiguousarray(np.asarray(addresses).reshape(-1, self._words).astype(np.uint32))
        routes = np.zeros(key.shape[0], np.int64)
        _find_all(self.state, key, routes)
        return routes

    def resolve(self, batch: PacketBatch) -> None:
        """Write the route of each packet's destination into batch.route. ValueError for keys of the other family."""
        if (batch.key.shape[1] == WORDS_IPV4) != (self.family == 4):
            raise ValueError(f"a table of IPv{self.family} routes cannot resolve flow keys of {batch.key.shape[1]} words")
        first = self._words  # of a flow key: the destination stands behind the source
        _resolve(self.state, batch, int(batch.packets[0]), first)

    def __len__(self) -> int:
        """Prefixes in the table."""
        return int(self.state.var[LIVE])

    def _row(self, address: int) -> U32:
        return np.array([[(address >> (32 * (self._words - 1 - w))) & M for w in range(self._words)]], np.uint32)

    def _grow(self) -> None:
        """Make the table anew, of twice the size if it is full of prefixes and not of deleted ones."""
        old = self.state
        slots = old.plen.size
        self.state = _make(2 * slots if 4 * len(self) >= slots else slots, self._words)
        kept = old.plen >= 0
        done = put_routes(self.state, old.word[kept], old.plen[kept].astype(np.int64), old.route[kept].astype(np.int64), 0)
        assert done == int(old.var[LIVE]), "a new table holds all that the old one held"


def _make(slots: int, words: int) -> RouteHashState:
    return RouteHashState(
        np.zeros((slots, words), np.uint32),
        np.full(slots, EMPTY, np.int32),
        np.zeros(slots, np.int32),
        np.zeros((1 << INDEX_BITS, words // 2 + 1), np.int64),
        np.zeros(3, np.int64),
    )


def _check(key: U32, plen: I64, route: I64, words: int) -> None:
    """Refuse what is no prefix."""
    if not key.shape[0] == plen.size == route.size:
        raise ValueError(f"columns of a routing table differ in length: {key.shape[0]}, {plen.size}, {route.size}")
    bad = (plen < 0) | (plen > 32 * words)
    for w in range(words):
        bits = np.clip(plen - 32 * w, 0, 32)
        bad |= (key[:, w].astype(np.int64) & ((1 << (32 - bits)) - 1)) != 0
    if bad.any():
        i = int(np.argmax(bad))
        address = int.from_bytes(key[i].astype(">u4").tobytes(), "big")
        raise ValueError(f"not a prefix: address {address:#x} with length {int(plen[i])}, in row {i}")
    if (route < 0).any():
        raise ValueError(f"a route is a number of at least 0, got {int(route.min())}")
