"""rt_hash against a plain-Python twin, over random traffic, timers, flushes and frees on tiny tables."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.rt_hash_oracle import Oracle

from models.access import DROPPED, USED, make_log
from models.conformance import check_flow_cache
from models.drive import drive, drive_reclaim, drive_timer
from models.flow import make_batch, pack_ipv4
from models.interface import Context, FlowCache, World, make_params
from models.kernel import NIL, compiled
from models.rcu import Rcu
from models.rt_hash import RtHash, RtHashParams
from models.rt_hash.state import DST, EQUILIBRIUM, EXPIRE, IIF_TOS, LASTUSE, NEXT, RND, ROUTE, ROVER, SRC, USE
from models.simulated_memory import SimulatedMemory

MS = 1_000_000
HUGE = 1 << 16
ROOM = 24

TINY = RtHashParams(
    rhash_entries=4,
    gc_thresh=3,
    max_size=40,
    gc_elasticity=3,
    gc_timeout_s=0.2,
    gc_interval_s=0.1,
    gc_min_interval_s=0.01,
    secret_interval_s=1.0,
)


class Pair:
    """An rt_hash and its twin, which get the same operations; compared after each of them."""

    def __init__(self, params, *, seed=1, log_room=HUGE, scalar=False, on=True):
        self.world = World(SimulatedMemory(), Rcu(2, 1000, room=4, blimit=5, qhimark=30, qlowmark=2), np.random.default_rng(seed))
        self.cache = RtHash(params, self.world)
        self.oracle = Oracle(
            params.rhash_entries,
            int(self.cache._table.var[RND]),
            params.threshold,
            params.entries_max,
            params.gc_elasticity,
            round(params.gc_timeout_s * 1000),
            round(params.gc_interval_s * 1000),
            round(params.gc_min_interval_s * 1000),
            grace=3,
            check_buckets=params.check_buckets,
        )
        self.log = make_log(log_room, ROOM, on=on)
        self.forward = (lambda *given: FlowCache.forward(self.cache, *given)) if scalar else None
        self.records, self.seen, self.ms = [], [], 0

    def context(self, cpu=0):
        return Context(self.ms * MS, cpu, self.log, self.world)

    def price(self, log, first, stop):
        self.records += log.record[: log.head[USED]].tolist()

    def batch(self, flows, cpu=0):
        """Packets of the given flow numbers; returns what was answered."""
        batch = make_batch(ROOM)
        batch.packets[0] = len(flows)
        for i, flow in enumerate(flows):
            batch.key[i] = words(flow, cpu, 0xE0 * (self.ms % 2))
            batch.route[i] = flow % 7
        drive(self.cache, batch, self.context(cpu), self.price, self.forward)
        answers = self.log.answer[: len(flows)].tolist()
        wanted = [self.oracle.packet(words(flow, cpu), flow % 7, cpu, self.ms) for flow in flows]
        assert answers == [DROPPED if answer is None else answer for answer in wanted]
        self.seen += answers + self.log.entry[: len(flows)].tolist() + (self.log.miss[: len(flows)] == NIL).tolist()
        self.compare()
        return answers

    def reclaim(self, cpu=0):
        freed = drive_reclaim(self.cache, self.context(cpu), self.price)
        assert self.oracle.reclaim(freed, cpu, self.ms) == freed
        self.compare()
        return freed

    def check_expire(self):
        drive_timer(self.cache, "rt_check_expire", self.context(), self.price)
        self.oracle.check_expire(0, self.ms)
        self.compare()

    def rebuild(self):
        drive_timer(self.cache, "rt_secret_rebuild", self.context(), self.price)
        self.oracle.flush(int(self.cache._table.var[RND]), 0, self.ms)
        self.compare()

    def remove(self, flow, cpu=0):
        self.log.head[USED] = 0
        found = self.cache.remove(words(flow, cpu), self.context(cpu))
        self.price(self.log, 0, 0)
        self.log.head[USED] = 0
        assert found == self.oracle.remove(words(flow, cpu), cpu, self.ms)
        self.compare()

    def compare(self):
        """Counters, collection state and every chain, entry by entry; then all invariants."""
        table, oracle = self.cache._table, self.oracle
        counters = self.cache.counters()
        assert {name: counters[name] for name in oracle.stat} == dict(oracle.stat)
        assert len(self.cache) == oracle.entries
        assert (table.var[EXPIRE], table.var[EQUILIBRIUM], table.var[ROVER]) == (oracle.expire, oracle.equilibrium, oracle.rover)
        for slot, chain in enumerate(oracle.chains):
            entry, found = int(table.bucket[slot]), []
            while entry != NIL:
                found.append(tuple(table.row[entry, [SRC, DST, IIF_TOS, ROUTE, LASTUSE, USE]].tolist()))
                entry = int(table.row[entry, NEXT])
            assert found == [(e.key[0], e.key[1], e.key[2] | e.key[3] << 16, e.route, e.lastuse, e.use) for e in chain]
        self.cache.check()


def words(flow, cpu=0, precedence=0):
    """Key words of a flow number; some flows differ in source or tos alone; ports and precedence say nothing."""
    return pack_ipv4(
        0xC0A80000 + flow % 2, 0xF0000000 + flow // 2 % 50, flow, 9, tos=precedence | 4 * (flow % 5 == 0) | 3, iif=cpu + 1
    )


def play(pair, seed, steps):
    """A random sequence of operations; the sequence depends on the seed alone."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        kind, cpu = int(rng.integers(12)), int(rng.integers(2))
        pair.ms += int(rng.choice([0, 1, 1, 2, 5, 30, 120]))
        if kind < 7:
            pair.batch(rng.integers(0, rng.choice([6, 60]), int(rng.integers(1, ROOM + 1))).tolist(), cpu)
        elif kind < 9:
            pair.reclaim(cpu)
        elif kind == 9:
            pair.check_expire()
        elif kind == 10 and rng.random() < 0.3:
            pair.rebuild()
        else:
            pair.remove(int(rng.integers(60)), cpu)
    return pair


