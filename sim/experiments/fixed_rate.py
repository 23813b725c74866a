"""The structures alone at a given rate: no card, no memory, no cost. What they do then depends on nothing that is fitted.

Packets reach the structure at `pace_kpps`; of what is offered above that, packets are dropped uniformly. The second half of the
run is averaged. For checking structures against figures from elsewhere, and for the slow-path share at a published total.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from sim.assemble import assemble
from sim.experiments.forwarding import LEVELS
from sim.experiments.reporting import Reporter
from sim.result import Host, Phases, RowProgress, RowResult, Span, Windows, make_figure
from sim.scenario import Row, Scenario
from sim.streams import stream
from sim.warmup import SECOND

STEP_NS = 50_000_000


def run_row(scenario: Scenario, row: Row, *, seed: int, quick: bool = False, progress: Callable[[RowProgress], None]) -> RowResult:
    """Run one row for fill_s seconds and average the second half. ValueError in one sentence for what cannot work."""
    report = Reporter(row.name, progress)
    report("compiling", 0, 0.0)
    assembly = assemble(scenario, row, seed, quick=quick)
    box, found = assembly.box, assembly.found
    keep = 1.0
    if found.measure.pace_kpps:
        keep = found.measure.pace_kpps / found.traffic.offered_kpps
        if keep > 1:
            raise ValueError(
                f"row {row.name}: measure.pace_kpps = {found.measure.pace_kpps:g} is more than is offered "
                f"({found.traffic.offered_kpps:g}); lower it or raise traffic.offered_kpps"
            )
    length = round(found.measure.fill_s * SECOND)
    rng = stream(seed, row.name, "thinning")
    entries: list[int] = []
    set_late = not row.late
    before, counters = box.totals(), box.structure.counters()
    half_at = 0
    while box.now < length:
        box.pace(min(length, box.now + STEP_NS), keep, rng)
        if not set_late and (box.structure.cycles() or 0) > 0:
            box.structure.set_late(**row.late)
            set_late = True
        if box.now < length // 2:
            before, counters, half_at = box.totals(), box.structure.counters(), box.now
        else:
            entries.append(len(box.structure))
        report("pacing", box.totals().processed, box.now / length)
    added, seconds = box.totals().minus(before), (box.now - half_at) / SECOND
    after = box.structure.counters()
    rates = {f"{name} per second": (after[name] - counters[name]) / seconds for name in after if name not in LEVELS}
    served = added.hits + added.slow
    figures = {
        "entries": make_figure(float(np.mean(entries))),
        "hit_kpps": make_figure(added.hits / seconds / 1000),
        "slow_path_kpps": make_figure(added.slow / seconds / 1000),
        "total_kpps": make_figure(served / seconds / 1000),
        "slow_share": make_figure(added.slow / served if served else float("nan")),
    }
    wall = report.spent_s
    packets = box.totals().processed
    return RowResult(
        row=row.name,
        structure=row.structure,
        parameters={
            **assembly.parameters,
            "traffic": msgspec.to_builtins(found.traffic),
            "measure": msgspec.to_builtins(found.measure),
        },
        figures=figures,
        counters={
            name: Phases(warm_up=counters[name], window=value if name in LEVELS else value - counters[name])
            for name, value in after.items()
        },
        windows=Windows(
            warm_up=Span(start_s=0.0, length_s=half_at / SECOND),
            window=Span(start_s=half_at / SECOND, length_s=seconds),
            steady=True,
            reason="second half of a run at a fixed rate",
        ),
        metrics={
            **box.structure.metrics(),
            **rates,
            "entries_min": float(min(entries)),
            "entries_max": float(max(entries)),
        },
        host=Host(wall_s=wall, packets=packets, packets_per_s=packets / wall),
    )
