"""The two ends that every structure lies between: `perfect` and `none`.

Perfect: a flow misses once, ever, and every lookup touches one cache line, that of the flow's entry. No real structure does as
well, since finding the entry costs nothing here: the host's own hash table is not part of the simulated memory.
NoCache: every packet takes the slow path; nothing is kept, nothing is touched. Left out of both: collection, removal,
delayed frees.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from models.access import READ, WRITE, AccessLog, call, room, touch
from models.flow import PacketBatch
from models.functions import number
from models.interface import MISS, NEED_LOG, NEED_NOTHING, NEED_POOL, Context, FlowCache, Packet, World
from models.kernel import I64, NIL, U32, i64, kernel

PERFECT_LOOKUP = number("perfect_lookup")
PERFECT_INSERT = number("perfect_insert")

ENTRY = 64
"""Bytes of a simulated entry: one cache line."""
MOST = 1 << 24
RECORDS = 2
M = 0xFFFFFFFF
SIGN = 0x80000000
FIRST_ROOM = 1 << 8

USED, BASE, PENDING, HITS, SLOW = range(5)


class PerfectState(NamedTuple):
    """Open addressing with linear probing, at most half full; entries are numbered in order of insertion."""

    slot: I64  # int64[2 * room], 31 bits of the key's hash << 32 | entry + 1; 0 if free
    row: U32  # uint32[room, W + 1], key words, then the route
    var: I64  # int64[5]: entries, base address, packet whose lookup has failed or NIL, hits, slow path


def _make(room: int, words: int, base: int) -> PerfectState:
    var = np.array([0, base, NIL, 0, 0], np.int64)
    return PerfectState(np.zeros(2 * room, np.int64), np.zeros((room, words + 1), np.uint32), var)


@kernel
def _hash(key: U32, i: int, words: int) -> int:
    """Hash of key row i. The factor has 31 bits, so that no product leaves int64."""
    h = 0x2545F491
    for word in range(words):
        h = ((h ^ i64(key[i, word])) * 0x5BD1E995) & M
        h ^= h >> 15
    return h


@kernel
def _find(s: PerfectState, key: U32, i: int) -> int:
    """Entry of key row i, NIL if it has none."""
    words = s.row.shape[1] - 1
    h = _hash(key, i, words)
    mask = s.slot.size - 1
    at = h & mask
    tag = h & 0x7FFFFFFF
    while s.slot[at] != 0:
        if s.slot[at] >> 32 == tag:
            entry = i64((s.slot[at] & M) - 1)
            same = True
            for word in range(words):
                same &= s.row[entry, word] == key[i, word]
            if same:
                return entry
        at = (at + 1) & mask
    return NIL


@kernel
def _place(s: PerfectState, h: int, entry: int) -> None:
    mask = s.slot.size - 1
    at = h & mask
    while s.slot[at] != 0:
        at = (at + 1) & mask
    s.slot[at] = ((h & 0x7FFFFFFF) << 32) | (entry + 1)


@kernel
def _add(s: PerfectState, key: U32, i: int, route: int) -> int:
    """Give key row i an entry. The caller knows that it has none and that there is room."""
    entry = i64(s.var[USED])
    s.var[USED] += 1
    words = s.row.shape[1] - 1
    for word in range(words):
        s.row[entry, word] = key[i, word]
    s.row[entry, words] = route & M
    _place(s, _hash(key, i, words), entry)
    return entry


@kernel
def _route(s: PerfectState, entry: int) -> int:
    return (i64(s.row[entry, s.row.shape[1] - 1]) ^ SIGN) - SIGN


@kernel
def _address(s: PerfectState, entry: int) -> int:
    return i64(s.var[BASE] + entry * ENTRY)


@kernel
def _lookup(s: PerfectState, log: AccessLog, key: U32, i: int) -> int:
    """Look key row i up: its entry or NIL. One record; a miss reads the line that the flow's entry will have."""
    entry = _find(s, key, i)
    call(log, PERFECT_LOOKUP, 1)
    touch(log, READ, PERFECT_LOOKUP, _address(s, s.var[USED] if entry == NIL else entry))
    return entry


@kernel
def _insert(s: PerfectState, log: AccessLog, key: U32, i: int, route: int) -> int:
    """One record."""
    entry = _add(s, key, i, route)
    call(log, PERFECT_INSERT, 1)
    touch(log, WRITE, PERFECT_INSERT, _address(s, entry))
    return entry


@kernel
def _rehash(old: PerfectState, new: PerfectState) -> None:
    for entry in range(old.var[USED]):
        _place(new, _hash(new.row, entry, new.row.shape[1] - 1), entry)


@kernel
def _forward(s: PerfectState, log: AccessLog, batch: PacketBatch, start: int) -> tuple[int, int]:
    for i in range(start, batch.packets[0]):
        if room(log) < RECORDS:
            return i, NEED_LOG
        if s.var[PENDING] == NIL:
            entry = _lookup(s, log, batch.key, i)
            if entry != NIL:
                s.var[HITS] += 1
                log.answer[i] = _route(s, entry)
                log.entry[i] = _address(s, entry)
                log.end[i] = log.head[0]
                continue
            log.miss[i] = log.head[0]
            s.var[PENDING] = i
            if room(log) < RECORDS:
                return i, NEED_LOG
        if s.var[USED] == s.row.shape[0]:
            return i, NEED_POOL
        entry = _insert(s, log, batch.key, i, i64(batch.route[i]))
        s.var[PENDING] = NIL
        s.var[SLOW] += 1
        log.answer[i] = batch.route[i]
        log.entry[i] = _address(s, entry)
        log.end[i] = log.head[0]
    return i64(batch.packets[0]), NEED_NOTHING


