"""Runners that stand in for the simulator: what the command line does with results must not depend on how they came about."""

import math
import time

from sim.result import Host, Latency, Loss, Phases, RowProgress, RowResult, Span, Windows, make_figure


def run_row(scenario, row, *, seed, quick, progress):
    """A made-up result that depends on row and seed alone. One series value is NaN, as a careless runner may give."""
    for done in (0.0, 0.5):
        progress(RowProgress(row=row.name, phase="measuring", packets=1000, done=done, packets_per_s=2e6, seconds_left=1.5))
    slow = 20.0 + len(row.name) + 0.25 * seed
    total = 1000.0 + 3 * len(row.name) + seed
    values = {
        "total_kpps": total,
        "entries": 250000 + seed,
        "hit_kpps": total - slow,
        "slow_path_kpps": slow,
        "slow_share": slow / total,
        "total_open_kpps": total + 5,
    }
    return RowResult(
        row=row.name,
        figures={name: make_figure(value) for name, value in values.items()},
        counters={
            "entries": Phases(warm_up=1000, window=250000),
            "in_hit": Phases(warm_up=900, window=9000),
            "in_slow_tot": Phases(warm_up=100, window=1000),
        },
        windows=Windows(
            warm_up=Span(length_s=2.0),
            settle=Span(start_s=2.0, length_s=1.0),
            window=Span(start_s=3.0, length_s=10.0),
            cycles=3,
            steady=True,
            reason="the halves agree",
        ),
        profile={"ip_route_input": 1300.0 + seed, "ip_rcv": 500.0, "tiny": 0.5},
        loss=Loss(dropped=7, share=0.01),
        latency_us=Latency(p50=11.0, p99=50.0, max=100.0),
        longest_stall_us=2500.0,
        checksum="0badcafe",
        skipped={"arp": 3},
        series=[{"time_s": 1.0, "total_kpps": total, "entries": 5}, {"time_s": 2.0, "total_kpps": math.nan, "entries": 6}],
        host=Host(wall_s=time.monotonic(), packets=1000, packets_per_s=1.0),
    )


def run_user_error(scenario, row, *, seed, quick, progress):
    raise ValueError(f"{row.structure} cannot serve\nthis traffic; take another")


def run_bug(scenario, row, *, seed, quick, progress):
    raise AssertionError("an invariant is broken")


def run_out_of_memory(scenario, row, *, seed, quick, progress):
    raise MemoryError


def run_interrupted(scenario, row, *, seed, quick, progress):
    """Ctrl-C while the second row runs."""
    if row is not scenario.row[0]:
        raise KeyboardInterrupt
    return run_row(scenario, row, seed=seed, quick=quick, progress=progress)


def run_waiting(scenario, row, *, seed, quick, progress):
    """The first row is quick, all others wait to be interrupted; not where kernels are compiled (at a tenth of the size)."""
    if row.name != scenario.row[0].name and not quick:
        progress(RowProgress(row=row.name, phase="waiting"))
        time.sleep(60)
    return run_row(scenario, row, seed=seed, quick=quick, progress=progress)


def run_plugin_fault(scenario, row, *, seed, quick, progress):
    """A user's structure that fails while it is simulated."""
    from sim.structures import find_structure

    find_structure(row.structure).lookup(None, None, None)


RAN = []
"""(row, quick) of every row that run_noted ran in this process."""


def run_noted(scenario, row, *, seed, quick, progress):
    RAN.append((row.name, quick))
    return run_row(scenario, row, seed=seed, quick=quick, progress=progress)
