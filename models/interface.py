"""FlowCache: the one flow-lookup interface behind which every structure of the routing-cache experiment sits.

A structure finds the route of a packet or misses; on a miss the box takes the slow path and hands the route to `insert`. It
knows neither the machine nor its own cost: it writes what it touched and called into the access log.

Work is resumable. Every method that can touch much returns before a step for which the log, a pool or a pending collection
stands in the way, and says which (`NEED_*`). The caller prices and empties the log, grows the pool or runs the collection, and
calls again with the same arguments. So a sweep over a million entries costs simulated time where it happens and
the log stays small. Everything that must survive such a return lives in the structure, never in a local.

A structure of twenty lines gives `lookup` and `insert` and leaves the rest alone. A fast one overrides `forward` too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy as np

from models.access import DROPPED, AccessLog, room
from models.flow import PacketBatch
from models.kernel import NIL
from models.rcu import Rcu
from models.simulated_memory import SimulatedMemory

MISS = -2
"""What `lookup` returns when the structure has no entry for the packet. Routes are >= 0."""

NEED_NOTHING, NEED_LOG, NEED_POOL, NEED_COLLECT = 0, 1, 2, 3
"""Why a step returned: it is whole; the log lacks room; a pool is full (call `grow`); a collection is due (call `collect`)."""


class Packet(NamedTuple):
    """One packet of a batch, as plain Python values."""

    key: tuple[int, ...]  # flow key words, see models/flow.py
    time: int  # ns
    length: int  # bytes
    flags: int  # FIN | RST | END_MARK
    route: int  # what the FIB gives


@dataclass(slots=True)
class World:
    """What a structure is given to live in, once, when it is made. It may touch no other memory and ask no other clock."""

    memory: SimulatedMemory
    rcu: Rcu
    rng: np.random.Generator
    cpus: int = 2
    hz: int = 1000


@dataclass(slots=True)
class Context:
    """What a structure is given for one call."""

    now: int  # ns, the start of the batch (the same in every call for one batch)
    cpu: int  # CPU that runs the call, 0 <= cpu < world.cpus
    log: AccessLog
    world: World
    entry: int = 0  # set by lookup and insert: simulated address of the dst entry the packet leaves with


@dataclass(slots=True, frozen=True)
class Timer:
    """A periodic job of a structure. `run_timer(name)` is called at first_ns and every period_ns after, on CPU 0."""

    name: str
    first_ns: int
    period_ns: int


def param(default: Any, doc: str, unit: str = "", source: str = "") -> Any:
    """A documented field of a structure's Params: what it means, its unit and where the default comes from."""
    return field(default=default, metadata={"doc": doc, "unit": unit, "source": source})


@dataclass(frozen=True)
class NoParams:
    """Parameters of a structure that has none."""


