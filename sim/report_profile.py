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
            listed = published.profile if published and not result.quick else {}  # a tenth of the size is not for comparison
            parts.append(_residuals(row, listed) if residuals else _profile(row, listed))
    return "\n".join(parts)


def _profile(row: RowResult, published: dict[str, float]) -> str:
    lines = [f"{row.row}: cycles per packet", _heading(row)]
    other = other_open = 0.0
    for name in sorted(set(row.profile) | set(published), key=lambda n: (-row.profile.get(n, 0.0), n)):
        if name not in published and row.profile.get(name, 0.0) < LEAST_CYCLES:
            other += row.profile.get(name, 0.0)
            other_open += row.profile_open.get(name, 0.0)
        else:
            lines.append(_function(row, name, published))
    if other:
        lines.append(_line("other", other, other_open if row.profile_open else None, None))
    lines.append(_line("all", sum(row.profile.values()), sum(row.profile_open.values()) if row.profile_open else None, None))
    if published:
        both, open_ = (sum(profile.get(name, 0.0) for name in published) for profile in (row.profile, row.profile_open))
        lines.append(
            _line("all that the published profile lists", both, open_ if row.profile_open else None, sum(published.values()))
        )
    return "\n".join(lines) + "\n"


def _residuals(row: RowResult, published: dict[str, float]) -> str:
    if not published:
        return f"{row.row}: no published profile to compare with\n"
    lines = [f"{row.row}: simulated less published, cycles per packet", _heading(row)]
    for name in sorted(published, key=lambda n: (-abs(row.profile.get(n, 0.0) - published[n]), n)):
        lines.append(_function(row, name, published))
    ten = sorted(published, key=lambda n: -published[n])[:10]
    closed = f"mean absolute error of the {len(ten)} largest functions: {_error(row.profile, published, ten):.1f} %"
    if row.profile_open:
        closed += f"; at the published share {_error(row.profile_open, published, ten):.1f} %"
    lines.append(closed)
    return "\n".join(lines) + "\n"


def _error(profile: dict[str, float], published: dict[str, float], functions: list[str]) -> float:
    """Mean of the functions' absolute errors, percent."""
    return 100 * sum(abs(profile.get(name, 0.0) - published[name]) / published[name] for name in functions) / len(functions)


def _heading(row: RowResult) -> str:
    """`open loop`: hits and slow path weighted with the published share, as the profile was taken."""
    if row.profile_open:
        return f"{'function':36}{'simulated':>10}{'open loop':>11}{'published':>11}{'difference':>12}{'open loop':>11}"
    return f"{'function':36}{'simulated':>10}{'published':>11}{'difference':>12}"


def _function(row: RowResult, name: str, published: dict[str, float]) -> str:
    return _line(
        name, row.profile.get(name, 0.0), row.profile_open.get(name, 0.0) if row.profile_open else None, published.get(name)
    )


def _line(name: str, simulated: float, open_: float | None, published: float | None) -> str:
    text = f"{name:36}{simulated:>10.1f}"
    if open_ is not None:
        text += f"{open_:>11.1f}"
    if published is not None:
        text += f"{published:>11.1f}{simulated - published:>+12.1f}"
        if open_ is not None:
            text += f"{open_ - published:>+11.1f}"
    return text
