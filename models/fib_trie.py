"""FibTrie: one routing table with longest prefix match, as net/ipv4/fib_trie.c of 2.6.20 keeps it on the LC-trie.

The lookup is in models/fib_trie_lookup.py, changes are in models/fib_trie_update.py. Here are the pools, the place of every object
in simulated memory, and the checks of what a user hands in. Changes are not priced: no packet waits for them.
"""

import numpy as np

from models.access import AccessLog, make_log
from models.fib_trie_lookup import (
    ALIAS_BYTES,
    ALIASES,
    FIB_INFO_BYTES,
    FIB_INFOS,
    FIRST_INFO,
    LOADED,
    NEXT,
    NEXTHOP,
    NO_ROUTE,
    PENDING,
    PLEN,
    PREFIXES,
    VARS,
    FibState,
    FibTable,
    find_routes,
)
from models.fib_trie_update import drop_leaf, fib_insert, fib_load, unlink_info
from models.functions import number
from models.interface import NEED_NOTHING
from models.kernel import I64, NIL
from models.lc_trie import LcTrie
from models.lc_trie.trie import slab_geometry
from models.simulated_memory import SimulatedMemory
from models.slab import FREE_HEAD, PER_SLAB, SHARED, SLABS, SlabCache, slab_room

FN_TRIE_LOOKUP = number("fn_trie_lookup")

KMALLOC_32 = 32
MANY = 1000
"""Lookups at once that are worth sorting."""
MOST_PREFIXES = 1 << 21


