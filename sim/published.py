"""Published measurements: throughput and profiles, as the CSV files of sim/published/ hold them.

`olsson-2007`: Robert Olsson, netdev, 19 Feb 2007: forwarding of 2 x 65,536 concurrent flows on a box with two dual-core Opterons
at 2.6 GHz, two CPUs in use, Linux 2.6.20: packets per second, and oprofile samples of the 26 dearest functions. The mail's column
heading "pps" of the longer flows means kpps.

A published row is named `FLOW_LENGTH/STRUCTURE` or `FLOW_LENGTH/STRUCTURE/BUCKETS`.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from sim.errors import UserError, did_you_mean

FOLDER = Path(__file__).parent / "published"

CLOCK_HZ = 2.6e9
"""Clock of the measured machine."""
CPUS = 2
"""CPUs that forwarded."""


class PublishedRow(NamedTuple):
    """One published row."""

    flow_length: int
    structure: str
    buckets: int | None
    figures: dict[str, float]  # under the names of sim.result.FIGURES
    profile: dict[str, float]  # function -> cycles per packet, the functions that were listed


def cycles_per_packet(percent: float, total_kpps: float) -> float:
    """Cycles that a share of the samples (percent) means for each packet, all CPUs being busy."""
    return percent / 100.0 * CPUS * CLOCK_HZ / (total_kpps * 1000.0)


def load_published(name: str) -> dict[str, PublishedRow]:
    """Every row of a published table by its key. Raises UserError for an unknown table."""
    path = FOLDER / f"{name}-throughput.csv"
    if not path.is_file():
        known = sorted(p.name.removesuffix("-throughput.csv") for p in FOLDER.glob("*-throughput.csv"))
        raise UserError(f"unknown published table {name!r}; {did_you_mean(name, known)}")
    rows: dict[str, PublishedRow] = {}
    for line in _lines(path):
        hit, slow, total = (float(line[column]) for column in ("hit_kpps", "slow_path_kpps", "total_kpps"))
        rows[_key(line)] = PublishedRow(
            flow_length=int(line["flow_length"]),
            structure=line["structure"],
            buckets=int(line["buckets"]) if line["buckets"] else None,
            figures={
                "entries": float(line["dst_entries"]),
                "hit_kpps": hit,
                "slow_path_kpps": slow,
                "total_kpps": total,
                "slow_share": slow / total,
                "total_open_kpps": total,
            },
            profile={},
        )
    profiles = FOLDER / f"{name}-profile.csv"
    if profiles.is_file():
        for line in _lines(profiles):
            row = rows[_key(line)]
            row.profile[line["function"]] = cycles_per_packet(float(line["percent"]), row.figures["total_kpps"])
    return rows


def published_row(table: str, key: str, place: str) -> PublishedRow:
    """One row of a table. Raises UserError, beginning with `place`, for an unknown key."""
    rows = load_published(table)
    if key not in rows:
        raise UserError(f"{place}: the published table {table} has no row {key!r}; {did_you_mean(key, rows)}")
    return rows[key]


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _key(line: dict[str, str]) -> str:
    return "/".join(part for part in (line["flow_length"], line["structure"], line["buckets"]) if part)
