"""One test per branch of the routing cache's collection, insertion, frees and timers, and one per sequence of touches."""

from dataclasses import replace

import numpy as np
import pytest

from models import functions
from models.access import (
    DROPPED,
    READ,
    USED,
    WRITE,
    begin_batch,
    empty,
    make_log,
    record_function,
    record_kind,
    record_line,
    record_lines,
)
from models.drive import drive, drive_flush, drive_timer
from models.flow import make_batch, pack_ipv4
from models.interface import Context, Packet, World, make_params
from models.kernel import NIL
from models.rcu import Rcu
from models.rt_hash import RtHash, RtHashParams
from models.rt_hash.lookup import find
from models.rt_hash.state import ENTRIES, EQUILIBRIUM, EXPIRE, GC_THRESH, LAST_GC, RND, ROVER
from models.simulated_memory import SimulatedMemory

NS = 1_000_000_000
PARAMS = RtHashParams(rhash_entries=8, gc_thresh=8, max_size=100, gc_elasticity=2)


class Bench:
    """An rt_hash with a clock; one packet at a time."""

    def __init__(self, params=PARAMS, **rcu):
        self.world = World(SimulatedMemory(), Rcu(2, 1000, **rcu), np.random.default_rng(7))
        self.cache = RtHash(params, self.world)
        self.log = make_log(1 << 14, 1)
        self.records, self.calls, self.now = [], {}, NS
        self.batch = make_batch(1)
        self.batch.packets[0] = 1

    def context(self, cpu=0):
        return Context(self.now, cpu, self.log, self.world)

    def price(self, log, first, stop):
        self.records += [
            (int(record_kind(r)), functions.names()[record_function(r)], int(record_line(r)), int(record_lines(r)))
            for r in log.record[: log.head[USED]].tolist()
        ]
        for f in np.flatnonzero(log.calls):
            name = functions.names()[f]
            self.calls[name] = self.calls.get(name, 0) + int(log.calls[f])

    def send(self, flow, cpu=0):
        self.batch.key[0] = pack_ipv4(1, flow, iif=cpu + 1)
        self.batch.route[0] = flow % 5
        self.records, self.calls = [], {}
        drive(self.cache, self.batch, self.context(cpu), self.price)
        return int(self.log.answer[0])

    def counted(self, action):
        """Counters that an action changed, by how much."""
        before = self.cache.counters()
        action()
        return {name: value - before[name] for name, value in self.cache.counters().items() if value != before[name]}

    def fill(self, entries):
        """Send new flows until so many entries are in use, without any collection."""
        flow = 1000
        self.var[LAST_GC] = self.now // 1_000_000
        while len(self.cache) < entries:
            self.send(flow)
            flow += 1

    @property
    def var(self):
        return self.cache._table.var


# -- collection ---------------------------------------------------------------------------------------------------------


def test_no_collection_is_asked_for_at_the_threshold_itself():
    bench = Bench()
    bench.fill(8)
    assert "gc_total" not in bench.counted(lambda: bench.send(1))
    assert bench.counted(lambda: bench.send(2))["gc_total"] == 1


def test_a_second_collection_within_the_interval_is_ignored():
    bench = Bench()
    bench.fill(9)
    bench.now += NS // 2
    assert "gc_ignored" not in bench.counted(lambda: bench.send(1))
    bench.now += NS // 2 - NS // 1000
    gained = bench.counted(lambda: bench.send(2))
    assert (gained["gc_total"], gained["gc_ignored"]) == (1, 1)
    bench.now += NS // 1000
    gained = bench.counted(lambda: bench.send(3))
    assert gained["gc_total"] == 1
    assert gained["gc_runs"] == 1


def test_normal_branch_moves_the_equilibrium_half_way_and_removes_the_rest():
    bench = Bench()
    bench.fill(16)
    bench.now += 400 * NS
    gained = bench.counted(lambda: bench.send(1))
    assert bench.var[EQUILIBRIUM] == 8 + 4
    assert gained["gc_removed"] >= 4
    assert "gc_danger" not in gained


def test_gc_danger_branch_removes_at_least_one_table():
    bench = Bench()
    bench.fill(18)  # chains of 8 buckets hold 2 each before the danger branch
    bench.now += 400 * NS
    gained = bench.counted(lambda: bench.send(1))
    assert gained["gc_danger"] == 1
    assert gained["gc_removed"] >= 8
    assert bench.var[EQUILIBRIUM] == 18 - 8
    assert bench.cache.cycles() == 1