@kernel
def _forward_none(log: AccessLog, batch: PacketBatch, start: int) -> None:
    for i in range(start, batch.packets[0]):
        log.miss[i] = log.head[0]
        log.answer[i] = batch.route[i]
        log.entry[i] = 0
        log.end[i] = log.head[0]


class Perfect(FlowCache):
    """Every flow misses once, ever; one line per lookup."""

    name = "perfect"
    summary = "the best there can be: a flow misses once, ever, and a lookup touches one cache line"
    families: ClassVar[tuple[int, ...]] = (4, 6)
    functions = ("perfect_lookup", "perfect_insert")
    records_per_packet = RECORDS

    def __init__(self, params: Any, world: World) -> None:
        super().__init__(params, world)
        self._base = world.memory.region("perfect entries", MOST * ENTRY)
        self.state = _make(FIRST_ROOM, 0, self._base)

    def _fit(self, words: int) -> PerfectState:
        """The state, made for keys of `words` words when the first key comes."""
        if self.state.row.shape[1] != words + 1:
            if len(self):
                raise ValueError(f"perfect holds keys of {self.state.row.shape[1] - 1} words, got one of {words}")
            self.state = _make(FIRST_ROOM, words, self._base)
        return self.state

    def lookup(self, packet: Packet, ctx: Context) -> int:
        """Route of the packet or MISS."""
        s = self._fit(len(packet.key))
        entry = int(_lookup(s, ctx.log, np.array([packet.key], np.uint32), 0))
        if entry == NIL:
            return MISS
        ctx.entry = int(_address(s, entry))
        return int(_route(s, entry))

    def insert(self, packet: Packet, route: int, ctx: Context) -> int:
        """Remember the route of a flow for ever."""
        s = self._fit(len(packet.key))
        if len(self) == s.row.shape[0]:
            return NEED_POOL
        ctx.entry = int(_address(s, _insert(s, ctx.log, np.array([packet.key], np.uint32), 0, route)))
        return NEED_NOTHING

    def forward(self, batch: PacketBatch, start: int, ctx: Context) -> tuple[int, int]:
        """See FlowCache.forward."""
        stop, need = _forward(self._fit(batch.key.shape[1]), ctx.log, batch, start)
        return int(stop), int(need)

    def grow(self) -> None:
        """Double the room. MemoryError beyond MOST flows."""
        old = self.state
        entries, words = old.row.shape[0], old.row.shape[1] - 1
        if entries >= MOST:
            raise MemoryError(f"perfect remembers no more than {MOST} flows; use a structure that forgets")
        self.state = _make(2 * entries, words, self._base)
        self.state.var[:] = old.var
        self.state.row[:entries] = old.row
        _rehash(old, self.state)

    def flush(self, ctx: Context) -> bool:
        """Forget all flows; nothing is touched. A flow then misses once between two flushes."""
        self.state.var[USED] = 0
        self.state.slot[:] = 0
        return True

    def count(self, hit: int = 0, slow: int = 0, error: int = 0) -> None:
        """Count where the compiled batch counts."""
        self.state.var[HITS] += hit
        self.state.var[SLOW] += slow
        self._errors += error

    def counters(self) -> dict[str, int]:
        """Counters under their rtstat names."""
        return {
            "entries": len(self),
            "in_hit": int(self.state.var[HITS]),
            "in_slow_tot": int(self.state.var[SLOW]),
            "errors": self._errors,
        }

    def memory_bytes(self) -> int:
        """Bytes of the entries."""
        return len(self) * ENTRY

    def layout(self) -> list[str]:
        """What lies on which line."""
        return ["one line of 64 bytes per flow: key, route; the index that finds it is not simulated"]

    def check(self) -> None:
        """Every entry is found, once, at its own number."""
        used = len(self)
        assert np.count_nonzero(self.state.slot) == used, "slots and entries differ in number"
        for entry in range(used):
            assert _find(self.state, self.state.row, entry) == entry, f"entry {entry} is not found under its key"

    def __len__(self) -> int:
        return int(self.state.var[USED])


class NoCache(FlowCache):
    """Every packet takes the slow path."""

    name = "none"
    summary = "no cache: every packet takes the slow path"
    families: ClassVar[tuple[int, ...]] = (4, 6)
    cacheless = True
    records_per_packet = 1

    def lookup(self, packet: Packet, ctx: Context) -> int:
        """Always MISS."""
        return MISS

    def insert(self, packet: Packet, route: int, ctx: Context) -> int:
        """Keeps nothing."""
        return NEED_NOTHING

    def flush(self, ctx: Context) -> bool:
        """There is nothing to forget."""
        return True

    def forward(self, batch: PacketBatch, start: int, ctx: Context) -> tuple[int, int]:
        """See FlowCache.forward."""
        packets = int(batch.packets[0])
        _forward_none(ctx.log, batch, start)
        self.count(slow=packets - start)
        return packets, NEED_NOTHING
