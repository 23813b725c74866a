"""`dstlab check` and `dstlab calibrate`."""

from __future__ import annotations

import click

from models.interface import FlowCache, World, make_params
from sim.errors import UserError
from sim.load import load_scenario
from sim.structures import find_structure


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
    for line in report.checks:
        click.echo(f"  {line}")
    click.echo(
        f"{report.structure} does what a structure must do ({report.packets:,} packets, log of {report.smallest_log} and more)"
    )


def calibrate_command(name: str, quick: bool, quiet: bool) -> None:
    """Fit the constants of a scenario's cost sheet again and print what came out."""
    scenario = load_scenario(name)
    from sim.calibrate import calibrate
    from sim.progress import make_display

    with make_display(quiet, len(scenario.row)) as display:
        lines = calibrate(scenario, quick=quick, progress=display)
    for line in lines:
        click.echo(line)