def test_gc_danger_branch_removes_half_of_what_exceeds_the_elastic_bound():
    bench = Bench(replace(PARAMS, gc_elasticity=1))
    bench.fill(40)
    bench.now += 400 * NS
    bench.send(1)
    assert bench.var[EQUILIBRIUM] == 40 - (40 - 8) // 2


def test_nothing_is_swept_below_the_equilibrium_which_comes_down():
    bench = Bench()
    bench.fill(10)
    bench.now += NS
    bench.var[EQUILIBRIUM] = 14
    gained = bench.counted(lambda: bench.send(1))
    assert gained["gc_runs"] == 1
    assert "gc_buckets" not in gained
    assert bench.var[EQUILIBRIUM] == 10


def test_a_met_goal_lengthens_expire_up_to_its_cap():
    bench = Bench()
    bench.fill(16)
    bench.cache.set_late(expire_s=10)
    bench.now += 100 * NS
    bench.send(1)
    assert bench.var[EXPIRE] == 10_500
    bench.cache.set_late(expire_s=299.9)
    bench.now += 400 * NS
    bench.send(2)
    assert bench.var[EXPIRE] == 300_000


def test_a_missed_goal_halves_expire_and_lets_the_packet_pass():
    bench = Bench()
    bench.fill(12)
    bench.now += NS
    bench.cache.set_late(expire_s=250)
    gained = bench.counted(lambda: bench.send(1))
    assert gained["gc_goal_miss"] == 1
    assert gained["gc_buckets"] == 8
    assert gained["in_slow_tot"] == 1
    assert bench.var[EXPIRE] == 125_000


def test_at_max_size_a_missed_goal_refuses_the_packet():
    bench = Bench(replace(PARAMS, max_size=12, gc_elasticity=8))
    bench.fill(12)
    gained = bench.counted(lambda: bench.send(1))
    assert (gained["gc_goal_miss"], gained["gc_dst_overflow"], gained["errors"]) == (1, 1, 1)
    assert "in_slow_tot" not in gained
    assert "gc_ignored" not in gained  # the rate limit does not hold at max_size
    assert int(bench.log.answer[0]) == DROPPED
    assert int(bench.log.entry[0]) == 0
    assert len(bench.cache) == 12


def test_each_kept_entry_halves_the_time_the_next_may_stay():
    bench = Bench(replace(PARAMS, rhash_entries=1, gc_thresh=90, gc_elasticity=8))
    for flow in range(4):
        bench.send(flow)
    bench.now += 100 * NS
    bench.send(9)  # the fifth, at the head; the others have been idle for 100 s
    bench.var[GC_THRESH] = 3
    bench.now += NS
    gained = bench.counted(lambda: bench.send(10))
    # head kept (limit 300 s), second kept (150), third goes (75), and all behind it
    assert gained["gc_removed"] == 3


def test_the_sweep_goes_on_where_the_last_one_stopped_and_empties_its_last_bucket():
    bench = Bench()
    bench.fill(16)
    bench.now += 400 * NS
    bench.send(1)
    first = int(bench.var[ROVER])
    bench.now += NS
    bench.var[EQUILIBRIUM] = 0
    gained = bench.counted(lambda: bench.send(2))
    assert gained["gc_buckets"] == (int(bench.var[ROVER]) - first) % 8


def test_entries_do_not_fall_before_the_grace_period_is_over():
    bench = Bench(replace(PARAMS, gc_elasticity=8))
    bench.fill(16)
    bench.now += 400 * NS
    gained = bench.counted(lambda: bench.send(1))
    assert len(bench.cache) == 17
    assert bench.cache.reclaim(100, bench.context()) == 0
    bench.now += 3 * NS // 1000
    assert bench.cache.reclaim(100, bench.context()) == gained["gc_removed"]
    assert len(bench.cache) == 17 - gained["gc_removed"]
    bench.cache.check()


def test_the_rcu_queue_grows_as_a_sweep_needs_it():
    bench = Bench(replace(PARAMS, gc_elasticity=8), room=1)
    bench.fill(60)
    bench.now += 400 * NS
    assert bench.counted(lambda: bench.send(1))["gc_removed"] >= 26
    bench.cache.check()


