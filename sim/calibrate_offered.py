"""The offered load at length 4: one constant, fitted to three published shares of the slow path.

Each structure runs unpriced at its row's published total, the rest being dropped uniformly, at two offered loads; the share is
nearly linear in the load between them. Fitted is the load whose worst error over the rows is least. Length 40 is not fitted: its
shares scatter around what no loss at all would give.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from sim.experiments.fixed_rate import run_row
from sim.load import SCENARIOS, sections
from sim.published import published_row
from sim.scenario import Row, Scenario

LENGTH = 4
LOADS = (800.0, 850.0)
RUN_S = {32768: 16.0, 131072: 40.0}
DEFAULT_RUN_S = 16.0


class OfferedFit(NamedTuple):
    """The load and what it gives."""

    kpps: float
    shares: dict[str, tuple[float, float]]  # row -> simulated and published share at the published total


def share_at(scenario: Scenario, row: Row, offered: float, total: float, seed: int) -> float:
    """Share of the slow path when `total` of `offered` kpps reach the row's structure."""
    run_s = RUN_S.get(int(row.parameters.get("rhash_entries", 0)), DEFAULT_RUN_S)
    changed = msgspec.structs.replace(
        row,
        traffic=row.traffic | {"offered_kpps": offered},
        measure={"pace_kpps": total, "fill_s": run_s},
    )
    result = run_row(scenario, changed, seed=seed, progress=lambda progress: None)
    share = result.figures["slow_share"].simulated
    assert share is not None
    return share


def fit_offered(scenario: Scenario, seed: int, report: Callable[[str], None]) -> OfferedFit:
    """Find the load. Rows of the same structure and traffic (adjusted ones) count once."""
    assert scenario.published is not None
    lines: dict[str, tuple[float, float, float]] = {}  # row -> share at the first load, slope, published share
    for row in scenario.row:
        if row.adjust is not None or row.published is None or sections(scenario, row).traffic.flow_length != LENGTH:
            continue
        figures = published_row(scenario.published, row.published, row.name).figures
        low, high = (share_at(scenario, row, load, figures["total_kpps"], seed) for load in LOADS)
        lines[row.name] = low, (high - low) / (LOADS[1] - LOADS[0]), figures["slow_share"]
        report(f"{row.name}: slow share {100 * low:.2f} % at {LOADS[0]:g} kpps, {100 * high:.2f} % at {LOADS[1]:g}")
    loads = np.arange(LOADS[0] - 40, LOADS[1] + 40, 1.0)
    errors = np.array([[share + slope * (load - LOADS[0]) - want for share, slope, want in lines.values()] for load in loads])
    best = int(np.abs(errors).max(axis=1).argmin())
    load = float(loads[best])
    shares = {name: (share + slope * (load - LOADS[0]), want) for name, (share, slope, want) in lines.items()}
    for name, (simulated, want) in shares.items():
        points = 100 * (simulated - want)
        report(f"{name}: {100 * simulated:.2f} % at {load:g} kpps, published {100 * want:.2f} %: {points:+.2f} points")
    report(f"offered load at length {LENGTH}: {load:g} kpps, 1 constant fitted to {len(shares)} figures")
    return OfferedFit(load, shares)


def write_offered(scenario: Scenario, kpps: float) -> None:
    """Put the load in place of the rows' own in the scenario's file."""
    path = SCENARIOS / f"{scenario.name}.toml"
    text = path.read_text(encoding="utf-8")
    text, n = re.subn(rf"(flow_length = {LENGTH}, offered_kpps = )[0-9.]+", rf"\g<1>{kpps:.1f}", text)
    assert n > 0, f"{path} has no row of flow length {LENGTH} that gives offered_kpps"
    partial = path.with_suffix(".tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
