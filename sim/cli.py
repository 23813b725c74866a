"""The command line: options, and the one place where errors become sentences.

What a user can mend (UserError, and any other ValueError, OSError or MemoryError) is said in one line on stderr with exit status 2;
Ctrl-C gives 130; any other exception is a bug and keeps its traceback. `dstlab --debug COMMAND` keeps every traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from sim.errors import sentence

EXIT_USER_ERROR = 2
EXIT_BROKEN_PIPE = 1  # whoever read our output has seen enough; as click has it
EXIT_INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Keep the traceback of every error.")
@click.version_option(package_name="dstlab", prog_name="dstlab")
def cli(debug: bool) -> None:
    """Which lookup structure, on which machine, under which traffic?

    dstlab replays traffic through real lookup structures, prices every touch of memory on an emulated machine and prints
    the result beside the published measurement.
    """


def _run_options(command: Any) -> Any:
    """Options that run and replay share."""
    for option in reversed(
        (
            click.option("--quick", is_flag=True, help="One tenth of the size, in a few seconds; not for comparison."),
            click.option("--quiet", is_flag=True, help="No progress on stderr."),
            click.option("--profile", is_flag=True, help="Cycles per packet by function, simulated and published."),
            click.option("--residuals", is_flag=True, help="Where the profile differs from the published one, largest first."),
            click.option("--series", is_flag=True, help="The time series of every row, as CSV."),
            click.option("--seeds", type=click.IntRange(1), default=1, metavar="N", help="N seeds: mean and 95 % interval."),
            click.option("--seed", type=click.IntRange(0), metavar="N", help="The (first) seed; the scenario has a default."),
            click.option(
                "--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="structure, traffic, box, fib, measure."
            ),
            click.option("--out", type=click.Path(), metavar="DIR", help="Write result.json and series.csv into DIR."),
            click.option(
                "--json", "json_file", type=click.Path(allow_dash=True), metavar="FILE|-", help="Figures as JSON; - for stdout."
            ),
            click.option("--format", "form", type=click.Choice(["table", "csv", "rtstat"]), default="table", show_default=True),
            click.option("--jobs", type=click.IntRange(1), metavar="N", help="Rows run side by side; default: one for each core."),
        )
    ):
        command = option(command)
    return command


@cli.command()
@click.argument("scenario", metavar="NAME|FILE.toml")
@_run_options
def run(scenario: str, **options: Any) -> None:
    """Run a scenario and print its table beside the published one. `dstlab list` names them."""
    from sim.commands.run import run_command

    run_command(scenario, **options)


@cli.command()
@click.argument("files", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("--structure", "structures", multiple=True, metavar="NAME[,KEY=VALUE]...|FILE.py:CLASS", help="Repeat to compare.")
@click.option(
    "--fib", "--routes", "fib", metavar="FILE", help="Routing table: PREFIX [NEXTHOP] lines, ip route, show ip route, pyasn, MRT."
)
@click.option("--updates", metavar="FILE", help="Changes of routes: a BGP collector's MRT updates, from the first packet on.")
@click.option("--peer", metavar="IP", help="Which peer of the collector's files; default: the one with the most routes or updates.")
@click.option("--machine", metavar="NAME", help="A machine that `dstlab list` names, or a TOML file.")
@click.option("--costs", metavar="NAME", help="A cost sheet that `dstlab list` names, or a TOML file.")
@click.option("--rate", type=float, metavar="KPPS", help="Send the packets evenly, so many thousand a second (default: 1000).")
@click.option("--as-captured", is_flag=True, help="Keep the times of the capture.")
@click.option("--speed", type=float, metavar="X", help="As captured, X times as fast.")
@click.option("--longest-gap", type=float, metavar="S", help="As captured, longer gaps are shortened to S seconds (default: 600).")
@click.option("--repeat", type=click.IntRange(1), default=1, metavar="N", help="Everything N times, one after the other.")
@click.option("--warm-up", type=float, default=0.0, metavar="S", help="The first S seconds are run and not counted.")
@click.option("--inner", is_flag=True, help="The packets inside GRE, VXLAN, GTP-U, IP-in-IP and 6in4.")
@click.option("--strict", is_flag=True, help="Refuse a damaged capture; otherwise it is read up to the damage.")
@click.option("--flow-records", is_flag=True, help="The files are flow records (nfdump CSV, Zeek conn.log, a table), not captures.")
@click.option("--columns", metavar="FIELD=COLUMN,...", help="Which column of such a table is which field.")
@_run_options
def replay(files: tuple[str, ...], **options: Any) -> None:
    """Send the packets of captures or flow records through structures: the same table for your own traffic."""
    from sim.commands.run import replay_command

    replay_command(files, **options)


@cli.command()
@click.argument("file", metavar="FILE")
@click.option("--family", type=click.Choice(["4", "6"]), default="4", show_default=True, help="IPv4 or IPv6 routes.")
@click.option("--peer", metavar="IP", help="Of a collector's file with many peers: which one; default: that with the most routes.")
def routes(file: str, family: str, peer: str | None) -> None:
    """What a routing table holds: kind of file, what was left out and why, lengths, next hops, its LC-trie; or its changes."""
    from sim.commands.routes import routes_command

    routes_command(file, family=int(family), peer=peer)


@cli.command("list")
def list_() -> None:
    """Scenarios, structures, machines and cost sheets."""
    from sim.commands.show import list_command

    list_command()


@cli.command()
@click.argument("name")
def show(name: str) -> None:
    """A structure (parameters, defaults, sources, memory layout), a machine, a cost sheet or a scenario."""
    from sim.commands.show import show_command

    show_command(name)


@cli.command()
@click.argument("spec", metavar="NAME|FILE.py:CLASS")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def check(spec: str, seed: int) -> None:
    """Check that a structure does what every structure must do."""
    from sim.commands.check import check_command

    check_command(spec, seed)


@cli.command()
@click.argument("scenario", metavar="NAME|FILE.toml")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="The seed; the scenario has a default.")
@click.option(
    "--rounds", type=click.IntRange(1), default=2, show_default=True, help="A refit changes what is simulated: repeat it."
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def calibrate(scenario: str, seed: int | None, rounds: int, quiet: bool) -> None:
    """Fit the cost sheet's fitted constants again, and say how many were fitted to how many figures. Changes the sheet."""
    from sim.commands.check import calibrate_command

    calibrate_command(scenario, seed, rounds, quiet)


def execute(arguments: Sequence[str]) -> int:
    """Run a command line (without the program's name) and return its exit status."""
    debug = "--debug" in arguments[:1]
    try:
        status = cli.main(list(arguments), prog_name="dstlab", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return EXIT_USER_ERROR
    except click.ClickException as error:
        _say(" ".join(error.format_message().split()))
        return EXIT_USER_ERROR
    except BrokenPipeError:
        _let_go_of_stdout()
        return EXIT_BROKEN_PIPE
    except (ValueError, OSError, MemoryError) as error:
        if debug:
            raise
        _say(sentence(error))
        _let_go_of_stdout()
        return EXIT_USER_ERROR
    return status if isinstance(status, int) else 0


def _let_go_of_stdout() -> None:
    """Where stdout takes no more, send the rest nowhere: Python flushes it once more at exit and would change the exit status."""
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _say(text: str) -> None:
    print(f"dstlab: {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Entry point of the `dstlab` command."""
    sys.exit(execute(sys.argv[1:]))


if __name__ == "__main__":
    main()
