"""The profile of a row in print: cycles per packet by function, simulated and published, and what is left unexplained."""

from __future__ import annotations

from sim.compare import published_of, scenario_of
from sim.result import RowResult, RunResult

LEAST_CYCLES = 1.0
"""Functions below this, and not published, are summed up as `other`."""


def profiles(result: RunResult, residuals: bool) -> str:
    """The profile of every row that has one; with `residuals` the differences, largest first."""
    scenario = scenario_of(result)
    rows = {row.name: row for row in scenario.row}
    parts = []
    for row in result.rows:
        if row.profile:
            published = published_of(scenario, rows[row.row])
            listed = published.profile if published else {}
            parts.append(_residuals(row, listed) if residuals else _profile(row, listed))
    return "\n".join(parts)


def _profile(row: RowResult, published: dict[str, float]) -> str:
    lines = [f"{row.row}: cycles per packet", f"{'function':34}{'simulated':>10}{'published':>11}{'difference':>12}"]
    other = 0.0
    for name in sorted(set(row.profile) | set(published), key=lambda n: (-row.profile.get(n, 0.0), n)):
        simulated = row.profile.get(name, 0.0)
        if name not in published and simulated < LEAST_CYCLES:
            other += simulated
        else:
            lines.append(_line(name, simulated, published.get(name)))
    if other:
        lines.append(_line("other", other, None))
    lines.append(_line("all", sum(row.profile.values()), None))
    if published:
        both = sum(row.profile.get(name, 0.0) for name in published)
        lines.append(_line("all that the published profile lists", both, sum(published.values())))
    return "\n".join(lines) + "\n"


def _residuals(row: RowResult, published: dict[str, float]) -> str:
    if not published:
        return f"{row.row}: no published profile to compare with\n"
    lines = [
        f"{row.row}: simulated less published, cycles per packet",
        f"{'function':34}{'simulated':>10}{'published':>11}{'difference':>12}",
    ]
    for name in sorted(published, key=lambda n: (-abs(row.profile.get(n, 0.0) - published[n]), n)):
        lines.append(_line(name, row.profile.get(name, 0.0), published[name]))
    ten = sorted(published, key=lambda n: -published[n])[:10]
    errors = [abs(row.profile.get(name, 0.0) - published[name]) / published[name] for name in ten]
    lines.append(f"mean absolute error of the {len(ten)} largest functions: {100 * sum(errors) / len(ten):.1f} %")
    return "\n".join(lines) + "\n"


def _line(name: str, simulated: float, published: float | None) -> str:
    text = f"{name:34}{simulated:>10.1f}"
    return text if published is None else f"{text}{published:>11.1f}{simulated - published:>+12.1f}"
