"""Setting what was simulated beside what was published.

A quick run is not compared at all, and a row is compared only while it still is what was published: after
`--set traffic.flow_length=5` or `--set structure.rhash_entries=65536` there is nothing to compare it with, and its figures
become `unpublished`.
"""

from __future__ import annotations

import msgspec

from sim.load import sections
from sim.published import PublishedRow, published_row
from sim.result import FIGURES, RowResult, RunResult, make_figure
from sim.scenario import Row, Scenario


def published_of(scenario: Scenario, row: Row) -> PublishedRow | None:
    """The published row that this one stands for, or None if it has none or is no longer the same experiment."""
    if scenario.published is None or row.published is None:
        return None
    found = published_row(scenario.published, row.published, f"row {row.name}")
    traffic = sections(scenario, row).traffic
    buckets = row.parameters.get("rhash_entries")
    same = (
        traffic.source == "pktgen"
        and traffic.flow_length == found.flow_length
        and row.structure == found.structure
        and (found.buckets is None or buckets == found.buckets)
    )
    return found if same else None


def compare(scenario: Scenario, row: Row, result: RowResult, quick: bool = False) -> RowResult:
    """The result with published values, errors and roles at its figures, and the effective parameters of the row."""
    published = None if quick else published_of(scenario, row)
    wanted = published.figures if published else {}
    figures = {
        name: make_figure(figure.simulated, wanted.get(name), row.roles.get(name))
        for name, figure in sorted(result.figures.items(), key=lambda item: _place(item[0]))
    }
    notes = list(result.notes)
    if published is None and row.published is not None and not quick:
        notes.append(f"not what {row.published} of {scenario.published} measured, so not compared with it")
    traffic = sections(scenario, row).traffic
    parameters = {
        **row.parameters,
        **result.parameters,
        "structure": row.structure,
    }
    if traffic.source == "pktgen":
        parameters["flow_length"] = traffic.flow_length
    if not traffic.as_captured:
        parameters["offered_kpps"] = traffic.offered_kpps
    if row.adjust:
        parameters["adjust"] = row.adjust
    total = figures.get("total_kpps")
    return msgspec.structs.replace(
        result,
        row=row.name,
        structure=row.structure,
        role=total.role if total else "unpublished",
        parameters=parameters,
        figures=figures,
        notes=notes,
    )


def _place(figure: str) -> tuple[int, str]:
    return (FIGURES.index(figure) if figure in FIGURES else len(FIGURES), figure)


def scenario_of(result: RunResult) -> Scenario:
    """The scenario that a result was made from."""
    return msgspec.convert(result.effective, Scenario)