class FibTrie:
    """A routing table. `state` changes with every insert and load: read it afresh for every kernel call."""

    def __init__(
        self, memory: SimulatedMemory, name: str = "fib", *, nexthops: int = 1, cpus: int = 2, room: int = 1 << 10
    ) -> None:
        """`nexthops`: different next hops, 0 .. nexthops - 1, one fib_info each. `room`: prefixes to have room for at first."""
        if nexthops < 1:
            raise ValueError(f"a routing table needs at least one next hop, got {nexthops}")
        self.nexthops = nexthops
        self.trie = LcTrie(memory, 1, name=name, leaf_size=KMALLOC_32, columns=1, cpus=cpus, room=room)
        per_slab, first, slab_bytes = slab_geometry(KMALLOC_32)
        self.infos = SlabCache(
            memory,
            f"{name} leaf_infos",
            KMALLOC_32,
            per_slab=per_slab,
            first=first,
            slab_bytes=slab_bytes,
            cpus=cpus,
            room=room,
            most=MOST_PREFIXES,
        )
        var = np.zeros(VARS, np.int64)
        var[PENDING] = NIL
        var[FIB_INFOS] = memory.region(
            f"{name} fib_infos, fib_aliases", nexthops * FIB_INFO_BYTES + 2 * MOST_PREFIXES * ALIAS_BYTES
        )
        var[ALIASES] = var[FIB_INFOS] + nexthops * FIB_INFO_BYTES
        self._var = var
        self._info = np.full((self.infos.room(), 4), NIL, np.int32)
        self._key = np.zeros((1, 1), np.uint32)
        self._off: AccessLog = make_log(1, 1, on=False)

    @property
    def state(self) -> FibState:
        """The state that kernels take."""
        return FibState(self.trie.state, self.trie.leaves.state, self.infos.state, self._info, self._var, self._key)

    @property
    def table(self) -> FibTable:
        """What lookups read of it."""
        return FibTable(self.trie.state, self._info, self.infos.state.var, self._var)

    def insert(self, prefix: int, plen: int, route: int, nexthop: int = 0) -> None:
        """Insert a prefix, or change the route of one that is there. ValueError for what is no prefix, route or next hop."""
        one = [np.array([value], np.int64) for value in (prefix, plen, route, nexthop)]
        self._validate(one[0], one[1], one[2], one[3])
        while fib_insert(self.state, self._off, 0, prefix, plen, route, nexthop) != NEED_NOTHING:
            self._grow()

    def load(self, prefix: I64, plen: I64, route: I64, nexthop: I64 | None = None) -> None:
        """Insert a whole table, int64[n] each; a prefix that stands twice keeps its last route. ValueError as for `insert`."""
        hop = np.zeros(len(prefix), np.int64) if nexthop is None else nexthop
        self._validate(prefix, plen, route, hop)
        self._var[LOADED] = 0
        while fib_load(self.state, self._off, 0, prefix, plen, route, hop) != NEED_NOTHING:
            self._grow()

    def remove(self, prefix: int, plen: int) -> bool:
        """Remove a prefix; False if it is not in the table."""
        leaf = unlink_info(self.state, self._off, 0, prefix, plen)
        if leaf == NIL:
            return False
        if self.trie.state.leaf[leaf, FIRST_INFO] == NIL:
            while drop_leaf(self.state, self._off, 0, leaf) != NEED_NOTHING:
                self._grow()
        return True

    def lookup(self, address: int) -> int:
        """Route of the longest prefix that holds an address, NO_ROUTE if none does."""
        return int(self.lookup_batch(np.array([address], np.int64))[0])

    def lookup_batch(self, addresses: I64) -> I64:
        """Route of each of int64[n] addresses.

        Nothing is priced here, so many are looked up in the order of the addresses: neighbours have most of their path in
        common, and the host's caches then hold it (measured: three times as fast on a full table, the sorting included).
        """
        routes = np.full(addresses.size, NO_ROUTE, np.int64)
        if addresses.size < MANY:
            find_routes(self.table, self._off, FN_TRIE_LOOKUP, addresses, routes)
            return routes
        order = np.argsort(addresses.astype(np.uint32))
        found = routes.copy()
        find_routes(self.table, self._off, FN_TRIE_LOOKUP, addresses[order], found)
        routes[order] = found
        return routes

    def __len__(self) -> int:
        """Prefixes in the table."""
        return int(self._var[PREFIXES])

    def memory_bytes(self) -> int:
        """Simulated memory of tnodes, leaves, leaf_infos, aliases and fib_infos, bytes."""
        return self.trie.memory_bytes() + self.infos.bytes() + len(self) * ALIAS_BYTES + self.nexthops * FIB_INFO_BYTES

    def check(self) -> None:
        """Assert every invariant: of the trie, and that every leaf bears a list of its own, longest prefix first."""
        self.trie.check()
        self.infos.check()
        free = set(_free_objects(self.trie.leaves))
        leaves = [leaf for leaf in range(_objects(self.trie.leaves)) if leaf not in free]
        found = 0
        for leaf in leaves:
            address, info = (int(word) for word in self.trie.state.leaf[leaf, : FIRST_INFO + 1])
            before = 33
            assert info != NIL, f"leaf {leaf} has no leaf_info"
            while info != NIL:
                plen = int(self._info[info, PLEN])
                assert plen < before, f"leaf {leaf} lists /{plen} behind /{before}"
                assert address & (0xFFFFFFFF >> plen) == 0, f"{address:#x}/{plen} has host bits"
                assert 0 <= self._info[info, NEXTHOP] < self.nexthops, f"leaf_info {info} has no next hop"
                before, info, found = plen, int(self._info[info, NEXT]), found + 1
        assert found == len(self) == self.infos.live(), f"{len(self)} prefixes, {found} on lists, {self.infos.live()} objects"

    def _grow(self) -> None:
        if slab_room(self.trie.leaves.state, 0) < 1:
            self.trie.leaves.grow()
        if slab_room(self.infos.state, 0) < 1:
            self.infos.grow()
            info = np.full((self.infos.room(), 4), NIL, np.int32)
            info[: self._info.shape[0]] = self._info
            self._info = info
        self.trie.grow()

    def _validate(self, prefix: I64, plen: I64, route: I64, nexthop: I64) -> None:
        if not prefix.shape == plen.shape == route.shape == nexthop.shape:
            raise ValueError(
                f"columns of a routing table differ in length: {prefix.size}, {plen.size}, {route.size}, {nexthop.size}"
            )
        bad = (plen < 0) | (plen > 32) | (prefix < 0) | (prefix >> 32 != 0)
        bad |= (prefix & (0xFFFFFFFF >> np.clip(plen, 0, 32))) != 0
        if bad.any():
            i = int(np.argmax(bad))
            raise ValueError(f"not a prefix: address {int(prefix[i]):#x} with length {int(plen[i])}, in row {i}")
        wrong = (route < 0) | (route >= NIL)
        if wrong.any():
            raise ValueError(f"a route is a number from 0 to {NIL - 1}, got {int(route[np.argmax(wrong)])}")
        far = (nexthop < 0) | (nexthop >= self.nexthops)
        if far.any():
            raise ValueError(f"a next hop is a number below {self.nexthops}, got {int(nexthop[np.argmax(far)])}")


def _objects(cache: SlabCache) -> int:
    """Objects of the slabs taken so far, live or not."""
    return int(cache.state.var[SLABS] * cache.state.var[PER_SLAB])


def _free_objects(cache: SlabCache) -> list[int]:
    """Objects that are in slabs taken but not handed out."""
    state = cache.state
    free: list[int] = []
    for cpu, held in enumerate(state.held):
        free += state.array[cpu, :held].tolist()
    free += state.shared[: state.var[SHARED]].tolist()
    for slab in range(_objects(cache) // int(state.var[PER_SLAB])):
        at = int(state.slab[slab, FREE_HEAD])
        while at != NIL:
            free.append(at)
            at = int(state.link[at])
    return free