STEPS = 120

SHAPES = {
    "as tiny": TINY,
    "two buckets": replace(TINY, rhash_entries=2, gc_elasticity=1),
    "one bucket": replace(TINY, rhash_entries=1, gc_thresh=1, gc_elasticity=2, max_size=6),
    "never full": replace(TINY, max_size=4000, gc_elasticity=8, rhash_entries=8),
    "no collection": replace(TINY, gc_thresh=1000, max_size=1000),
    "moved fields": replace(TINY, layout="2.6.21"),
    "short expiry": replace(TINY, check_buckets=1, gc_interval_s=0.05),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(6 if compiled() else 2))
def test_every_decision_equals_the_plain_twin(shape, seed):
    play(Pair(SHAPES[shape], seed=seed), seed, STEPS)


@pytest.mark.parametrize("shape", ["as tiny", "two buckets", "one bucket", "moved fields"])
def test_smallest_log_gives_the_same_records_as_a_huge_one(shape):
    huge = play(Pair(SHAPES[shape]), 3, STEPS)
    small = play(Pair(SHAPES[shape], log_room=RtHash.records_per_packet), 3, STEPS)
    assert small.records == huge.records
    assert small.seen == huge.seen


@pytest.mark.parametrize("shape", ["as tiny", "two buckets", "one bucket", "moved fields"])
def test_packet_by_packet_gives_the_same_records_as_a_batch(shape):
    batch = play(Pair(SHAPES[shape]), 4, STEPS)
    scalar = play(Pair(SHAPES[shape], scalar=True), 4, STEPS)
    assert scalar.records == batch.records
    assert scalar.seen == batch.seen
    assert scalar.cache.counters() == batch.cache.counters()


def test_a_log_that_is_off_changes_no_decision():
    on = play(Pair(TINY), 5, STEPS)
    off = play(Pair(TINY, on=False), 5, STEPS)
    assert on.seen == off.seen
    assert not off.records


def test_all_branches_are_reached_by_the_random_sequences():
    reached = {}
    for shape in SHAPES.values():
        for name, value in play(Pair(shape), 6, STEPS).oracle.stat.items():
            reached[name] = reached.get(name, 0) + value
    wanted = {
        "in_hit",
        "in_slow_tot",
        "errors",
        "gc_ignored",
        "gc_danger",
        "gc_goal_miss",
        "gc_dst_overflow",
        "gc_removed",
        "evicted",
    }
    wanted |= {"check_scans", "removed", "destroyed", "flushed"}
    assert {name for name in wanted if reached.get(name, 0) == 0} == set()


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=ROOM), max_size=8), st.integers(1, 4))
def test_any_batches_equal_the_plain_twin(batches, pause_ms):
    pair = Pair(TINY)
    for flows in batches:
        pair.batch(flows)
        pair.ms += pause_ms
        pair.reclaim()


def test_conformance_kit_accepts_rt_hash():
    check_flow_cache(lambda world: RtHash(make_params(RtHash, {"rhash_entries": 16}), world), steps=40 if compiled() else 12)
