"""Loading a scenario: find it, read it strictly, check its values, apply what the command line sets.

Everything a run cannot work with is refused here, before anything is simulated. What a row really runs with is `sections(scenario,
row)`: the scenario's sections with the row's own keys laid over them.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from sim.errors import UserError, did_you_mean
from sim.published import load_published, published_row
from sim.result import FIGURES, ROLES
from sim.scenario import Box, Fib, Measure, Row, Scenario, Traffic
from sim.toml_input import decode, find_named, looks_like_path, read_toml
from sim.traffic_kinds import KINDS, check_made

_HERE = Path(__file__).parent
SCENARIOS = _HERE / "scenarios"
MACHINES = _HERE / "machines"
COSTS = _HERE / "costs"

T = TypeVar("T")

FILES = ("capture", "flow-records")
"""Kinds of traffic whose packets come from a user's files."""

OF_CAPTURES = ("files", "as_captured", "offered_kpps", "family", "inner", "strict", "speed", "longest_gap_s", "repeat")
"""Keys of `traffic` that mean something when the packets come from files."""

TABLES = ("spread", "full")
"""Kinds of generated routing tables; sim/routing.py makes them."""

EXPERIMENTS = ("forwarding", "fixed-rate")
"""Kinds of experiment; sim/run.py says which function runs a row of each."""

MOST_KPPS = 1_488_095.0
"""Smallest frames on a link of 1 Tbit/s; a larger figure was surely meant in packets per second."""


class Sections(NamedTuple):
    """What one row runs with."""

    traffic: Traffic
    box: Box
    measure: Measure


def sections(scenario: Scenario, row: Row) -> Sections:
    """The scenario's sections with the row's own keys laid over them. Raises UserError for a key or type that does not fit."""
    return Sections(
        _overlay(scenario.traffic, row.traffic, Traffic, f"row {row.name}: traffic"),
        _overlay(scenario.box, row.box, Box, f"row {row.name}: box"),
        _overlay(scenario.measure, row.measure, Measure, f"row {row.name}: measure"),
    )


def _overlay(base: Any, values: dict[str, Any], kind: type[T], place: str) -> T:
    return decode(msgspec.to_builtins(base) | values, kind, place)


def load_scenario(name: str) -> Scenario:
    """A scenario of the project by name, or a user's own TOML file. Raises UserError for whatever is wrong with it."""
    path = find_named(name, SCENARIOS, "scenario")
    own = looks_like_path(name)
    place = str(path) if own else f"scenario {name}"
    scenario = decode(read_toml(path, "scenario"), Scenario, place)
    if own:
        scenario = _relative_to(scenario, path.parent)
    return check_scenario(scenario, place)


def _relative_to(scenario: Scenario, folder: Path) -> Scenario:
    """Paths in a user's file are meant from where that file lies."""
    fib, traffic = scenario.fib, scenario.traffic
    if fib.file is not None:
        fib = msgspec.structs.replace(fib, file=str(folder / fib.file))
    if fib.updates is not None:
        fib = msgspec.structs.replace(fib, updates=str(folder / fib.updates))
    traffic = msgspec.structs.replace(traffic, files=[str(folder / file) for file in traffic.files])
    machine, costs = (str(folder / n) if looks_like_path(n) else n for n in (scenario.machine, scenario.costs))
    return msgspec.structs.replace(scenario, fib=fib, traffic=traffic, machine=machine, costs=costs)


def check_scenario(scenario: Scenario, place: str) -> Scenario:
    """Refuse what cannot be run. Imports no structure: their own parameters are checked by `check_rows`."""
    if scenario.schema != 1:
        raise UserError(f"{place}: schema {scenario.schema} is unknown; this version reads schema 1")
    if scenario.experiment not in EXPERIMENTS:
        hint = did_you_mean(scenario.experiment, EXPERIMENTS)
        raise UserError(f"{place}: unknown experiment {scenario.experiment!r}; {hint}")
    find_named(scenario.machine, MACHINES, "machine")
    find_named(scenario.costs, COSTS, "cost sheet")
    if scenario.seed < 0:
        raise UserError(f"{place}: seed must not be negative, got {scenario.seed}")
    if not scenario.row:
        raise UserError(f'{place}: nothing to run; add a [[row]] with name = "..." and structure = "..."')
    if scenario.published is not None:
        try:
            load_published(scenario.published)
        except UserError as error:
            raise UserError(f"{place}: {error}") from None
    _check_sections(Sections(scenario.traffic, scenario.box, scenario.measure), place)
    _check_fib(scenario.fib, place)
    seen: set[str] = set()
    for row in scenario.row:
        where = f"{place}: row {row.name}"
        if row.name in seen:
            raise UserError(f"{where} stands twice; give every row a name of its own")
        seen.add(row.name)
        _check_row(scenario, row, where)
    return scenario