class FlowCache:
    """Base of every flow-lookup structure. `lookup` and `insert` must be given; the rest has working defaults.

    Class attributes say what the structure is, for `dstlab show` and for refusing runs that cannot work.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    Params: ClassVar[type] = NoParams
    key_parts: ClassVar[tuple[str, ...]] = ("source", "destination", "ports", "protocol", "tos", "interface")
    """Parts of the flow key that tell two entries apart."""
    families: ClassVar[tuple[int, ...]] = (4,)
    """IP versions it can serve."""
    cacheless: ClassVar[bool] = False
    """True if a lookup after an insert need not hit."""
    functions: ClassVar[tuple[str, ...]] = ()
    """Names of the functions that its touches and calls are charged to."""
    instruction_cycles: ClassVar[dict[str, int]] = {}
    """Cycles of instruction work per call for functions that no cost sheet knows (a user's own structure); an estimate."""
    records_per_packet: ClassVar[int] = 64
    """Most records that one lookup and one insert can write; `forward` of this class keeps that much room."""

    def __init__(self, params: Any, world: World) -> None:
        self.params = params
        self.world = world
        self._hits = 0
        self._slow = 0
        self._errors = 0
        self._missed = NIL  # index of the packet whose lookup has failed and whose insert is not whole
        self._hit: tuple[int, int] | None = None  # route and entry of a packet that has hit and whose after_hit is not whole

    # -- what a structure must give -----------------------------------------------------------------------------------

    def lookup(self, packet: Packet, ctx: Context) -> int:
        """Route of the packet or MISS. Sets ctx.entry on a hit."""
        raise TypeError(f"{type(self).__name__} has no lookup()")

    def insert(self, packet: Packet, route: int, ctx: Context) -> int:
        """Remember a route after a miss and set ctx.entry. Returns NEED_NOTHING, or what must be done before it is called again.

        A structure that refuses the packet (the kernel's -ENOBUFS) returns NEED_NOTHING and sets ctx.entry to DROPPED.
        """
        raise TypeError(f"{type(self).__name__} has no insert()")

    # -- what it may give ----------------------------------------------------------------------------------------------

    def after_hit(self, packet: Packet, ctx: Context) -> int:
        """What follows a hit and may stop on the way (a flow's last packet takes its entry out). Returns NEED_*, as insert does."""
        return NEED_NOTHING

    def remove(self, key: tuple[int, ...], ctx: Context) -> bool:
        """Take the entry of a flow key out; False if there is none."""
        return False

    @property
    def capacity(self) -> int | None:
        """Most entries that may be in use, None for no bound."""
        return None

    def timers(self) -> list[Timer]:
        """Periodic jobs; asked once, before the run."""
        return []

    def run_timer(self, name: str, ctx: Context) -> bool:
        """Run a slice of a periodic job; True when it is whole, False when the log must be priced first and the call made again."""
        return True

    def flush(self, ctx: Context) -> bool:
        """Run a slice of forgetting everything, as a change of routes asks for; the first call begins it.

        True when it is whole, False when the log must be priced first and the call made again. A structure without it cannot take
        part in runs in which routes change.
        """
        raise TypeError(f"{type(self).__name__} has no flush()")

    @classmethod
    def can_flush(cls) -> bool:
        """True if the structure can forget everything at once."""
        return cls.flush is not FlowCache.flush

    def collect(self, ctx: Context) -> bool:
        """Run a slice of the collection that is due; True when it is whole, False when the log must be priced first."""
        return True

    def reclaim(self, limit: int, ctx: Context) -> int:
        """Free up to `limit` entries whose grace period has passed, as the log allows; returns how many were freed."""
        return 0

    def grow(self) -> None:
        """Enlarge whatever pool made a step return NEED_POOL."""

    def memory_bytes(self) -> int:
        """Simulated memory in use, bytes."""
        return 0

    def counters(self) -> dict[str, int]:
        """Counters under their rtstat names; at least entries, in_hit, in_slow_tot and errors."""
        return {"entries": len(self), "in_hit": self._hits, "in_slow_tot": self._slow, "errors": self._errors}

    def metrics(self) -> dict[str, float]:
        """The structure's own figures (chain length, trie depth) at this moment."""
        return {}

    def cycles(self) -> int | None:
        """How many collection cycles have begun; None for a structure without collection."""
        return None

    def cycle_progress(self) -> float | None:
        """Roughly how much of the present collection cycle is over, 0..1; None if it cannot be told."""
        return None

    def set_late(self, **values: float) -> None:
        """Put collection state at the value it has late in a long run (`rt_hash`: expire_s=227)."""
        if values:
            raise ValueError(f"{self.name} has no late state, got {', '.join(values)}")

    def layout(self) -> list[str]:
        """Lines for `dstlab show`: what lies on which cache line."""
        return []

    def check(self) -> None:
        """Assert every invariant."""

    def __len__(self) -> int:
        """Entries in use."""
        return 0

    # -- a batch -------------------------------------------------------------------------------------------------------

    def count(self, hit: int = 0, slow: int = 0, error: int = 0) -> None:
        """Add to the counters; a structure with counters of its own overrides it."""
        self._hits += hit
        self._slow += slow
        self._errors += error

    def forward(self, batch: PacketBatch, start: int, ctx: Context) -> tuple[int, int]:
        """Look up, and insert on a miss, packets `start` and on of a batch in arrival order.

        Returns (stop, need): packets before `stop` are whole; need says why it stopped there. (packets, NEED_NOTHING) means that
        the batch is whole. This default loops over lookup and insert; an override gives the same results and records.
        """
        log = ctx.log
        for i in range(start, int(batch.packets[0])):
            if room(log) < self.records_per_packet:
                return i, NEED_LOG
            packet = packet_of(batch, i)
            if self._missed == NIL:
                if self._hit is None:
                    ctx.entry = 0
                    route = self.lookup(packet, ctx)
                    if route != MISS:
                        self._hit = route, ctx.entry
                if self._hit is not None:
                    need = self.after_hit(packet, ctx)
                    if need != NEED_NOTHING:
                        return i, need
                    self.count(hit=1)
                    _finish(log, i, *self._hit)
                    self._hit = None
                    continue
                log.miss[i] = log.head[0]
                self._missed = i
                if room(log) < self.records_per_packet:
                    return i, NEED_LOG
            need = self.insert(packet, packet.route, ctx)
            if need != NEED_NOTHING:
                return i, need
            self._missed = NIL
            if ctx.entry == DROPPED:
                self.count(error=1)
                _finish(log, i, DROPPED, 0)
            else:
                self.count(slow=1)
                _finish(log, i, packet.route, ctx.entry)
        return int(batch.packets[0]), NEED_NOTHING


def _finish(log: AccessLog, i: int, answer: int, entry: int) -> None:
    log.answer[i] = answer
    log.entry[i] = entry
    log.end[i] = log.head[0]


def packet_of(batch: PacketBatch, i: int) -> Packet:
    """Packet i of a batch as plain Python values."""
    return Packet(
        key=tuple(int(word) for word in batch.key[i]),
        time=int(batch.time[i]),
        length=int(batch.length[i]),
        flags=int(batch.flags[i]),
        route=int(batch.route[i]),
    )


# -- registry ----------------------------------------------------------------------------------------------------------

STRUCTURES: dict[str, str] = {
    "rt_hash": "models.rt_hash:RtHash",
    "unicache": "models.unicache:Unicache",
    "perfect": "models.reference:Perfect",
    "none": "models.reference:NoCache",
    "lru": "models.lru:Lru",
}
"""Where each built-in structure lives. Imported on demand, so that `dstlab --help` stays quick."""

Factory = Callable[[World], FlowCache]


def structure_class(name: str) -> type[FlowCache]:
    """The class of a built-in structure; KeyError for an unknown name."""
    module, _, attribute = STRUCTURES[name].partition(":")
    found: type[FlowCache] = getattr(import_module(module), attribute)
    return found


def make_params(cls: type[FlowCache], values: dict[str, Any]) -> Any:
    """Params of a structure from names and values. Raises ValueError that names the wrong one and lists the right ones."""
    known = {f.name: f for f in fields(cls.Params)}
    for name, value in values.items():
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"it has: {', '.join(known) or 'none'}"
            raise ValueError(f"{cls.name} has no parameter {name!r}; {hint}")
        default = known[name].default
        wanted = type(default)
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            continue
        if default is not None and type(value) is not wanted:
            raise ValueError(f"{cls.name}.{name} must be {wanted.__name__}, got {value!r}")
    return cls.Params(**values)
