"""`dstlab check` and `dstlab calibrate`."""

from __future__ import annotations

import click

from models.interface import FlowCache, World, make_params
from sim.errors import UserError
from sim.load import load_scenario
from sim.structures import find_structure
from sim.toml_input import looks_like_path


def check_command(spec: str, seed: int) -> None:
    """Run the conformance checks on a structure. Raises UserError with what is wrong."""
    from models.conformance import ConformanceError, check_flow_cache

    found = find_structure(spec)
    params = make_params(found, {})

    def factory(world: World) -> FlowCache:
        return found(params, world)

    try:
        report = check_flow_cache(factory, seed=seed)
    except ConformanceError as error:
        raise UserError(str(error)) from error
    except SystemExit as error:
        raise UserError(f"{spec} ended the program (sys.exit); a structure must not") from error
    for line in report.checks:
        click.echo(f"  {line}")
    click.echo(
        f"{report.structure} does what a structure must do ({report.packets:,} packets, log of {report.smallest_log} and more)"
    )


def calibrate_command(name: str, seed: int | None, rounds: int, quiet: bool) -> None:
    """Fit the constants of a scenario's cost sheet again, write them into the sheet and print what came out. Raises UserError."""
    scenario = load_scenario(name)
    from sim.calibrate import TRIE, VANILLA, calibrate

    missing = [row for row in (*VANILLA, TRIE) if row not in {row.name for row in scenario.row}]
    if missing or scenario.published is None:
        raise UserError(f"{name} cannot be fitted: it lacks the published rows {', '.join(missing or VANILLA)}; try olsson-2007")
    if looks_like_path(scenario.costs):
        raise UserError(f"{name} has a cost sheet of its own ({scenario.costs}); only sheets of the project are fitted")

    def report(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    fit = calibrate(scenario, scenario.seed if seed is None else seed, rounds, report)
    click.echo(f"cost sheet {scenario.costs}: {fit.constants} constants fitted to {fit.figures} figures")
    click.echo(f"memory latency {fit.memory_ns:.1f} ns")
    for function, cycles in fit.cycles.items():
        click.echo(f"{function:34}{cycles:>9.1f} cycles a call")
    for note in fit.notes:
        click.echo(note)
