"""RtHash: the vanilla IPv4 routing cache behind the common interface.

Source: net/ipv4/route.c of Linux 2.6.20; the parts are described where they are: lookup, insert, collect, timers, free.
Time is in jiffies of world.hz, taken from ctx.now; all packets of a batch see the same one.
"""

from typing import ClassVar

from models.access import DROPPED, AccessLog, room
from models.flow import PacketBatch
from models.interface import MISS, NEED_NOTHING, NEED_POOL, Context, FlowCache, Packet, Timer, World
from models.kernel import NIL, Standing
from models.rcu import RcuState, rcu_room
from models.rt_hash import inspect
from models.rt_hash.collect import collect
from models.rt_hash.forward import forward_loop, route_of
from models.rt_hash.free import reclaim_loop
from models.rt_hash.insert import insert_key
from models.rt_hash.lookup import find
from models.rt_hash.params import RtHashParams
from models.rt_hash.state import (
    AT_KEY,
    COUNTERS,
    DEPTH,
    DEPTHS,
    ELASTICITY,
    ENTRIES,
    EQUILIBRIUM,
    ERRORS,
    EXPIRE,
    FIELDS,
    FIRST_OBJECT,
    FLUSH_AT,
    GC_DANGER,
    GC_INTERVAL,
    GC_MIN_INTERVAL,
    GC_THRESH,
    GC_TIMEOUT,
    IN_HIT,
    IN_SLOW_TOT,
    LAYOUTS,
    MAX_SIZE,
    OBJECT_BYTES,
    PER_SLAB_OBJECTS,
    PER_TICK,
    RESULT,
    RND,
    STATICS,
    TABLE,
    RtTable,
    make_rows,
    make_table,
)
from models.rt_hash.timers import begin_flush, check_expire, remove, run_flush
from models.slab import SlabCache, SlabState, object_address, slab_room

NS = 1_000_000_000
FIRST_ROWS = 4096
BUCKET_BYTES = 4