# -- insertion ----------------------------------------------------------------------------------------------------------


def test_a_full_chain_loses_its_longest_unused_entry_and_the_deepest_of_equals():
    bench = Bench(replace(PARAMS, rhash_entries=1, gc_thresh=90, gc_elasticity=2, max_size=100))
    for flow in (1, 2, 3):  # chain 3 2 1, all of one age
        bench.send(flow)
    assert bench.counted(lambda: bench.send(4))["evicted"] == 1  # 1 goes
    bench.now += NS
    bench.send(2)
    bench.send(4)
    bench.send(5)  # 3 goes, the only one not used since
    assert bench.counted(lambda: bench.cache.lookup(packet(5), bench.context()))["hit_depth_1"] == 1
    present = [flow for flow in range(1, 6) if bench.cache.lookup(packet(flow), bench.context()) >= 0]
    assert present == [2, 4, 5]


def test_chains_never_hold_more_than_elasticity_and_one():
    bench = Bench(replace(PARAMS, rhash_entries=1, gc_thresh=90, gc_elasticity=2, max_size=100))
    for flow in range(20):
        bench.send(flow)
        assert bench.cache.metrics()["chain_max"] <= 3


def test_a_twin_found_by_the_insertion_moves_to_the_front_and_the_new_entry_is_thrown_away():
    bench = Bench(replace(PARAMS, rhash_entries=1, gc_thresh=90))
    bench.send(1)
    address = int(bench.log.entry[0])
    bench.send(2)
    context = bench.context()
    gained = bench.counted(lambda: bench.cache.insert(packet(1), 1, context))
    assert gained["duplicates"] == 1
    assert context.entry == address
    assert bench.counted(lambda: bench.cache.lookup(packet(1), context))["hit_depth_1"] == 1
    bench.cache.check()


def packet(flow):
    return Packet(key=pack_ipv4(1, flow), time=0, length=60, flags=0, route=flow % 5)


# -- touches ------------------------------------------------------------------------------------------------------------


def lines(bench, *wanted):
    """Records as (kind, function, region or line of the entry), of the functions wanted or of all."""
    found = []
    for kind, function, line, count in bench.records:
        region = bench.world.memory.owner(line * 64)
        place = f"L{line % 4}" if region == "ip_dst_cache" else region
        found.append((kind, function, place if count == 1 else f"{place} x{count}"))
    return [entry for entry in found if not wanted or entry[1] in wanted]


@pytest.fixture
def chain():
    """Two entries on one chain: 2, then 1."""
    bench = Bench(replace(PARAMS, rhash_entries=1, gc_thresh=90, gc_elasticity=2, max_size=100))
    bench.send(1)
    bench.send(2)
    return bench


def test_touches_of_a_hit(chain):
    chain.send(1)
    assert lines(chain) == [
        (READ, "ip_route_input", "rt_hash buckets"),
        (READ, "ip_route_input", "L2"),
        (READ, "ip_route_input", "L0"),
        (READ, "ip_route_input", "L2"),
        (WRITE, "ip_rcv", "L0"),
    ]
    assert chain.calls == {"rt_hash_code": 1, "ip_route_input": 1}
    assert int(chain.log.miss[0]) == NIL
    assert int(chain.log.entry[0]) % 256 == 0


def test_touches_of_a_miss_and_its_insertion(chain):
    chain.send(3)
    own = ("ip_route_input", "dst_alloc", "ip_route_input_slow", "rt_intern_hash", "call_rcu_bh")
    walk = [(READ, "ip_route_input", "L2"), (READ, "ip_route_input", "L0")] * 2
    assert int(chain.log.miss[0]) == 5
    assert lines(chain, *own) == [
        (READ, "ip_route_input", "rt_hash buckets"),
        *walk,
        (WRITE, "dst_alloc", "L0 x4"),
        (WRITE, "dst_alloc", "rt_hash statics"),
        (WRITE, "ip_route_input_slow", "L0 x4"),
        (READ, "rt_intern_hash", "rt_hash buckets"),
        *[(READ, "rt_intern_hash", "L2"), (READ, "rt_intern_hash", "L0")] * 2,
        (WRITE, "rt_intern_hash", "L0"),
        (WRITE, "rt_intern_hash", "rt_hash buckets"),
    ]
    assert (chain.calls["rt_hash_code"], chain.calls["dst_alloc"], chain.calls["rt_intern_hash"]) == (2, 1, 1)


