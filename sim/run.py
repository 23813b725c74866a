"""Running a whole scenario: its rows, over one or several seeds, into one RunResult."""

from __future__ import annotations

import math
import platform
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, stdev
from time import monotonic
from typing import Any

import msgspec

from sim.compare import compare
from sim.load import COSTS, FILES, MACHINES, check_rows, sections
from sim.result import Figure, RowResult, RunResult, SeedFigures, error_percent, mape
from sim.scenario import Row, Scenario
from sim.sweep import OnProgress, Task, run_tasks
from sim.toml_input import find_named

RUNNERS = {
    "forwarding": "sim.experiments.forwarding:run_row",
    "fixed-rate": "sim.experiments.fixed_rate:run_row",
    "replay": "sim.experiments.replay:run_replay",
}
"""Which function runs a row of each experiment (and of a replayed capture), as MODULE:FUNCTION. It is called as

    run_row(scenario, row, *, seed, quick, progress) -> RowResult
"""

PACKAGES = ("dstlab", "numpy", "numba", "simpy")

# Two-sided 95 % quantiles of Student's t by degrees of freedom; 1.96 beyond.
_T95 = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
)


class Interrupted(Exception):
    """Ctrl-C during a run; `result` holds the rows that were finished."""

    def __init__(self, result: RunResult) -> None:
        super().__init__("interrupted")
        self.result = result


def run_scenario(
    scenario: Scenario, *, seeds: list[int], quick: bool, jobs: int, on_progress: OnProgress, runner: str | None = None
) -> RunResult:
    """Run every row with every seed. Raises UserError before anything runs if a row cannot work, and Interrupted on Ctrl-C."""
    check_rows(scenario)
    tasks = [Task(scenario, row, seed, quick, runner or _runner_of(scenario, row)) for seed in seeds for row in scenario.row]
    finished: dict[int, RowResult] = {}
    started = monotonic()

    def gather(complete: bool) -> RunResult:
        results = [(tasks[index], found) for index, found in finished.items()]
        return _gather(scenario, seeds, results, quick, complete, {"jobs": jobs, "wall_s": round(monotonic() - started, 3)})

    running = run_tasks(tasks, jobs, on_progress)
    try:
        for index, result in running:
            finished[index] = compare(scenario, tasks[index].row, result, quick)
    except KeyboardInterrupt:
        running.close()
        raise Interrupted(gather(False)) from None
    return gather(True)


def _runner_of(scenario: Scenario, row: Row) -> str:
    """A capture is replayed once, whatever else the scenario does with generated traffic."""
    captured = sections(scenario, row).traffic.source in FILES
    return RUNNERS["replay" if captured else scenario.experiment]


def _gather(
    scenario: Scenario, seeds: list[int], results: list[tuple[Task, RowResult]], quick: bool, complete: bool, host: dict[str, Any]
) -> RunResult:
    by_seed: dict[int, dict[str, RowResult]] = {seed: {} for seed in seeds}
    for task, result in results:
        by_seed[task.seed][task.row.name] = result
    rows = []
    for row in scenario.row:
        of_row = [by_seed[seed][row.name] for seed in seeds if row.name in by_seed[seed]]
        if of_row:
            rows.append(of_row[0] if len(of_row) == 1 else _mean(of_row))
    return RunResult(
        scenario=scenario.name,
        seed=seeds[0],
        rows=rows,
        mape_predicted_percent=mape(rows),
        quick=quick,
        complete=complete,
        seeds=[_figures(seed, by_seed[seed]) for seed in seeds if by_seed[seed]] if len(seeds) > 1 else [],
        effective=msgspec.to_builtins(msgspec.structs.replace(scenario, seed=seeds[0])),
        machine=_raw(scenario.machine, MACHINES, "machine"),
        costs=_raw(scenario.costs, COSTS, "cost sheet"),
        versions=versions(),
        host=host,
    )


def _figures(seed: int, rows: dict[str, RowResult]) -> SeedFigures:
    return SeedFigures(
        seed=seed, figures={name: {key: figure.simulated for key, figure in row.figures.items()} for name, row in rows.items()}
    )


def _mean(rows: list[RowResult]) -> RowResult:
    """The first seed's row with the means of the figures over all seeds and the 95 % interval of each mean."""
    figures = {}
    for name, figure in rows[0].figures.items():
        values = [row.figures[name].simulated for row in rows if name in row.figures]
        figures[name] = _mean_figure(figure, [value for value in values if value is not None])
    return msgspec.structs.replace(rows[0], figures=figures, notes=[*rows[0].notes, f"figures are means over {len(rows)} seeds"])


def _mean_figure(figure: Figure, values: list[float]) -> Figure:
    if len(values) < 2:
        return figure
    mean = fmean(values)
    freedom = len(values) - 1
    half = (_T95[freedom - 1] if freedom <= len(_T95) else 1.96) * stdev(values) / math.sqrt(len(values))
    return msgspec.structs.replace(
        figure, simulated=mean, error_percent=error_percent(mean, figure.published), interval=[mean - half, mean + half]
    )


def _raw(name: str, folder: Path, what: str) -> dict[str, Any]:
    return tomllib.loads(find_named(name, folder, what).read_text(encoding="utf-8"))


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
