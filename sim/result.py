"""A result: what every row of a run gave.

Whatever prints, plots or compares takes a `RunResult`, as sim/result_folder.py gives it back. The same scenario, seed and
library versions give the same bytes, apart from the `host` block: no time of day, no host name, integers where
the simulation has integers. Nothing is ever NaN: `null` where undefined.
"""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = 1

FIGURES = ("entries", "hit_kpps", "slow_path_kpps", "total_kpps", "slow_share", "total_open_kpps")
"""Figures of the forwarding experiment, in the order they are printed. slow_share is a share (0..1), the rest entries and kpps."""

ROLES = ("fitted", "predicted", "adjusted", "unpublished")
"""fitted: used to set a constant; predicted: no constant has seen it; adjusted: packet path scaled; unpublished: no such figure."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number beside its published counterpart."""

    simulated: float | None
    published: float | None = None
    error_percent: float | None = None  # of the published value; None where there is none
    role: str = "unpublished"
    interval: list[float] | msgspec.UnsetType = msgspec.UNSET  # of the mean over several seeds, 95 %


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """A counter over warm-up and over the measured window; a level (entries) at the end of each."""

    warm_up: float | int | None
    window: float | int | None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Part of the simulated time, seconds."""

    start_s: float = 0.0
    length_s: float = 0.0


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """What was simulated when, and whether the window stands for the long run."""

    warm_up: Span = Span()
    settle: Span = Span()
    window: Span = Span()
    cycles: int | None = None  # whole collection cycles in the window; None without collection
    steady: bool = False
    reason: str = ""  # why it is called steady or not


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Packets that found the ring full, in the window."""

    dropped: int = 0
    share: float | None = None  # of the packets offered, 0..1


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """From arrival at the network card to transmit, microseconds."""

    p50: float | None = None
    p99: float | None = None
    max: float | None = None


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the simulation cost the host. Not part of what is reproducible."""

    wall_s: float = 0.0
    packets: int = 0  # simulated, all phases
    packets_per_s: float = 0.0


class RowProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a row is."""

    row: str
    phase: str  # compiling, filling, settling, measuring, ...
    packets: int = 0  # simulated so far
    done: float = 0.0  # share of the row, 0..1
    packets_per_s: float | None = None
    seconds_left: float | None = None


class RowResult(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table and all that stands behind it."""

    row: str
    role: str = "unpublished"  # that of total_kpps
    structure: str = ""
    parameters: dict[str, Any] = {}  # effective: of the structure, traffic and box
    figures: dict[str, Figure] = {}
    counters: dict[str, Phases] = {}
    windows: Windows = Windows()
    profile: dict[str, float] = {}  # function -> cycles per packet
    profile_open: dict[str, float] = {}  # the same in the open loop: hits and slow path weighted with the published share
    profile_counts: dict[str, dict[str, int]] = {}  # function -> calls and accesses by level, in the window
    loss: Loss = Loss()
    latency_us: Latency = Latency()
    longest_stall_us: float | None = None  # longest time in which a CPU took no packet from its ring
    metrics: dict[str, float] = {}  # the structure's own figures at the end of the window
    checksum: str = ""  # over (packet index, route)
    skipped: dict[str, int] = {}  # packets of the source that were not used, by reason
    notes: list[str] = []
    series: list[dict[str, float | int | None]] = []  # goes to series.csv
    host: Host = Host()  # goes to the run's host block


class SeedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated figures of one seed: {row: {figure: value}}."""

    seed: int
    figures: dict[str, dict[str, float | None]]


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run: what result.json holds."""

    schema: int = SCHEMA
    scenario: str
    seed: int
    rows: list[RowResult]
    mape_predicted_percent: float | None = None  # over total_kpps of role predicted
    quick: bool = False  # a tenth of the size: not for comparison
    complete: bool = True  # False when the run was interrupted; rows holds what was finished
    seeds: list[SeedFigures] = []  # all seeds, if more than one
    effective: dict[str, Any] = {}  # the scenario as it was run, defaults filled in
    machine: dict[str, Any] = {}  # the machine file
    costs: dict[str, Any] = {}  # the cost sheet
    versions: dict[str, str] = {}
    host: dict[str, Any] = {}


def error_percent(simulated: float | None, published: float | None) -> float | None:
    """How far a simulated figure is from the published one, percent; None if either is missing or the published one is 0."""
    if simulated is None or published is None or published == 0:
        return None
    return 100.0 * (simulated - published) / published


def make_figure(simulated: float | None, published: float | None = None, role: str | None = None) -> Figure:
    """A figure with its error. Without a published value its role is `unpublished`; without a simulated one it stays comparable."""
    if simulated is not None:
        simulated = finite(simulated)
    if published is None:
        return Figure(simulated=simulated)
    return Figure(
        simulated=simulated, published=published, error_percent=error_percent(simulated, published), role=role or "predicted"
    )


def finite(value: float) -> float | None:
    """The value, or None for NaN and the infinities."""
    return value if float("-inf") < value < float("inf") else None


def mape(rows: list[RowResult], figure: str = "total_kpps", role: str = "predicted") -> float | None:
    """Mean absolute percentage error of a figure over the rows where it has this role; None if there is none."""
    errors = [
        abs(f.error_percent)
        for f in (row.figures.get(figure) for row in rows)
        if f is not None and f.role == role and f.error_percent is not None
    ]
    return sum(errors) / len(errors) if errors else None


def exchange_form(result: RunResult) -> dict[str, Any]:
    """The short form that `--json` writes, the same for every experiment."""
    return {
        "schema": result.schema,
        "scenario": result.scenario,
        "seed": result.seed,
        "rows": [
            {
                "row": row.row,
                "role": row.role,
                "parameters": row.parameters,
                "figures": {name: msgspec.to_builtins(figure) for name, figure in row.figures.items()},
            }
            for row in result.rows
        ],
        "mape_predicted_percent": result.mape_predicted_percent,
    }


def to_json(value: Any) -> bytes:
    """Indented JSON with a final newline, in the order of insertion. Non-finite numbers become null."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