def test_touches_of_an_eviction(chain):
    chain.send(3)
    chain.send(4)  # three on the chain: the tail goes
    assert lines(chain, "rt_intern_hash", "call_rcu_bh")[-4:] == [
        (WRITE, "rt_intern_hash", "L0"),
        (WRITE, "call_rcu_bh", "L2"),
        (WRITE, "rt_intern_hash", "L0"),
        (WRITE, "rt_intern_hash", "rt_hash buckets"),
    ]


def test_touches_of_a_collection(chain):
    chain.var[EQUILIBRIUM] = 0
    chain.var[GC_THRESH] = 1
    chain.now += 400 * NS
    chain.send(3)
    assert lines(chain, "rt_garbage_collect", "rt_may_expire", "call_rcu_bh") == [
        (READ, "rt_garbage_collect", "rt_hash statics"),
        (WRITE, "rt_garbage_collect", "rt_hash statics"),
        (READ, "rt_garbage_collect", "rt_hash buckets"),
        *[
            (READ, "rt_may_expire", "L0"),
            (WRITE, "rt_garbage_collect", "rt_hash buckets"),
            (WRITE, "call_rcu_bh", "L2"),
        ]
        * 2,
        (WRITE, "rt_garbage_collect", "rt_hash statics"),
    ]
    assert (chain.calls["rt_garbage_collect"], chain.calls["rt_may_expire"], chain.calls["call_rcu_bh"]) == (1, 2, 2)


def test_touches_of_a_destruction(chain):
    empty(chain.log)
    chain.cache.remove(pack_ipv4(1, 1), chain.context())
    empty(chain.log)
    chain.now += NS
    assert chain.cache.reclaim(5, chain.context()) == 1
    chain.records, chain.calls = [], {}
    chain.price(chain.log, 0, 0)
    assert lines(chain, "rcu_do_batch", "dst_rcu_free", "dst_destroy", "ipv4_dst_destroy") == [
        (READ, "rcu_do_batch", "L2"),
        (READ, "dst_rcu_free", "L0"),
        (READ, "dst_destroy", "L1"),
        (WRITE, "dst_destroy", "rt_hash statics"),
        (READ, "ipv4_dst_destroy", "L3"),
        (READ, "ipv4_dst_destroy", "L2"),
    ]
    assert chain.calls["kmem_cache_free"] == 1


def test_touches_of_a_hit_with_the_fields_of_2_6_21():
    bench = Bench(replace(PARAMS, rhash_entries=1, gc_thresh=90, layout="2.6.21"))
    bench.send(1)
    bench.send(2)
    bench.send(1)
    assert lines(bench)[1:] == [
        (READ, "ip_route_input", "L2"),
        (READ, "ip_route_input", "L2"),
        (WRITE, "ip_rcv", "L1"),
        (WRITE, "ip_rcv", "L2"),
    ]


# -- timers -------------------------------------------------------------------------------------------------------------


def test_periodic_expiry_visits_its_share_of_the_buckets():
    bench = Bench(replace(PARAMS, rhash_entries=64, gc_thresh=64, max_size=1000))
    bench.fill(64)
    bench.now += 301 * NS
    drive_timer(bench.cache, "rt_check_expire", bench.context(), bench.price)
    reads = [record for record in bench.records if record[:2] == (READ, "rt_check_expire")]
    assert len(reads) == 64 * 60 // 300
    assert bench.cache.counters()["check_removed"] > 0
    bench.cache.check()


def test_periodic_expiry_stops_when_its_tick_is_over():
    bench = Bench(replace(PARAMS, rhash_entries=64, gc_thresh=64, max_size=1000, check_buckets=3))
    drive_timer(bench.cache, "rt_check_expire", bench.context(), bench.price)
    assert len(bench.records) == 3


def test_secret_rebuild_empties_the_table_under_a_new_secret():
    bench = Bench()
    bench.fill(8)
    secret = int(bench.var[RND])
    drive_timer(bench.cache, "rt_secret_rebuild", bench.context(), bench.price)
    assert int(bench.var[RND]) != secret
    assert bench.cache.counters()["flushed"] == 8
    assert bench.cache.metrics()["linked"] == 0
    assert len(bench.cache) == 8  # until the grace period is over
    bench.cache.check()


