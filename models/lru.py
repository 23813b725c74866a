"""Bounded LRU cache of flows: the example of how to add a structure (docs/extending.md).

Entries are sorted by last use, each is one cache line of a table. Left out: delayed frees; the index is not simulated.
"""

from dataclasses import dataclass

from sortedcontainers import SortedDict

from models.access import WRITE, call, touch
from models.functions import number
from models.interface import MISS, NEED_NOTHING, Context, FlowCache, Packet, World, param


@dataclass(frozen=True)
class LruParams:
    capacity: int = param(65536, "most flows that are remembered", unit="entries")


class Lru(FlowCache):
    name, summary, Params = "lru", "bounded LRU in plain Python: the example to start your own from", LruParams
    families = (4, 6)
    functions, records_per_packet = ("lru_lookup", "lru_insert"), 2

    def __init__(self, params: LruParams, world: World) -> None:
        if params.capacity < 1:
            raise ValueError(f"lru.capacity must be at least 1, got {params.capacity}")
        super().__init__(params, world)
        self.base = world.memory.region("lru entries", params.capacity * 64)
        self.free = list(range(params.capacity))
        self.entries: dict[tuple[int, ...], tuple[int, int, int]] = {}  # key -> last use, line, route
        self.order: SortedDict[int, tuple[int, ...]] = SortedDict()  # last use -> key
        self.uses = 0

    def lookup(self, packet: Packet, ctx: Context) -> int:
        call(ctx.log, number("lru_lookup"), 1)
        if packet.key not in self.entries:
            return MISS
        last_use, line, route = self.entries[packet.key]
        del self.order[last_use]
        self._use(packet.key, line, route, number("lru_lookup"), ctx)
        return route

    def insert(self, packet: Packet, route: int, ctx: Context) -> int:
        call(ctx.log, number("lru_insert"), 1)
        if not self.free:
            self.remove(self.order.peekitem(0)[1], ctx)
        self._use(packet.key, self.free.pop(), route, number("lru_insert"), ctx)
        return NEED_NOTHING

    def remove(self, key: tuple[int, ...], ctx: Context) -> bool:
        if key not in self.entries:
            return False
        last_use, line, _ = self.entries.pop(key)
        del self.order[last_use]
        self.free.append(line)
        return True

    def flush(self, ctx: Context) -> bool:
        self.entries.clear()
        self.order.clear()
        self.free = list(range(self.capacity))
        return True

    def _use(self, key: tuple[int, ...], line: int, route: int, function: int, ctx: Context) -> None:
        self.uses += 1
        self.entries[key], self.order[self.uses] = (self.uses, line, route), key
        ctx.entry = self.base + 64 * line
        touch(ctx.log, WRITE, function, ctx.entry)

    @property
    def capacity(self) -> int:
        return int(self.params.capacity)

    def __len__(self) -> int:
        return len(self.entries)

    def memory_bytes(self) -> int:
        return 64 * self.capacity

    def check(self) -> None:
        assert list(self.order.values()) == sorted(self.entries, key=lambda key: self.entries[key]), "order of last use"
        assert sorted(self.free + [line for _, line, _ in self.entries.values()]) == list(range(self.capacity)), "lines"