class RtHash(FlowCache):
    """The routing cache: a hash table with chains, evictions, garbage collection and RCU-delayed frees."""

    name: ClassVar[str] = "rt_hash"
    summary: ClassVar[str] = "the vanilla IPv4 routing cache of Linux 2.6.20: hash table of dst entries with garbage collection"
    Params: ClassVar[type] = RtHashParams
    key_parts: ClassVar[tuple[str, ...]] = ("source", "destination", "tos", "interface")
    functions: ClassVar[tuple[str, ...]] = (
        "ip_route_input", "ip_rcv", "rt_hash_code", "dst_alloc", "ip_route_input_slow", "rt_intern_hash", "rt_garbage_collect",
        "rt_may_expire", "call_rcu_bh", "rcu_do_batch", "dst_rcu_free", "dst_destroy", "ipv4_dst_destroy", "kmem_cache_alloc",
        "cache_alloc_refill", "kmem_cache_free", "cache_flusharray", "free_block", "slab_put_obj", "rt_check_expire",
        "rt_run_flush", "rt_free",
    )  # fmt: skip
    records_per_packet: ClassVar[int] = 512

    params: RtHashParams

    def __init__(self, params: RtHashParams, world: World) -> None:
        super().__init__(params, world)
        buckets = params.rhash_entries
        self._slab = SlabCache(
            world.memory,
            "ip_dst_cache",
            OBJECT_BYTES,
            per_slab=PER_SLAB_OBJECTS,
            first=FIRST_OBJECT,
            cpus=world.cpus,
            room=FIRST_ROWS,
            most=2 * params.entries_max + FIRST_ROWS,
        )
        fixed = {
            RND: self._secret(),
            GC_THRESH: params.threshold,
            MAX_SIZE: params.entries_max,
            ELASTICITY: params.gc_elasticity,
            GC_TIMEOUT: self._ticks(params.gc_timeout_s),
            GC_INTERVAL: self._ticks(params.gc_interval_s),
            GC_MIN_INTERVAL: self._ticks(params.gc_min_interval_s),
            PER_TICK: params.check_buckets,
            TABLE: world.memory.region("rt_hash buckets", BUCKET_BYTES * buckets),
            STATICS: world.memory.region("rt_hash statics", 128),
        }
        self._table = make_table(buckets, self._slab.room(), fixed, params.layout)
        self._first_check = params.gc_interval_s * (1 + float(world.rng.random()))
        self._first_rebuild = params.secret_interval_s * (1 + float(world.rng.random()))
        self._forward, self._reclaim = Standing(forward_loop, 4), Standing(reclaim_loop, 3)
        self._flushing = False

    def _secret(self) -> int:
        """The next hash secret. One is drawn in any case, so that a given one changes nothing else."""
        drawn = int(self.world.rng.integers(1 << 32))
        return drawn if self.params.secret < 0 else self.params.secret

    def _ticks(self, seconds: float) -> int:
        return round(seconds * self.world.hz)

    def _jiffies(self, ctx: Context) -> int:
        return ctx.now * self.world.hz // NS

    # -- a packet ------------------------------------------------------------------------------------------------------

    def lookup(self, packet: Packet, ctx: Context) -> int:
        """Route of the packet or MISS; renews the entry's lastuse."""
        src, dst, _, word = packet.key
        entry = int(find(self._table, self._slab.state, ctx.log, src, dst, word, self._jiffies(ctx)))
        if entry == NIL:
            return MISS
        ctx.entry = int(object_address(self._slab.state, entry))
        return int(route_of(self._table, entry))

    def insert(self, packet: Packet, route: int, ctx: Context) -> int:
        """Cache a route; asks for collection as dst_alloc does. ctx.entry is DROPPED when max_size is reached (-ENOBUFS)."""
        src, dst, _, word = packet.key
        need = insert_key(
            self._table,
            self._slab.state,
            self.world.rcu.state,
            ctx.log,
            src,
            dst,
            word,
            route,
            ctx.cpu,
            ctx.now,
            self._jiffies(ctx),
        )
        if need == NEED_NOTHING:
            entry = int(self._table.var[RESULT])
            ctx.entry = DROPPED if entry == NIL else int(object_address(self._slab.state, entry))
        return int(need)

    def forward(self, batch: PacketBatch, start: int, ctx: Context) -> tuple[int, int]:
        """A batch in one kernel; the same results and records as packet by packet."""
        states = (*self._state(ctx), batch)
        stop, need = self._forward(states, start, ctx.cpu, ctx.now, self._jiffies(ctx))
        return stop, need

    def remove(self, key: tuple[int, ...], ctx: Context) -> bool:
        """Unlink the entry of a flow. Takes up to records_per_packet records of the log, which the caller has kept free."""
        self._make_rcu_room(ctx.cpu)
        src, dst, _, word = key
        if room(ctx.log) < self.records_per_packet:
            raise ValueError(f"remove needs room for {self.records_per_packet} records in the log, got {room(ctx.log)}")
        return bool(remove(self._table, self._slab.state, self.world.rcu.state, ctx.log, src, dst, word, ctx.cpu, ctx.now))

    # -- collection and delayed frees ----------------------------------------------------------------------------------

    def collect(self, ctx: Context) -> bool:
        """A slice of rt_garbage_collect; True when it is over or none is due."""
        need = NEED_POOL
        while need == NEED_POOL:
            self._make_rcu_room(ctx.cpu)
            need = int(collect(*self._state(ctx), ctx.cpu, ctx.now, self._jiffies(ctx)))
        return need == NEED_NOTHING

    def reclaim(self, limit: int, ctx: Context) -> int:
        """Destroy up to `limit` entries of this CPU's queue whose grace period has passed; stops when the log is nearly full."""
        freed: int = self._reclaim(self._state(ctx), limit, ctx.cpu, ctx.now - self.world.rcu.grace_ns)
        return freed

    def _state(self, ctx: Context) -> tuple[RtTable, SlabState, RcuState, AccessLog]:
        return self._table, self._slab.state, self.world.rcu.state, ctx.log

    def _make_rcu_room(self, cpu: int) -> None:
        while rcu_room(self.world.rcu.state, cpu) < self.params.gc_elasticity + 1:
            self.world.rcu.grow()

    def grow(self) -> None:
        """Double what is full: the rows of entries, the queue of delayed frees."""
        for cpu in range(self.world.cpus):
            self._make_rcu_room(cpu)
        if any(slab_room(self._slab.state, cpu) < 1 for cpu in range(self.world.cpus)):
            self._slab.grow()
            rows = make_rows(self._slab.room())
            rows[: self._table.row.shape[0]] = self._table.row
            self._table = self._table._replace(row=rows)

    # -- timers --------------------------------------------------------------------------------------------------------

    def timers(self) -> list[Timer]:
        """The periodic expiry and the rebuild under a new secret; each starts one period and a random part of one in."""
        params = self.params
        return [
            Timer("rt_check_expire", round(self._first_check * NS), round(params.gc_interval_s * NS)),
            Timer("rt_secret_rebuild", round(self._first_rebuild * NS), round(params.secret_interval_s * NS)),
        ]

    def run_timer(self, name: str, ctx: Context) -> bool:
        """A slice of rt_check_expire or rt_secret_rebuild; True when it is over."""
        if name == "rt_check_expire":
            need = NEED_POOL
            while need == NEED_POOL:
                self._make_rcu_room(ctx.cpu)
                need = int(check_expire(*self._state(ctx), ctx.cpu, ctx.now, self._jiffies(ctx)))
            return need == NEED_NOTHING
        if name == "rt_secret_rebuild":
            if self._table.var[FLUSH_AT] < 0:  # a rebuild that falls into a flush is done with it
                self._begin_flush(ctx)
            return self._run_flush(ctx)
        raise ValueError(f"rt_hash has no timer {name!r}; it has rt_check_expire and rt_secret_rebuild")

    def flush(self, ctx: Context) -> bool:
        """A slice of rt_run_flush; True when every chain is gone. models/flush.py says when the kernel calls it."""
        if not self._flushing:
            self._flushing = True
            self._begin_flush(ctx)
        self._flushing = not self._run_flush(ctx)
        return not self._flushing

    def _begin_flush(self, ctx: Context) -> None:
        begin_flush(self._table, ctx.log, self._secret())

    def _run_flush(self, ctx: Context) -> bool:
        need = NEED_POOL
        while need == NEED_POOL:
            self._make_rcu_room(ctx.cpu)
            need = int(run_flush(*self._state(ctx), ctx.cpu, ctx.now))
        return need == NEED_NOTHING

    # -- what it says of itself ----------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int | None:
        """max_size. Soft, as in the kernel: a collection that meets its goal lets one more entry in before any is destroyed."""
        return self.params.entries_max

    def __len__(self) -> int:
        """Entries in use: linked, or unlinked and waiting for their grace period."""
        return int(self._table.var[ENTRIES])

    def memory_bytes(self) -> int:
        """Bucket table and slabs, bytes."""
        return BUCKET_BYTES * self.params.rhash_entries + self._slab.bytes()

    def count(self, hit: int = 0, slow: int = 0, error: int = 0) -> None:
        """Add to in_hit, in_slow_tot and errors."""
        self._table.stat[IN_HIT] += hit
        self._table.stat[IN_SLOW_TOT] += slow
        self._table.stat[ERRORS] += error

    def counters(self) -> dict[str, int]:
        """rtstat's columns, then what rtstat does not show (collection runs, scans, evictions, hits by depth)."""
        counters = {"entries": len(self)}
        counters.update(zip(COUNTERS, self._table.stat[:DEPTH].tolist(), strict=True))
        depths = self._table.stat[DEPTH : DEPTH + DEPTHS].tolist()
        counters.update({f"hit_depth_{depth + 1}": hits for depth, hits in enumerate(depths)})
        return counters

    def metrics(self) -> dict[str, float]:
        """Chain lengths, steps of a hit, and the collection's expire (s) and equilibrium (entries)."""
        found = inspect.metrics(self._table)
        found["expire_s"] = int(self._table.var[EXPIRE]) / self.world.hz
        found["equilibrium"] = float(self._table.var[EQUILIBRIUM])
        found["rcu_waiting"] = float(self.world.rcu.waiting())
        return found

    def cycle_progress(self) -> float | None:
        """How far the entries have climbed over the last table's worth below the danger branch."""
        buckets = self.params.rhash_entries
        return min(1.0, max(0.0, len(self) / buckets - (self.params.gc_elasticity - 1)))

    def cycles(self) -> int | None:
        """Runs of the danger branch: the period of the sawtooth that `entries` draws."""
        return int(self._table.stat[GC_DANGER])

    def set_late(self, **values: float) -> None:
        """expire_s: the collection's expire, which climbs by a second per second under load."""
        for name in values:
            if name != "expire_s":
                raise ValueError(f"rt_hash has no late value {name!r}; it has: expire_s")
        if "expire_s" in values:
            expire = self._ticks(values["expire_s"])
            if not 0 <= expire <= self._table.var[GC_TIMEOUT]:
                raise ValueError(f"expire_s must be 0 to {self.params.gc_timeout_s} s (gc_timeout_s), got {values['expire_s']}")
            self._table.var[EXPIRE] = expire

    def layout(self) -> list[str]:
        """What lies on which cache line."""
        lines = [
            f"bucket table: {self.params.rhash_entries} pointers of {BUCKET_BYTES} bytes, 16 on a line",
            f"dst entry (struct rtable, {self.params.layout}): {OBJECT_BYTES} bytes on four lines, {PER_SLAB_OBJECTS} a page",
        ]
        placed = sorted((offset, FIELDS[index - AT_KEY]) for index, offset in LAYOUTS[self.params.layout].items())
        for line in range(4):
            lines.append(f"  line {line}: " + " ".join(f"{field}@{offset}" for offset, field in placed if offset >> 6 == line))
        return lines

    def check(self) -> None:
        """Assert every invariant; slow."""
        inspect.check(self._table, self._slab, self.world.rcu)