def _check_kind(traffic: Traffic, where: str) -> None:
    """What belongs to one kind of traffic alone."""
    if traffic.source not in FILES:
        check_made(traffic, where)
        return
    if not traffic.files:
        raise UserError(f"{where}: traffic.source is {traffic.source}, but traffic.files names none")
    if traffic.repeat < 1:
        raise UserError(f"{where}: traffic.repeat must be at least 1, got {traffic.repeat}")
    if not traffic.as_captured and (traffic.speed != 1.0 or traffic.longest_gap_s is not None):
        raise UserError(
            f"{where}: packets are sent evenly at {traffic.offered_kpps:g} kpps, so traffic.speed and traffic.longest_gap_s say "
            "nothing; set traffic.as_captured = true, or leave them out"
        )
    if traffic.options and traffic.source == "capture":
        raise UserError(f"{where}: traffic.options belong to flow records and generated traffic; a capture has none")


def _check_fib(fib: Fib, place: str) -> None:
    if fib.prefixes < 1:
        raise UserError(f"{place}: fib.prefixes must be at least 1, got {fib.prefixes}")
    if fib.kind not in TABLES:
        raise UserError(f"{place}: fib.kind must be {' or '.join(TABLES)}, got {fib.kind!r}; {did_you_mean(fib.kind, TABLES)}")
    if not 0 <= fib.churn < float("inf"):
        raise UserError(f"{place}: fib.churn must be 0 or more, times the changes of one BGP peer, got {fib.churn:g}")
    if fib.churn and fib.updates is not None:
        raise UserError(f"{place}: fib.churn generates changes and fib.updates reads them; give one of the two")


def _check_row(scenario: Scenario, row: Row, where: str) -> None:
    _check_sections(sections(scenario, row), where)
    for figure, role in row.roles.items():
        if figure not in FIGURES:
            raise UserError(f"{where}: roles.{figure} is no figure; {did_you_mean(figure, FIGURES)}")
        if role not in ROLES:
            raise UserError(f"{where}: roles.{figure} = {role!r} is no role; {did_you_mean(role, ROLES)}")
    if row.published is not None:
        if scenario.published is None:
            raise UserError(
                f'{where}: published = "{row.published}" needs the scenario to name its table (published = "olsson-2007")'
            )
        published_row(scenario.published, row.published, where)


def _check_sections(found: Sections, where: str) -> None:
    traffic, box, measure = found
    at_least_one = {
        "traffic.flows": traffic.flows,
        "traffic.flow_length": traffic.flow_length,
        "traffic.senders": traffic.senders,
        "traffic.packet_bytes": traffic.packet_bytes,
        "box.hz": box.hz,
        "box.poll": box.poll,
        "box.budget": box.budget,
        "box.rx_ring": box.rx_ring,
    }
    for key, number in at_least_one.items():
        if number < 1:
            raise UserError(f"{where}: {key} must be at least 1, got {number}")
    if not 0 <= box.interrupt_rate <= 1_000_000:
        raise UserError(f"{where}: box.interrupt_rate must be from 0 (no moderation) to 1000000 a second, got {box.interrupt_rate}")
    rate = traffic.offered_kpps
    if not 0 < rate < float("inf"):
        raise UserError(f"{where}: traffic.offered_kpps must be more than 0 thousand packets per second, got {rate:g}")
    if rate > MOST_KPPS:
        raise UserError(
            f"{where}: traffic.offered_kpps = {rate:g} is beyond any link; it counts thousands of packets per second, "
            f"so write {rate / 1000:g} for {rate:g} packets per second"
        )
    positive = {
        "measure.window_s": measure.window_s,
        "measure.window_limit_s": measure.window_limit_s,
        "measure.series_s": measure.series_s,
    }
    for key, seconds in positive.items():
        if not 0 < seconds < float("inf"):
            raise UserError(f"{where}: {key} must be more than 0 seconds, got {seconds:g}")
    not_negative = {
        "measure.fill_s": measure.fill_s,
        "measure.settle_s": measure.settle_s,
        "measure.warm_up_s": measure.warm_up_s,
    }
    for key, seconds in not_negative.items():
        if not 0 <= seconds < float("inf"):
            raise UserError(f"{where}: {key} must be 0 seconds or more, got {seconds:g}")
    if traffic.family == 6:
        raise UserError(f"{where}: traffic.family = 6: IPv6 packets and tables are read, but no slow path forwards them yet; use 4")
    for key, value, options in (
        ("traffic.family", str(traffic.family), ("4", "6")),
        ("traffic.source", traffic.source, (*FILES, *KINDS)),
        ("traffic.start", traffic.start, ("staggered", "synchronous")),
        ("box.tx_completion_cpu", box.tx_completion_cpu, ("same", "other")),
    ):
        if value not in options:
            raise UserError(f"{where}: {key} must be {' or '.join(options)}, got {value!r}; {did_you_mean(value, options)}")
    _check_kind(traffic, where)
    try:
        ipaddress.IPv4Network(traffic.destination)
    except ValueError as error:
        raise UserError(f"{where}: traffic.destination must be an IPv4 prefix such as 10.0.0.0/8; {error}") from None


