"""Unicache: the flow cache on the LC-trie behind the common interface.

After R. Olsson's description (netdev, 19 Feb 2007; unicache2 README) and TRASH (Nilsson and others, HPSR 2007). The source was not
published; the parts say what is inferred. Time is in jiffies of world.hz, taken from ctx.now.
"""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from models.access import DROPPED, ON
from models.flow import PacketBatch
from models.interface import MISS, NEED_NOTHING, NEED_POOL, Context, FlowCache, Packet, Timer, World
from models.kernel import NIL, Standing
from models.lc_trie import LcTrie, change_records, find
from models.lc_trie.nodes import HALVINGS, INFLATIONS, LEAVES, TNODES
from models.rcu import rcu_room
from models.slab import PER_SLAB, SLABS, SlabCache, slab_room
from models.unicache import inspect
from models.unicache.collect import collect, collect_timer
from models.unicache.forward import forward_loop
from models.unicache.insert import insert
from models.unicache.key import header_of
from models.unicache.lookup import lookup, route_of
from models.unicache.params import UnicacheParams
from models.unicache.remove import reclaim_loop, take_out
from models.unicache.state import (
    ACTIVE,
    COLUMNS,
    COUNTERS,
    END_OF_FLOW,
    ENTRIES,
    ERRORS,
    FIRST_OBJECT,
    FLUSHED,
    FLUSHES,
    GC_ACTIVE,
    GC_GOAL,
    GC_SCAN,
    GC_THRESH,
    GC_TIMER,
    GC_TOTAL,
    IN_HIT,
    IN_SLOW_TOT,
    INTERVAL,
    LEAF_BYTES,
    LEAVING,
    MAX_SIZE,
    OBJECT_BYTES,
    PER_SLAB_OBJECTS,
    REMOVED,
    RESULT,
    SECRET,
    STATICS,
    TIMEOUT,
    TIMER_LEFT,
    TRIE_WORDS,
    entry_address,
    make_state,
)

NS = 1_000_000_000
FIRST_ROWS = 4096


