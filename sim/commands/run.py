"""`dstlab run` and `dstlab replay`: a scenario becomes a result, and the result is printed and written."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from sim.errors import UserError
from sim.load import check_rows, check_scenario, load_scenario, with_settings
from sim.result import RunResult, to_json
from sim.scenario import Fib, Measure, Row, Scenario, Traffic

EVERY_STRUCTURE = ("rt_hash", "unicache", "perfect", "none")
"""What a capture is replayed through when nobody says otherwise."""


DEFAULT_KPPS = 1000.0
"""Pace of a replay when nobody says otherwise: about twice what one CPU of the default machine forwards, so that rows differ."""


LONGEST_GAP_S = 600.0
"""A gap of the capture that is longer is shortened to this: by then every idle entry is gone (rt_hash's gc_timeout is 300 s)."""


def run_command(name: str, **options: Any) -> None:
    """Run a scenario by name or from a file."""
    _run(load_scenario(name), None, **options)


def replay_command(
    files: tuple[str, ...],
    *,
    structures: tuple[str, ...],
    machine: str | None,
    costs: str | None,
    rate: float | None,
    as_captured: bool,
    flow_records: bool,
    columns: str | None,
    inner: bool,
    strict: bool,
    speed: float | None,
    longest_gap: float | None,
    repeat: int,
    warm_up: float,
    fib: str | None,
    updates: str | None,
    peer: str | None,
    settings: tuple[str, ...],
    **options: Any,
) -> None:
    """Run a scenario made up of captures (or flow records) and structures."""
    if rate is not None and as_captured:
        raise UserError("--rate and --as-captured exclude each other; leave one of them out")
    if not as_captured and (speed is not None or longest_gap is not None):
        raise UserError("--speed and --longest-gap change the times of the files; add --as-captured")
    if columns is not None and not flow_records:
        raise UserError("--columns names the columns of flow records; add --flow-records")
    traffic = Traffic(
        source="flow-records" if flow_records else "capture",
        options={"columns": parse_columns(columns)} if columns is not None else {},
        files=list(files),
        inner=inner,
        strict=strict,
        as_captured=as_captured,
        speed=1.0 if speed is None else speed,
        longest_gap_s=(LONGEST_GAP_S if longest_gap is None else longest_gap) if as_captured else None,
        repeat=repeat,
        senders=1,
        offered_kpps=DEFAULT_KPPS if rate is None else rate,
    )
    routes = Fib(file=fib, updates=updates, peer=peer)
    scenario = with_settings(replay_scenario(traffic, routes, warm_up, structures, machine, costs), settings)
    _check_files(scenario)
    check_rows(scenario)
    from sim.experiments.replay import survey

    survey(scenario, scenario.traffic, scenario.seed)  # what is damaged or empty is said before anything is run
    _run(msgspec.structs.replace(scenario, title=replay_title(scenario)), None, settings=(), **options)


def parse_columns(text: str) -> dict[str, str]:
    """FIELD=COLUMN,... as a dictionary. Raises UserError."""
    found: dict[str, str] = {}
    for pair in text.split(","):
        field, equals, column = pair.partition("=")
        if not equals or not field.strip() or not column.strip():
            raise UserError(f"--columns {text}: write FIELD=COLUMN,..., for example source=srcaddr,destination=dstaddr,start=first")
        found[field.strip()] = column.strip()
    return found


def _check_files(scenario: Scenario) -> None:
    """Refuse at once what is no capture, no routing table and no file of updates."""
    from traces.capture import open_captures
    from traces.capture_file import READ_AGAIN
    from traces.content import refuse_pipe

    traffic, fib = scenario.traffic, scenario.fib
    if fib.file is not None or fib.updates is not None:
        from sim.routing import make_churn, make_table

        make_churn(fib, make_table(fib, traffic.family, scenario.seed), scenario.seed, 1.0)
    for path in traffic.files:
        if path == "-":
            raise UserError(f"{path} is a pipe, and {READ_AGAIN}")
        refuse_pipe(path, READ_AGAIN)
    if traffic.source == "capture":
        getattr(open_captures(traffic.files, family=traffic.family, inner=traffic.inner), "close", lambda: None)()


def replay_scenario(
    traffic: Traffic, fib: Fib, warm_up: float, structures: tuple[str, ...], machine: str | None, costs: str | None
) -> Scenario:
    """The scenario that `dstlab replay` runs. Raises UserError."""
    from sim.structures import parse_structure

    rows = []
    for argument in structures or EVERY_STRUCTURE:
        spec, parameters = parse_structure(argument)
        rows.append(Row(name=argument, structure=spec, parameters=parameters))
    scenario = Scenario(name="replay", traffic=traffic, fib=fib, measure=Measure(warm_up_s=warm_up), row=rows)
    if machine is not None:
        scenario = msgspec.structs.replace(scenario, machine=machine)
    if costs is not None:
        scenario = msgspec.structs.replace(scenario, costs=costs)
    return check_scenario(scenario, "replay")


def replay_title(scenario: Scenario) -> str:
    """What is replayed, how fast and with which routes, in three lines."""
    traffic, fib = scenario.traffic, scenario.fib
    files = ", ".join(traffic.files) if len(traffic.files) <= 4 else f"{len(traffic.files)} files"
    if traffic.as_captured:
        speed = f", {traffic.speed:g} times as fast" if traffic.speed != 1.0 else ""
        gap = f", gaps of {traffic.longest_gap_s:g} s at most" if traffic.longest_gap_s is not None else ""
        pace = f"packets at the times of the capture{speed}{gap} (--rate KPPS sends them evenly)"
    else:
        pace = f"packets sent evenly at {traffic.offered_kpps:,g} kpps (--rate KPPS or --as-captured sets the pace)"
    if fib.file is not None:
        routes = f"routes of {fib.file}"
    else:
        routes = f"{fib.prefixes:,} generated routes inside 10.0.0.0/8 and a default route (--fib FILE gives your own)"
    if fib.updates is not None:
        routes += f", changed as in {fib.updates} from the first packet on"
    what = "the packets inside tunnels of " if traffic.inner else ""
    times = f", {traffic.repeat} times" if traffic.repeat > 1 else ""
    warm = f", the first {scenario.measure.warm_up_s:g} s not counted" if scenario.measure.warm_up_s else ""
    return f"replay of {what}{files}{times}: one CPU, once, from an empty structure{warm}\n{pace}\n{routes}"


def _run(
    scenario: Scenario,
    runner: str | None,
    *,
    quick: bool,
    quiet: bool,
    profile: bool,
    residuals: bool,
    series: bool,
    seeds: int,
    seed: int | None,
    settings: tuple[str, ...],
    out: str | None,
    json_file: str | None,
    form: str,
    jobs: int | None,
) -> None:
    from sim.progress import make_display
    from sim.result_folder import prepare_folder, write_result
    from sim.run import Interrupted, run_scenario

    scenario = with_settings(scenario, settings)
    if out is not None:
        prepare_folder(Path(out))
    if json_file not in (None, "-"):
        prepare_json(Path(str(json_file)))
    first = scenario.seed if seed is None else seed
    chosen = [first + n for n in range(seeds)]
    interrupted = False
    with make_display(quiet, len(scenario.row) * seeds) as display:
        try:
            result = run_scenario(
                scenario, seeds=chosen, quick=quick, jobs=jobs or available_cores(), on_progress=display, runner=runner
            )
        except Interrupted as stop:
            result, interrupted = stop.result, True
    _print(result, json_file, form, profile, residuals, series)
    if out is not None and (result.rows or not interrupted):
        write_result(result, Path(out))
    if interrupted:
        raise KeyboardInterrupt


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare_json(path: Path) -> None:
    """Refuse a file that cannot be written before anything is run."""
    if path.is_dir():
        raise UserError(f"--json {path} is a directory; name a file, or - for stdout")
    if not path.parent.is_dir():
        raise UserError(f"--json {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"--json {path}: no permission to write in {path.parent}; choose a place that you may use")


def _print(result: RunResult, json_file: str | None, form: str, profile: bool, residuals: bool, series: bool) -> None:
    from sim.report import as_csv, as_rtstat, table
    from sim.report_profile import profiles
    from sim.result import exchange_form
    from sim.result_folder import series_csv, write_file

    if json_file == "-":
        sys.stdout.write(to_json(exchange_form(result)).decode())
        return
    if form == "csv":
        click.echo(as_csv(result), nl=False)
    elif form == "rtstat":
        click.echo(as_rtstat(result, series), nl=False)
    else:
        click.echo(table(result), nl=False)
    if profile:
        click.echo("\n" + profiles(result, False), nl=False)
    if residuals:
        click.echo("\n" + profiles(result, True), nl=False)
    if series and form != "rtstat":
        click.echo("\n" + series_csv(result.rows), nl=False)
    if json_file is not None:
        write_file(Path(json_file), to_json(exchange_form(result)))
