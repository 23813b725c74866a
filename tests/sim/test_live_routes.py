"""Changes of routes while packets flow: answers right before, stale for no longer than the flush delay, right after."""

import numpy as np
import pytest

from models.access import make_log
from models.conformance_play import make_world
from models.interface import STRUCTURES, Context, FlowCache, make_params, structure_class
from models.kernel import compiled
from models.lru import Lru
from models.route_hash import RouteHash
from models.route_ranges import NO_ROUTE
from models.slow_path import SlowPath
from sim.account import WRONG, make_ledger
from sim.assemble import assemble
from sim.experiments.forwarding import run_row
from sim.live_routes import LiveRoutes
from sim.scenario import Fib, Measure, Row, Scenario, Traffic
from sim.streams import stream
from traces.churn import make_churn

NS = 1_000_000_000
FLOWS = 32 if compiled() else 8
KPPS = 80.0 if compiled() else 4.0
NET = 0x0A000000
CACHES = [name for name in STRUCTURES if name != "none"]


def live_routes(changes, structure="perfect", **delays):
    world = make_world(1)
    prefix, plen = np.array([NET, 0]), np.array([8, 0])
    slow_path = SlowPath(world, prefix, plen, np.arange(2), np.arange(2), nexthops=4)
    truth = RouteHash(prefix, plen, np.arange(2))
    cls = structure_class(structure)
    cache = cls(make_params(cls, delays), world)
    live = LiveRoutes(make_churn(changes), truth, slow_path, cache, nexthop=np.array([2, 3]), next_route=3, unreachable=2)
    return live, truth, slow_path, Context(0, 0, make_log(4096, 64), world)


def run(live, ctx, now):
    ctx.now = now
    live.run(now, ctx, lambda log, first, stop: None)


def test_truth_and_fib_change_together():
    changes = [(1, NET, 8, "a"), (2, NET, 16, "b"), (3, NET, 8, None), (4, NET, 8, None), (5, 0, 0, None)]
    live, truth, slow_path, ctx = live_routes(changes)
    seen = []
    for now in range(7):
        run(live, ctx, now)
        near = [truth.lookup(a) for a in (NET, NET + (1 << 20), 1)]
        fib = [slow_path.route_of(a) for a in (NET, NET + (1 << 20), 1)]
        assert [NO_ROUTE if route == 2 else route for route in near] == fib
        seen.append(near)
    assert seen == [[0, 0, 1], [3, 3, 1], [4, 3, 1], [4, 1, 1], [4, 1, 1], [4, 2, 2], [4, 2, 2]]
    assert live.counters() == {"changes": 4, "in_vain": 1, "flushes": 0, "stale": 0}


def test_the_flush_comes_when_it_is_due_and_with_it_the_pardon_ends():
    live, _, _, ctx = live_routes([(NS, NET, 8, "a")], "rt_hash", min_delay_s=1.0)
    ledger = make_ledger()

    def wrong(number):
        ledger.total[WRONG] += number
        live.review(ledger)
        return int(ledger.total[WRONG]), live.stale

    assert live.next_due() == NS
    run(live, ctx, NS - 1)
    assert wrong(1) == (1, 0)
    run(live, ctx, NS)
    assert live.next_due() == 2 * NS
    assert wrong(5) == (1, 5)
    run(live, ctx, 2 * NS)
    assert live.next_due() is None
    assert wrong(1) == (2, 5)
    assert live.counters()["flushes"] == 1


def test_a_structure_that_cannot_flush_is_refused(monkeypatch):
    monkeypatch.setattr(Lru, "flush", FlowCache.flush)
    with pytest.raises(ValueError, match=r"lru has no flush\(\), which runs in which routes change need"):
        live_routes([], "lru")


def scenario(structure, measure, updates=None, churn=0.0, flows=FLOWS, kpps=KPPS, **parameters):
    row = Row(name=structure, structure=structure, parameters=parameters)
    traffic = Traffic(flows=flows, flow_length=10_000, offered_kpps=kpps, start="synchronous")
    fib = Fib(prefixes=20, updates=updates, churn=churn)
    return Scenario(name="churn", traffic=traffic, fib=fib, measure=measure, row=[row])