class Unicache(FlowCache):
    """LC-trie over a hash header and the full flow key, with passive, timer and active collection."""

    name: ClassVar[str] = "unicache"
    summary: ClassVar[str] = (
        "trash on the LC-trie: hash header and full 128-bit flow key, one leaf a flow, flows taken out at their end"
    )
    Params: ClassVar[type] = UnicacheParams
    functions: ClassVar[tuple[str, ...]] = (
        "ip_route_input", "trie_lookup", "tkey_extract_bits", "tkey_equals", "unicache_hash_code", "unicache_tcp_establish",
        "match_pktgen", "unicache_garbage_collect_active", "unicache_garbage_collect", "trie_insert", "trie_remove",
        "trie_rebalance", "resize", "inflate", "halve", "tnode_free", "dst_alloc", "ip_route_input_slow", "call_rcu_bh",
        "rcu_do_batch", "dst_rcu_free", "dst_destroy", "ipv4_dst_destroy", "kmem_cache_alloc", "cache_alloc_refill",
        "kmem_cache_free", "cache_flusharray", "free_block", "slab_put_obj", "__kmalloc", "kfree",
    )  # fmt: skip
    records_per_packet: ClassVar[int] = 1024

    params: UnicacheParams

    def __init__(self, params: UnicacheParams, world: World) -> None:
        super().__init__(params, world)
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
        self._trie = LcTrie(
            world.memory,
            TRIE_WORDS,
            name="unicache",
            leaf_size=LEAF_BYTES,
            columns=COLUMNS,
            cpus=world.cpus,
            room=FIRST_ROWS,
            inflate_threshold=params.inflate_threshold,
            halve_threshold=params.halve_threshold,
            inflate_threshold_root=params.inflate_threshold_root,
            halve_threshold_root=params.halve_threshold_root,
            max_bits=params.max_root_bits,
        )
        assert change_records(self._trie.state) <= self.records_per_packet
        self._forward, self._reclaim = Standing(forward_loop, 4), Standing(reclaim_loop, 3)
        self._state = make_state(
            self._trie.leaves.room(),
            {
                SECRET: int(world.rng.integers(1 << 32)),
                GC_THRESH: params.gc_thresh,
                GC_GOAL: params.gc_goal,
                GC_SCAN: params.gc_scan,
                MAX_SIZE: params.entries_max,
                TIMEOUT: round(params.gc_timeout_s * world.hz),
                INTERVAL: round(params.gc_interval_s * world.hz),
                ACTIVE: int(params.active_gc),
                STATICS: world.memory.region("unicache statics", 64),
            },
        )
        self._timer_is_new = True
        self._flushing = False
        self._first_timer = params.gc_interval_s * (1 + float(world.rng.random()))

    def _jiffies(self, ctx: Context) -> int:
        return ctx.now * self.world.hz // NS

    # -- a packet ------------------------------------------------------------------------------------------------------

    def lookup(self, packet: Packet, ctx: Context) -> int:
        """Route of the packet or MISS; renews the entry's lastuse."""
        self._make_key(packet.key)
        leaf = int(lookup(self._state, self._trie.state, ctx.log, self._jiffies(ctx)))
        if leaf == NIL:
            return MISS
        ctx.entry = self._entry_address(leaf)
        return int(route_of(self._trie.state, leaf))

    def after_hit(self, packet: Packet, ctx: Context) -> int:
        """Active collection: the packet that ends a flow takes its leaf out."""
        var = self._state.var
        if var[LEAVING] == NIL:
            if not packet.flags & END_OF_FLOW or not var[ACTIVE]:
                return NEED_NOTHING
            var[LEAVING] = self._find(packet.key)
        need = self._take_out(int(var[LEAVING]), ctx)
        if need == NEED_NOTHING:
            var[LEAVING] = NIL
            self._state.stat[GC_ACTIVE] += 1
        return need

    def insert(self, packet: Packet, route: int, ctx: Context) -> int:
        """Cache a route; asks for passive collection first at gc_thresh. ctx.entry is DROPPED at max_size (-ENOBUFS)."""
        self._make_key(packet.key)
        need = insert(
            self._state,
            self._trie.state,
            self._trie.leaves.state,
            self._slab.state,
            ctx.log,
            route,
            ctx.cpu,
            self._jiffies(ctx),
        )
        if need == NEED_NOTHING:
            leaf = int(self._state.var[RESULT])
            ctx.entry = DROPPED if leaf == NIL else self._entry_address(leaf)
        return int(need)

    def forward(self, batch: PacketBatch, start: int, ctx: Context) -> tuple[int, int]:
        """A batch in one kernel; the same results and records as packet by packet."""
        trie, rcu = self._trie, self.world.rcu
        states = (self._state, trie.state, trie.leaves.state, self._slab.state, rcu.state, ctx.log, batch)
        stop, need = self._forward(states, start, ctx.cpu, ctx.now, self._jiffies(ctx))
        return stop, need

    def remove(self, key: tuple[int, ...], ctx: Context) -> bool:
        """Take the leaf of a flow out. What does not fit the log is done, but not recorded."""
        leaf = self._find(key)
        if leaf == NIL:
            return False
        on = int(ctx.log.head[ON])
        need = self._take_out(leaf, ctx)
        while need != NEED_NOTHING:
            if need == NEED_POOL:
                self.grow()
            else:
                ctx.log.head[ON] = 0
            need = self._take_out(leaf, ctx)
        ctx.log.head[ON] = on
        self._state.stat[REMOVED] += 1
        return True

    def _make_key(self, key: tuple[int, ...]) -> None:
        probe = self._state.probe
        probe[0, 1:] = key
        probe[0, 0] = header_of(self._state, probe[:, 1:], 0)

    def _find(self, key: tuple[int, ...]) -> int:
        self._make_key(key)
        return int(find(self._trie.state, self._state.probe, 0))

    def _entry_address(self, leaf: int) -> int:
        return int(entry_address(self._trie.state, leaf))

    def _take_out(self, leaf: int, ctx: Context) -> int:
        return int(take_out(self._state, self._trie.state, self.world.rcu.state, ctx.log, leaf, ctx.cpu, ctx.now))

    # -- collection and delayed frees ----------------------------------------------------------------------------------

    def collect(self, ctx: Context) -> bool:
        """A slice of the passive collection; True when it is over or none is due."""
        return self._slice_of(collect, ctx)

    def _slice_of(self, kernel: Callable[..., int], ctx: Context) -> bool:
        """Run a collection's kernel until it is over (True) or the log must be priced, growing what is full."""
        while True:
            need = int(
                kernel(
                    self._state,
                    self._trie.state,
                    self._trie.leaves.state,
                    self.world.rcu.state,
                    ctx.log,
                    ctx.cpu,
                    ctx.now,
                    self._jiffies(ctx),
                )
            )
            if need != NEED_POOL:
                return need == NEED_NOTHING
            self.grow()

    def reclaim(self, limit: int, ctx: Context) -> int:
        """Destroy up to `limit` flows of this CPU's queue whose grace period has passed; stops when the log is nearly full."""
        trie, rcu = self._trie, self.world.rcu
        states = (self._state, trie.state, trie.leaves.state, self._slab.state, rcu.state, ctx.log)
        freed: int = self._reclaim(states, limit, ctx.cpu, ctx.now - rcu.grace_ns)
        return freed

    def grow(self) -> None:
        """Double what is full: rows of entries and leaves, the trie's pools, the queue of delayed frees."""
        cpus = range(self.world.cpus)
        if any(rcu_room(self.world.rcu.state, cpu) < 1 for cpu in cpus):
            self.world.rcu.grow()
        if any(slab_room(self._slab.state, cpu) < 1 for cpu in cpus):
            self._slab.grow()
        if any(slab_room(self._trie.leaves.state, cpu) < 1 for cpu in cpus):
            self._trie.leaves.grow()
            rows = np.full(self._trie.leaves.room(), NIL, np.int32)
            rows[: self._state.entry_of.size] = self._state.entry_of
            self._state = self._state._replace(entry_of=rows)
        self._trie.grow()

    # -- timer ---------------------------------------------------------------------------------------------------------

    def timers(self) -> list[Timer]:
        """The timer's collection; it starts one period and a random part of one in."""
        return [Timer("unicache_timer_gc", round(self._first_timer * NS), round(self.params.gc_interval_s * NS))]

    def run_timer(self, name: str, ctx: Context) -> bool:
        """A slice of the timer's collection; True when it is over."""
        if name != "unicache_timer_gc":
            raise ValueError(f"unicache has no timer {name!r}; it has unicache_timer_gc")
        var = self._state.var
        if self._timer_is_new:
            leaves = self._trie.leaves.state.var
            ids = int(leaves[SLABS] * leaves[PER_SLAB])
            var[TIMER_LEFT] = min(ids, -(-ids * int(var[INTERVAL]) // max(1, int(var[TIMEOUT]))))
        self._timer_is_new = self._slice_of(collect_timer, ctx)
        return self._timer_is_new

    def flush(self, ctx: Context) -> bool:
        """A slice of taking out every leaf; True when none is left. Inferred: the walk of the timer, with no leaf too young."""
        var, stat = self._state.var, self._state.stat
        leaves = self._trie.leaves.state.var
        if not self._flushing:
            self._flushing = True
            stat[FLUSHES] += 1
            var[TIMER_LEFT] = int(leaves[SLABS] * leaves[PER_SLAB])
        timeout, removed = int(var[TIMEOUT]), int(stat[GC_TIMER])
        var[TIMEOUT] = -1
        self._flushing = not self._slice_of(collect_timer, ctx)
        var[TIMEOUT] = timeout
        stat[FLUSHED] += int(stat[GC_TIMER]) - removed
        stat[GC_TIMER] = removed
        return not self._flushing

    # -- what it says of itself ----------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int | None:
        """max_size, in route entries."""
        return self.params.entries_max

    def __len__(self) -> int:
        """Route entries in use: on a leaf, or waiting for their grace period."""
        return int(self._state.var[ENTRIES])

    def memory_bytes(self) -> int:
        """Tnodes, leaf slabs and entry slabs, bytes."""
        return self._trie.memory_bytes() + self._slab.bytes()

    def count(self, hit: int = 0, slow: int = 0, error: int = 0) -> None:
        """Add to in_hit, in_slow_tot and errors."""
        self._state.stat[IN_HIT] += hit
        self._state.stat[IN_SLOW_TOT] += slow
        self._state.stat[ERRORS] += error

    def counters(self) -> dict[str, int]:
        """Entries, leaves, hits and slow path; collections and flushes begun and what each kind has removed."""
        counters = {"entries": len(self), "leaves": int(self._trie.state.var[LEAVES])}
        counters.update(zip(COUNTERS, self._state.stat.tolist(), strict=True))
        return counters

    def metrics(self) -> dict[str, float]:
        """The trie's shape: leaves, tnodes, depth, bits of the root, doublings and halvings so far; entries that wait."""
        var, stat = self._trie.state.var, self._trie.triestat()
        return {
            "leaves": float(var[LEAVES]),
            "tnodes": float(var[TNODES]),
            "mean_depth": float(stat["Aver depth"]),  # type: ignore[arg-type]
            "max_depth": float(stat["Max depth"]),  # type: ignore[arg-type]
            "root_bits": float(self._trie.root_bits()),
            "inflations": float(var[INFLATIONS]),
            "halvings": float(var[HALVINGS]),
            "rcu_waiting": float(self.world.rcu.waiting()),
        }

    def triestat(self) -> str:
        """The trie's statistics as /proc/net/fib_triestat prints them."""
        return self._trie.triestat_text()

    def cycles(self) -> int | None:
        """Passive collections begun."""
        return int(self._state.stat[GC_TOTAL])

    def cycle_progress(self) -> float | None:
        """How far the leaves have climbed from what a passive collection leaves behind to gc_thresh."""
        least = self.params.gc_thresh - self.params.gc_goal
        return min(1.0, max(0.0, (int(self._trie.state.var[LEAVES]) - least) / self.params.gc_goal))

    def layout(self) -> list[str]:
        """What lies on which cache line."""
        return [
            "tnode: 24 bytes (key, parent, pos, bits, full and empty children, rcu), then 4 bytes a child; root of 2^19: 2 MB",
            f"leaf: {LEAF_BYTES} bytes on one line: header, key (4 words), parent, list of route entries",
            f"dst entry (struct rtable, 2.6.20): {OBJECT_BYTES} bytes on four lines, {PER_SLAB_OBJECTS} a page",
            "  line 0: refcnt@4 use@8 lastuse@28",
            "  line 1: neighbour@104 input@116 (flow state beside it: inferred)",
            "  line 2: rcu_head@128 key@164",
            "  line 3: peer@228",
        ]

    def check(self) -> None:
        """Assert every invariant; slow."""
        inspect.check(self._state, self._trie, self._slab, self.world.rcu)
