"""The structures alone at a given rate."""

import msgspec
import pytest
from golden.exact import small

from sim.experiments.fixed_rate import run_row
from sim.load import load_scenario
from sim.scenario import Measure, Row, Traffic

BASE = msgspec.structs.replace(
    small(),
    experiment="fixed-rate",
    traffic=Traffic(flows=50, flow_length=4, offered_kpps=40.0, start="synchronous"),
    measure=Measure(fill_s=1.0),
)


def run(structure="perfect", parameters=None, **measure):
    row = Row(name="row", structure=structure, parameters=parameters or {}, measure=measure)
    seen = []
    return run_row(BASE, row, seed=3, progress=seen.append), seen


def test_without_loss_a_flow_misses_once():
    """The generator sends flow_length + 1 packets a flow, so one in five is the first of its flow."""
    result, _ = run()
    assert result.figures["slow_share"].simulated == pytest.approx(0.2, abs=0.02)
    assert result.figures["total_kpps"].simulated == pytest.approx(40.0, rel=0.15)


def test_loss_takes_the_share_that_is_told():
    result, _ = run(pace_kpps=20.0)
    assert result.figures["total_kpps"].simulated == pytest.approx(20.0, rel=0.15)
    # A flow of five sends 2.5 packets on average, and one in 32 none at all: 31/32 first packets for 2.5.
    assert result.figures["slow_share"].simulated == pytest.approx((1 - 0.5**5) / 2.5, abs=0.03)


def test_only_the_second_half_counts():
    result, seen = run()
    assert result.windows.warm_up.length_s + result.windows.window.length_s == pytest.approx(1.0, abs=0.05)
    served = sum(result.counters[name].window for name in ("in_hit", "in_slow_tot"))
    assert served == pytest.approx(1000 * result.figures["total_kpps"].simulated * result.windows.window.length_s)
    assert seen[-1].done == pytest.approx(1.0, abs=0.2)


def test_entries_are_the_mean_over_the_second_half():
    result, _ = run("lru", {"capacity": 20})
    assert result.figures["entries"].simulated == 20
    assert result.metrics["entries_min"] == result.metrics["entries_max"] == 20


def test_a_pace_above_the_offered_rate_is_refused():
    with pytest.raises(ValueError, match=r"row row: measure.pace_kpps = 50 is more than is offered \(40\); lower it"):
        run(pace_kpps=50.0)


def test_the_scenario_of_2007_begins_all_flows_at_once():
    scenario = load_scenario("fixed-rate-2007")
    assert scenario.traffic.start == "synchronous"
    assert len(scenario.row) == 6