@pytest.mark.parametrize("structure", CACHES)
@pytest.mark.parametrize("priced", [False, True])
def test_every_answer_is_right_but_between_change_and_flush(structure, priced):
    """One change hits every destination 50 ms in: then all hits are stale until the flush, and each flow misses once again."""
    made = scenario(structure, Measure(fill_s=0, settle_s=0), churn=1e-6, kpps=KPPS if priced else 80.0)
    assembly = assemble(made, made.row[0], 1)
    box = assembly.box
    table = box.live._truth
    whole = make_churn([(50_000_000, 0, 1, "a"), (50_000_000, 1 << 31, 1, "a")])
    live = LiveRoutes(whole, table, box.pricer.slow_path, box.structure, nexthop=np.array([0]), next_route=100, unreachable=99)
    live._timer.min_delay = 30_000_000
    box.live = live
    box._housekeeping._live = live
    for plen in range(2, 33):  # nothing longer stands in the way of the two halves
        for prefix in {int(p) for p, n in zip(table.state.word[:, 0], table.state.plen, strict=True) if n == plen}:
            table.remove(prefix, plen)
            box.pricer.slow_path.remove(prefix, plen)

    def go(until):
        if priced:
            box.run(until)
        else:
            box.pace(until, 1.0, stream(1, "test"))

    if not priced:  # in larger steps
        go(200_000_000)
        assert (live.changes, live.flushes, live.stale > 0) == (2, 1, True)
        assert (box.totals().slow, box.totals().wrong) == (4 * FLOWS, 0)
        return
    go(50_000_000)
    slow = box.totals().slow
    assert (live.changes, live.stale, slow > 0) == (0, 0, True)
    go(79_000_000)
    assert (live.changes, live.flushes) == (2, 0)
    assert 0 < live.stale <= box.totals().hits
    assert box.totals().slow == slow
    go(83_000_000)
    stale = live.stale
    assert live.flushes == 1
    go(200_000_000)
    assert live.stale == stale
    assert box.totals().slow == 2 * slow
    assert box.totals().wrong == 0
    box.structure.check()


def test_changes_reach_a_run_and_are_reported(monkeypatch):
    def each_ten_ms(rng, table, seconds, *, scale):
        assert (seconds > 0.1, scale) == (True, 400.0)
        return make_churn([(i * 10_000_000, 0, 1, f"hop {i % 2}") for i in range(20)])

    monkeypatch.setattr("sim.routing.made_churn", each_ten_ms)
    measure = Measure(fill_s=0.02, settle_s=0.01, window_s=0.05, window_limit_s=0.05, series_s=0.01)
    made = scenario("rt_hash", measure, churn=400.0, min_delay_s=0.004)
    result = run_row(made, made.row[0], seed=1, progress=lambda progress: None)
    assert 4 <= result.counters["box_changes"].window <= 6
    assert 3 <= result.counters["box_flushes"].window <= 6
    assert result.counters["flushes"].window == result.counters["box_flushes"].window
    assert any("changes of routes and" in note for note in result.notes)
    assert result.series[-1]["changes"] >= result.counters["box_changes"].window


def test_without_changes_nothing_is_said_of_them():
    made = scenario("none", Measure(fill_s=0, settle_s=0, window_s=0.01, window_limit_s=0.01))
    result = run_row(made, made.row[0], seed=1, progress=lambda progress: None)
    assert "box_changes" not in result.counters
    assert not any("changes of routes" in note for note in result.notes)


def test_the_structures_of_a_run_see_the_same_changes():
    made = scenario("rt_hash", Measure(), churn=100.0)
    one, two = (assemble(made, row, 1).box.live for row in (made.row[0], Row(name="x", structure="unicache")))
    assert one._churn.time_ns.size > 0
    assert (one._churn.time_ns == two._churn.time_ns).all()
