"""rt_hash alone at the rates of 2007 does what an independent model of the 2.6.20 routing cache does.

Its figures: a C program of the kernel's rules at fixed rates, HZ = 1000, 2^24 destinations, uniform loss, all flows begun at once,
second half of the run averaged; no cost model. Entries, slow share, entries compared per hit and per miss, entries scanned by
collections per second. Minutes: run with -m slow.
"""

import pytest

from sim.experiments.fixed_rate import run_row
from sim.load import load_scenario

EXPECTED = {
    "32k-L40": (250e3, 0.0280, 3.01, 7.77, 34e3),
    "131k-L40-loss": (988e3, 0.0288, 1.58, 7.52, 18e3),
    "32k-L4": (274e3, 0.213, 2.93, 8.21, 270e3),
    "32k-L4-loss": (281e3, 0.2406, 2.89, 8.44, 457e3),
    "131k-L4": (994e3, 0.194, 1.61, 7.51, 105e3),
    "131k-L4-loss": (997e3, 0.2875, 1.59, 7.55, 578e3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_fixed_rate_2007(name):
    scenario = load_scenario("fixed-rate-2007")
    row = next(row for row in scenario.row if row.name == name)
    result = run_row(scenario, row, seed=scenario.seed, progress=lambda progress: None)
    counted = {counter: phases.window for counter, phases in result.counters.items()}
    entries, slow_share, hit_steps, miss_steps, scans = EXPECTED[name]
    assert result.figures["entries"].simulated == pytest.approx(entries, rel=0.02)
    assert result.figures["slow_share"].simulated == pytest.approx(slow_share, abs=0.002)
    depths = sum(depth * counted[f"hit_depth_{depth}"] for depth in range(1, 17))
    assert depths / counted["in_hit"] == pytest.approx(hit_steps, rel=0.03)
    assert counted["in_hlist_miss"] / counted["in_slow_tot"] == pytest.approx(miss_steps, rel=0.03)
    assert counted["gc_scans"] / result.windows.window.length_s == pytest.approx(scans, rel=0.25)