def test_entries_inserted_while_a_flush_runs_are_found_or_go_with_it():
    bench = Bench(replace(PARAMS, rhash_entries=512, gc_thresh=512, max_size=8192))
    bench.fill(300)
    small = make_log(40, 1)
    context = Context(bench.now, 0, small, bench.world)
    begin_batch(small, 1)
    slices, flow = 0, 1
    while not bench.cache.run_timer("rt_secret_rebuild", context):
        empty(small)
        bench.send(flow)
        bench.cache.check()
        slices, flow = slices + 1, flow + 1
    assert slices > 10
    bench.cache.check()


def test_a_flush_empties_the_table_under_a_new_secret():
    bench = Bench()
    bench.fill(8)
    secret = int(bench.var[RND])
    drive_flush(bench.cache, bench.context(), bench.price)
    assert int(bench.var[RND]) != secret
    assert (bench.cache.counters()["flushes"], bench.cache.counters()["flushed"]) == (1, 8)
    assert bench.cache.metrics()["linked"] == 0
    bench.cache.check()


def test_timers_start_one_period_and_a_random_part_in():
    found = {timer.name: timer for timer in Bench().cache.timers()}
    assert found["rt_check_expire"].period_ns == 60 * NS
    assert 60 * NS <= found["rt_check_expire"].first_ns <= 120 * NS
    assert found["rt_secret_rebuild"].period_ns == 600 * NS
    assert 600 * NS <= found["rt_secret_rebuild"].first_ns <= 1200 * NS


def test_an_unknown_timer_is_refused():
    with pytest.raises(ValueError, match="no timer 'gc'"):
        Bench().cache.run_timer("gc", Bench().context())


# -- pools, parameters, what it says of itself ---------------------------------------------------------------------------


def test_rows_grow_with_the_slab_cache():
    bench = Bench(replace(PARAMS, rhash_entries=4096, gc_thresh=4096, max_size=8192))
    bench.fill(4097 if bench.cache._slab.room() == 4096 else bench.cache._slab.room() + 1)
    bench.cache.check()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"rhash_entries": 30000}, "must be a power of two, got rhash_entries=30000; the nearest is 32768"),
        ({"rhash_entries": 0}, "must be a power of two, got rhash_entries=0; the nearest is 1$"),
        ({"gc_elasticity": 0}, "gc_elasticity must be 1 to 32"),
        ({"gc_thresh": 5, "max_size": 4}, "max_size must not be below gc_thresh, got 4 and 5"),
        ({"layout": "2.4"}, "layout must be 2.6.20 or 2.6.21, got '2.4'"),
        ({"gc_interval_s": 0.0}, "gc_interval_s is the period of a timer"),
        ({"gc_timeout_s": -1.0}, "gc_timeout_s must not be negative, got -1.0"),
        ({"max_delay_s": 1.0}, "max_delay_s must not be below min_delay_s"),
        ({"check_buckets": 0}, "check_buckets must be at least 1"),
        ({"rhash_entrys": 1}, "did you mean rhash_entries"),
    ],
)
def test_wrong_parameters_are_refused_in_a_sentence(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_params(RtHash, values)


def test_late_values():
    bench = Bench()
    with pytest.raises(ValueError, match="expire_s must be 0 to 300"):
        bench.cache.set_late(expire_s=301)
    with pytest.raises(ValueError, match="no late value 'expires'"):
        bench.cache.set_late(expires=1)


def test_layout_names_each_line_once():
    text = Bench().cache.layout()
    assert len([line for line in text if line.startswith("  line")]) == 4
    assert "lastuse@28" in text[2]
    assert "key@168" in text[4]


def test_check_finds_a_wrong_count():
    bench = Bench()
    bench.fill(5)
    bench.var[ENTRIES] += 1
    with pytest.raises(AssertionError):
        bench.cache.check()


def test_find_is_lookup_of_the_key_words():
    bench = Bench()
    bench.send(5)
    state = bench.cache._slab.state
    assert find(bench.cache._table, state, bench.log, 1, 5, pack_ipv4(1, 5)[3], 0) != NIL
    assert find(bench.cache._table, state, bench.log, 1, 5, pack_ipv4(1, 5, iif=2)[3], 0) == NIL
