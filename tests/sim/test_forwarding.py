"""The forwarding experiment on the golden boxes: figures, windows and profile agree with the counts they come from."""

import msgspec
import pytest
from golden.exact import run_row, small

from models.functions import names
from models.kernel import compiled
from sim.assemble import assemble
from sim.costs import UNIT, load_costs
from sim.experiments.forwarding import by_function, cycles_at, open_loop_kpps
from sim.scenario import Row

SCENARIO = small()
ROWS = {row.name: row for row in SCENARIO.row}
NAMES = ["rt_hash", "perfect"] if compiled() else ["perfect"]


@pytest.fixture(scope="module", params=NAMES)
def result(request):
    return run_row(SCENARIO, ROWS[request.param])


def test_figures_are_the_window_counts_over_its_length(result):
    window, figures = result.windows.window, {name: figure.simulated for name, figure in result.figures.items()}
    counted = {name: phases.window for name, phases in result.counters.items()}
    assert figures["hit_kpps"] == pytest.approx(counted["box_hits"] / window.length_s / 1000)
    assert figures["slow_path_kpps"] == pytest.approx(counted["box_slow"] / window.length_s / 1000)
    assert figures["total_kpps"] == pytest.approx(figures["hit_kpps"] + figures["slow_path_kpps"])
    assert figures["slow_share"] == pytest.approx(counted["box_slow"] / counted["box_processed"])
    assert result.loss.dropped == counted["box_dropped"]
    assert result.loss.share == pytest.approx(counted["box_dropped"] / counted["box_offered"])


def test_conservation_over_the_window(result):
    counted = {name: phases.window for name, phases in result.counters.items()}
    assert counted["box_offered"] == counted["box_processed"] + counted["box_dropped"] + counted["box_queued"]
    assert counted["box_processed"] == counted["box_hits"] + counted["box_slow"] + counted["box_errors"]
    assert (counted["box_hits"], counted["box_slow"]) == (counted["in_hit"], counted["in_slow_tot"])


def test_warm_up_and_window_follow_each_other(result):
    windows = result.windows
    assert windows.warm_up.start_s == 0
    assert windows.settle.start_s == pytest.approx(windows.warm_up.length_s)
    assert windows.window.start_s == pytest.approx(windows.settle.start_s + windows.settle.length_s)
    assert windows.window.length_s >= SCENARIO.measure.window_s


def test_the_profile_adds_up_to_open_loop_cycles(result):
    """Without a published share the open loop is the closed one without idle time: both CPUs' cycles over cycles a packet."""
    whole = sum(result.profile.values())
    processed = result.counters["box_processed"].window
    assert result.figures["total_open_kpps"].simulated == pytest.approx(2 * 80e6 / whole / 1000, rel=1e-9)
    assert result.profile_counts["e1000_clean_rx_irq"]["calls"] == processed
    assert result.profile_counts["ip_rcv"]["calls"] == processed * 5 // 4


def test_latencies_are_in_order(result):
    latency = result.latency_us
    assert 0 < latency.p50 <= latency.p99 <= latency.max


def test_open_loop_weights_hits_and_slow_packets():
    assembly = assemble(SCENARIO, ROWS["perfect"], 7)
    cycles = assembly.box.pricer.bill.cycles
    cycles[0, 0], cycles[1, 0] = 100 * 1000 * UNIT, 10 * 4000 * UNIT  # 100 hits of 1000 cycles, 10 others of 4000
    assert open_loop_kpps(assembly, 100, 10, 0.25) == pytest.approx(2 * 80e6 / (0.75 * 1000 + 0.25 * 4000) / 1000)
    assert open_loop_kpps(assembly, 100, 0, 0.25) is None
    assert open_loop_kpps(assembly, 0, 10, 0.25) is None


@pytest.mark.compiled
@pytest.mark.skipif(not compiled(), reason="too slow interpreted")
def test_with_memory_as_fast_as_l1_a_lookup_is_cheap(tmp_path):
    """The machine carries the result: without its memory latency, ip_route_input falls from over 1,000 cycles below 400."""
    from sim.load import COSTS, load_scenario

    scenario = load_scenario("olsson-2007")
    row = next(row for row in scenario.row if row.name == "rt_hash-32k-L40")
    text = (COSTS / f"{scenario.costs}.toml").read_text(encoding="utf-8")
    was = f"ns = {load_costs(scenario.costs).memory_latency.ns}"
    assert text.count(was) == 1
    path = tmp_path / "l1.toml"
    path.write_text(text.replace(was, "ns = 1.153"), encoding="utf-8")  # 3 cycles at 2.6 GHz
    short = {"fill_s": 8.0, "settle_s": 0.1, "window_s": 0.3, "window_limit_s": 0.3}
    row = msgspec.structs.replace(row, measure=short, published=None, roles={})
    cheap = run_row(msgspec.structs.replace(scenario, costs=str(path)), row)
    assert cheap.figures["entries"].simulated > 100_000
    assert cheap.profile["ip_route_input"] < 400


def test_a_wrong_route_ends_the_run(monkeypatch):
    from models.reference import Perfect

    class Liar(Perfect):
        def forward(self, batch, start, ctx):
            stop, need = super().forward(batch, start, ctx)
            ctx.log.answer[start:stop] += 1
            return stop, need

    monkeypatch.setattr("sim.assemble.find_structure", lambda name: Liar)
    with pytest.raises(AssertionError, match=r"liar gave [0-9]+ wrong routes"):
        run_row(SCENARIO, Row(name="liar", structure="liar"))


def test_cycles_by_function_add_up_to_the_open_loop():
    assembly = assemble(SCENARIO, ROWS["perfect"], 7)
    cycles = assembly.box.pricer.bill.cycles
    cycles[0, 0], cycles[1, 0], cycles[1, 2] = 100 * 1000 * UNIT, 10 * 3000 * UNIT, 10 * 1000 * UNIT
    found = by_function(cycles_at(assembly, 100, 10, 0.25))
    assert found == {names()[0]: pytest.approx(750 + 750), names()[2]: pytest.approx(250)}
    assert sum(found.values()) == pytest.approx(2 * 80e6 / open_loop_kpps(assembly, 100, 10, 0.25) / 1000)
    assert by_function(cycles_at(assembly, 0, 10, 0.25)) == {}
