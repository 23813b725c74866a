"""A result in print: figures beside the published ones, windows, errors and orders. Pure functions of a RunResult."""

from __future__ import annotations

import csv
import io

from sim.compare import scenario_of
from sim.load import sections
from sim.result import FIGURES, Figure, RowResult, RunResult, mape
from sim.scenario import Row, Scenario

HEADINGS = {
    "entries": "entries",
    "hit_kpps": "hit kpps",
    "slow_path_kpps": "slow kpps",
    "total_kpps": "total kpps",
    "slow_share": "slow share",
    "total_open_kpps": "open kpps",
}
MARKS = {"fitted": "f", "predicted": "p", "adjusted": "a", "unpublished": " "}
WIDTH = 12

RTSTAT = (
    "entries",
    "in_hit",
    "in_slow_tot",
    "gc_total",
    "gc_ignored",
    "gc_goal_miss",
    "gc_dst_overflow",
    "in_hlist_search",
)  # fmt: skip
LEVELS = ("entries",)
"""Counters that are a level and not a rate."""


def table(result: RunResult) -> str:
    """The whole report of a run: head, figures, windows, errors, orders."""
    parts = [head(result), figures_table(result), windows_table(result)]
    last = [*error_lines(result), *order_lines(result), *checksum_lines(result)]
    if last:
        parts.append("\n".join(last) + "\n")
    return "\n".join(parts)


def head(result: RunResult) -> str:
    """What was run, and whatever keeps it from being compared."""
    scenario = scenario_of(result)
    seeds = f"seeds {result.seeds[0].seed} to {result.seeds[-1].seed}" if result.seeds else f"seed {result.seed}"
    lines = [f"{scenario.title or scenario.name}", f"machine {scenario.machine}, costs {scenario.costs}, {seeds}"]
    if scenario.look:
        lines.append(f"look at: {scenario.look}")
    if result.quick:
        lines.append("QUICK RUN: one tenth of the size, to see that it works; do not compare its figures with the published ones")
    if not result.complete:
        lines.append(f"INTERRUPTED: {len(result.rows)} of {len(scenario.row)} rows were finished")
    return "\n".join(lines) + "\n"


def figures_table(result: RunResult) -> str:
    """Each figure simulated, published and its error; each error with the role of its figure, each row with its own."""
    shown = [name for name in FIGURES if any(name in row.figures for row in result.rows)]
    if not result.rows:
        return "no row was finished\n"
    left = max(len("row"), *(len(row.row) for row in result.rows)) + 2
    lines = [f"{'row':{left}}{'role':13}{'':10}" + "".join(f"{HEADINGS[name]:>{WIDTH}}" for name in shown) + f"{'loss':>9}"]
    for row in result.rows:
        figures = [row.figures.get(name) for name in shown]
        simulated = "".join(f"{_value(name, f.simulated if f else None):>{WIDTH}}" for name, f in zip(shown, figures, strict=True))
        loss = "-" if row.loss.share is None else f"{row.loss.share:.2%}"
        lines.append(f"{row.row:{left}}{row.role:13}{'simulated':10}{simulated}{loss:>9}")
        if any(f and f.interval for f in figures):
            spread = "".join(f"{_half(name, f):>{WIDTH}}" for name, f in zip(shown, figures, strict=True))
            lines.append(f"{'':{left}}{'':13}{'  +- (95 %)':10}{spread[1:]}")
        if any(f and f.published is not None for f in figures):
            published = "".join(
                f"{_value(name, f.published if f else None):>{WIDTH}}" for name, f in zip(shown, figures, strict=True)
            )
            errors = "".join(f"{_error(name, f):>{WIDTH}}" for name, f in zip(shown, figures, strict=True))
            lines += [f"{'':{left}}{'':13}{'published':10}{published}", f"{'':{left}}{'':13}{'error':10}{errors}"]
    if any(row.role != "unpublished" for row in result.rows):
        lines.append(
            "total, hit, slow: closed loop (all emerges from the simulation); open: mean cycles weighted with the published share"
        )
        lines.append("f fitted to it, p predicted, a adjusted: predicted with the packet path scaled; pt percentage points")
    return "\n".join(lines) + "\n"