def check_rows(scenario: Scenario) -> None:
    """Refuse unknown structures and parameters that a structure does not take. Imports the structures."""
    from sim.structures import check_parameters, check_structure_name

    for row in scenario.row:
        check_structure_name(row.structure, f"row {row.name}: ")
    for row in scenario.row:
        check_parameters(row.structure, row.parameters, f"row {row.name}: ")


def with_settings(scenario: Scenario, settings: tuple[str, ...]) -> Scenario:
    """The scenario with every `section.key=value` applied; `structure.*` goes to the rows whose structure has the parameter."""
    for setting in settings:
        path, equals, text = setting.partition("=")
        section, dot, key = path.strip().partition(".")
        if not equals:
            raise UserError(f"--set {setting}: write SECTION.KEY=VALUE, for example structure.rhash_entries=65536")
        if not dot and section in ("machine", "costs"):
            scenario = msgspec.structs.replace(scenario, **{section: text.strip()})
            continue
        if section not in (*_SECTIONS, "structure") or not key:
            known = ", ".join(f"{name}.KEY" for name in ("structure", *_SECTIONS))
            raise UserError(
                f"--set {setting}: unknown section {section!r}; {did_you_mean(section, ('structure', *_SECTIONS))} (of {known})"
            )
        from sim.structures import parse_value

        value = parse_value(text.strip())
        if section == "structure":
            scenario = _set_parameter(scenario, key, value, setting)
        else:
            scenario = _set_section(scenario, section, key, value)
    return check_scenario(scenario, "--set") if settings else scenario


_SECTIONS: dict[str, Any] = {"traffic": Traffic, "box": Box, "fib": Fib, "measure": Measure}


def _set_section(scenario: Scenario, section: str, key: str, value: Any) -> Scenario:
    merged = _overlay(getattr(scenario, section), {key: value}, _SECTIONS[section], f"--set {section}")
    if section == "traffic" and merged.source in FILES and key not in OF_CAPTURES:
        raise UserError(
            f"--set traffic.{key} has no effect on files, whose packets are what they are; of these you can set: "
            f"{', '.join(f'traffic.{name}' for name in OF_CAPTURES)}"
        )
    rows = scenario.row
    if section != "fib":
        rows = [
            msgspec.structs.replace(row, **{section: getattr(row, section) | {key: value}}) if key in getattr(row, section) else row
            for row in scenario.row
        ]
    return msgspec.structs.replace(scenario, **{section: merged, "row": rows})


def _set_parameter(scenario: Scenario, key: str, value: Any, setting: str) -> Scenario:
    from dataclasses import fields

    from sim.structures import find_structure

    known: dict[str, set[str]] = {
        row.structure: {f.name for f in fields(find_structure(row.structure).Params)} for row in scenario.row
    }
    if not any(key in names for names in known.values()):
        every = sorted(set().union(*known.values()))
        raise UserError(f"--set {setting}: no structure of this scenario has the parameter {key!r}; {did_you_mean(key, every)}")
    rows = [
        msgspec.structs.replace(row, parameters=row.parameters | {key: value}) if key in known[row.structure] else row
        for row in scenario.row
    ]
    return msgspec.structs.replace(scenario, row=rows)