def _value(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name == "slow_share":
        return f"{value:.2%}"
    return f"{value:,.0f}" if name == "entries" else f"{value:,.1f}"


def _half(name: str, figure: Figure | None) -> str:
    if figure is None or not figure.interval:
        return "-"
    return _value(name, (figure.interval[1] - figure.interval[0]) / 2)


def _error(name: str, figure: Figure | None) -> str:
    if figure is None or figure.simulated is None or figure.published is None:
        return "-"
    mark = MARKS.get(figure.role, " ")
    if name == "slow_share":
        return f"{100 * (figure.simulated - figure.published):+.2f}pt {mark}"
    return "-" if figure.error_percent is None else f"{figure.error_percent:+.1f}% {mark}"


def windows_table(result: RunResult) -> str:
    """Warm-up and measured window of every row side by side, and whether the window is steady."""
    if not result.rows:
        return ""
    left = max(len("row"), *(len(row.row) for row in result.rows)) + 2
    first = [f"of seed {result.seeds[0].seed} alone:"] if len(result.seeds) > 1 else []
    lines = [
        *first,
        f"{'row':{left}}{'warm-up':>9}{'window':>9}{'cycles':>8}  {'slow share':>17}  {'entries at the end':>22}"
        f"{'p50':>9}{'p99':>9}{'stall':>9}  steady",
        f"{'':{left}}{'s':>9}{'s':>9}{'':8}  {'warm-up':>9}{'window':>8}  {'warm-up':>11}{'window':>11}{'us':>9}{'us':>9}{'ms':>9}",
    ]
    for row in result.rows:
        w, lat = row.windows, row.latency_us
        entries = row.counters.get("entries")
        steady = "yes" if w.steady else "NO"
        stall = None if row.longest_stall_us is None else row.longest_stall_us / 1000
        spans = _cell(f"{w.warm_up.length_s:.2f}") + _cell(f"{w.window.length_s:.2f}")
        lines.append(
            f"{row.row:{left}}{spans}{'-' if w.cycles is None else w.cycles:>8}"
            f"  {_share(row, 'warm_up'):>9}{_share(row, 'window'):>8}"
            f"  {_count(entries.warm_up if entries else None):>11} {_count(entries.window if entries else None):>10}"
            f"{_cell(_fixed(lat.p50))}{_cell(_fixed(lat.p99))}{_cell(_fixed(stall))}  {steady}{f': {w.reason}' if w.reason else ''}"
        )
        lines += [f"{'':{left}}skipped {count:,} packets: {reason}" for reason, count in sorted(row.skipped.items()) if count]
        lines += [f"{'':{left}}{note}" for note in row.notes]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Text in a column of nine; wider text keeps a space before it."""
    return f" {text:>8}"


def _share(row: RowResult, phase: str) -> str:
    hit, slow = row.counters.get("in_hit"), row.counters.get("in_slow_tot")
    if hit is None or slow is None:
        return "-"
    hits, slows = getattr(hit, phase), getattr(slow, phase)
    if hits is None or slows is None or hits + slows == 0:
        return "-"
    return f"{slows / (hits + slows):.2%}"


def _count(value: float | int | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _fixed(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def error_lines(result: RunResult) -> list[str]:
    """Mean absolute percentage error of the predicted figures, and of the adjusted ones."""
    lines = []
    for role in ("predicted", "adjusted"):
        parts = []
        for name in ("total_kpps", "total_open_kpps", "entries"):
            value = mape(result.rows, name, role)
            if value is not None:
                count = sum(1 for row in result.rows if name in row.figures and row.figures[name].role == role)
                parts.append(f"{HEADINGS[name]} {value:.1f} % ({count})")
        if parts:
            lines.append(f"mean absolute error of {role} figures: {', '.join(parts)}")
    return lines


def order_lines(result: RunResult) -> list[str]:
    """For each flow length the published order of the structures, fastest first, and the simulated ones."""
    scenario = scenario_of(result)
    lines = []
    for length, rows in _groups(scenario, result).items():
        published = _order(rows, {row.name: _published_total(result, row) for row in rows if row.adjust is None})
        if len(published) < 2:
            continue
        lines.append(f"order at length {length}, published: {' > '.join(published)}")
        for loop, figure in (("closed loop", "total_kpps"), ("open loop", "total_open_kpps")):
            for kind in ("pure", "adjusted"):
                chosen = [row for row in rows if (row.adjust is not None) == (kind == "adjusted" and _has_adjusted(rows, row))]
                if kind == "adjusted" and not any(row.adjust for row in rows):
                    continue
                line = _order_line(result, chosen, figure, published)
                if line:
                    lines.append(f"  {loop}, {kind}: {line}")
    return lines


def _order_line(result: RunResult, rows: list[Row], figure: str, published: list[str]) -> str:
    by_row = {row.row: row for row in result.rows}
    totals = {row.name: by_row[row.name].figures[figure].simulated for row in rows if figure in by_row[row.name].figures}
    found = _order(rows, totals)
    if len(found) < 2:
        return ""
    text = f"{' > '.join(found)} ({'as published' if found == published else 'not as published'})"
    if result.seeds:
        same = sum(
            _order(rows, {row.name: seed.figures.get(row.name, {}).get(figure) for row in rows}) == published
            for seed in result.seeds
        )
        text += f"; as published with {same} of {len(result.seeds)} seeds"
    return text


def _groups(scenario: Scenario, result: RunResult) -> dict[int, list[Row]]:
    """Rows with something published, by flow length."""
    finished = {row.row for row in result.rows}
    groups: dict[int, list[Row]] = {}
    for row in scenario.row:
        if row.name in finished and _published_total(result, row) is not None:
            groups.setdefault(sections(scenario, row).traffic.flow_length, []).append(row)
    return groups


def _published_total(result: RunResult, row: Row) -> float | None:
    figure = next(r for r in result.rows if r.row == row.name).figures.get("total_kpps")
    return figure.published if figure else None


def _has_adjusted(rows: list[Row], row: Row) -> bool:
    """True if the published row that this one stands for is simulated adjusted too."""
    return any(other.adjust and other.published == row.published for other in rows)


def _order(rows: list[Row], totals: dict[str, float | None]) -> list[str]:
    """Published keys without the flow length, fastest first."""
    known = [(total, row.published or row.name) for row in rows if (total := totals.get(row.name)) is not None]
    return [key.partition("/")[2].replace("/", " ") for _, key in sorted(known, key=lambda item: -item[0])]


def checksum_lines(result: RunResult) -> list[str]:
    """Whether all structures gave the same routes to the same packets."""
    scenario = scenario_of(result)
    rows = {row.name: row for row in scenario.row}
    groups: dict[str, dict[str, str]] = {}
    for row in result.rows:
        if row.checksum:
            traffic = sections(scenario, rows[row.row]).traffic
            groups.setdefault(f"{traffic.source} {traffic.flow_length} {traffic.flows}", {})[row.row] = row.checksum
    lines = []
    for found in groups.values():
        if len(found) > 1:
            sums = set(found.values())
            same = (
                f"equal for {', '.join(found)}"
                if len(sums) == 1
                else f"DIFFERENT: {', '.join(f'{r} {c}' for r, c in found.items())}"
            )
            lines.append(f"routes of a loss-free replay: {same}{f' ({sums.pop()})' if len(sums) == 1 else ''}")
    return lines


def as_csv(result: RunResult) -> str:
    """One line for each figure of each row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "role", "figure", "simulated", "published", "error_percent", "figure_role"])
    for row in result.rows:
        for name, figure in row.figures.items():
            numbers = ["" if v is None else repr(v) for v in (figure.simulated, figure.published, figure.error_percent)]
            writer.writerow([row.row, row.role, name, *numbers, figure.role])
    return text.getvalue()


def as_rtstat(result: RunResult, series: bool) -> str:
    """The routing-cache counters as rtstat shows them: per second of the window, or of each interval of the series."""
    left = max((len(row.row) for row in result.rows), default=3) + 1
    lines = [f"{'row':{left}}|" + "|".join(f"{name:>{max(8, len(name))}}" for name in RTSTAT) + "|"]
    for row in result.rows:
        points = row.series if series else [_per_second(row)]
        for point in points:
            cells = (f"{_count(point.get(name)).replace(',', ''):>{max(8, len(name))}}" for name in RTSTAT)
            lines.append(f"{row.row:{left}}|" + "|".join(cells) + "|")
    return "\n".join(lines) + "\n"


def _per_second(row: RowResult) -> dict[str, float | int | None]:
    length = row.windows.window.length_s
    found: dict[str, float | int | None] = {}
    for name, phases in row.counters.items():
        value = phases.window
        found[name] = value if name in LEVELS or value is None else (value / length if length > 0 else None)
    return found
