"""`dstlab list` and `dstlab show`: what there is, and what each thing is made of."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import click

from models.interface import STRUCTURES, FlowCache, World, make_params
from sim.costs import load_costs
from sim.errors import UserError, did_you_mean
from sim.load import COSTS, MACHINES, SCENARIOS, load_scenario, sections
from sim.machine import load_machine
from sim.structures import find_structure, is_plugin
from sim.toml_input import looks_like_path, names_in, read_toml

SHEETS = {"machine": MACHINES, "cost sheet": COSTS}


def list_command() -> None:
    """Print one line for each scenario, structure, machine and cost sheet."""
    titles: dict[str, list[tuple[str, str]]] = {
        "scenarios (dstlab run NAME)": [(name, load_scenario(name).title) for name in names_in(SCENARIOS)],
        "structures": [(name, find_structure(name).summary) for name in STRUCTURES],
    }
    for what, folder in SHEETS.items():
        titles[f"{what}s"] = [(name, str(read_toml(folder / f"{name}.toml").get("title", ""))) for name in names_in(folder)]
    blocks = []
    for heading, lines in titles.items():
        width = max((len(name) for name, _ in lines), default=0)
        blocks.append("\n".join([f"{heading}:", *(f"  {name:{width}}  {title}".rstrip() for name, title in lines)]))
    click.echo("\n\n".join([*blocks, "dstlab show NAME tells more of each."]))


def show_command(name: str) -> None:
    """Print what a name stands for. Raises UserError for an unknown one."""
    if is_plugin(name) or name in STRUCTURES:
        click.echo(structure_text(find_structure(name)))
    elif looks_like_path(name):
        click.echo(file_text(name))
    elif name in names_in(SCENARIOS):
        click.echo(scenario_text(name))
    else:
        for what, folder in SHEETS.items():
            if name in names_in(folder):
                click.echo("\n".join([f"{what} {name}", *_lines(read_toml(folder / f"{name}.toml"), "  ")]))
                return
        known = [*STRUCTURES, *names_in(SCENARIOS), *names_in(MACHINES), *names_in(COSTS)]
        raise UserError(f"unknown name {name!r}; {did_you_mean(name, known)} (`dstlab list` shows all)")


def file_text(path: str) -> str:
    """A user's own file: a scenario, a machine or a cost sheet, told apart by what only they have. Raises UserError."""
    content = read_toml(path, "scenario, machine or cost sheet")
    if "clock_hz" in content:
        load_machine(path)  # refuses what is wrong with it
        return "\n".join([f"machine {path}", *_lines(content, "  ")])
    if "function" in content:
        load_costs(path)
        return "\n".join([f"cost sheet {path}", *_lines(content, "  ")])
    return scenario_text(path)


def structure_text(found: type[FlowCache]) -> str:
    """Parameters with units, defaults and sources, key parts, and what lies on which cache line."""
    lines = [f"{found.name}: {found.summary}", ""]
    lines.append(f"key: {', '.join(found.key_parts)}; serves IPv{', IPv'.join(map(str, found.families))}")
    if found.cacheless:
        lines.append("caches nothing: every packet takes the slow path")
    params = fields(found.Params)
    lines += ["", "parameters:" if params else "parameters: none"]
    for field in params:
        about: dict[str, Any] = dict(field.metadata)
        unit = f" {about['unit']}" if about.get("unit") else ""
        source = f" [{about['source']}]" if about.get("source") else ""
        lines += [f"  {field.name} = {field.default}{unit}", f"      {about.get('doc', '')}{source}"]
    structure = _instance(found)
    capacity = structure.capacity
    lines += ["", f"capacity: {'no bound' if capacity is None else f'{capacity:,} entries'}"]
    timers = structure.timers()
    lines += [f"timer: {timer.name} every {timer.period_ns / 1e9:g} s" for timer in timers]
    layout = structure.layout()
    if layout:
        lines += ["", "memory:", *(f"  {line}" for line in layout)]
    if found.functions:
        lines += ["", f"charged to: {', '.join(found.functions)}"]
    return "\n".join(lines)


def _instance(found: type[FlowCache]) -> FlowCache:
    import numpy as np

    from models.rcu import Rcu
    from models.simulated_memory import SimulatedMemory

    return found(make_params(found, {}), World(SimulatedMemory(), Rcu(), np.random.default_rng(1)))


def scenario_text(name: str) -> str:
    """A scenario's rows with what each runs with."""
    scenario = load_scenario(name)
    lines = [
        f"{scenario.name}: {scenario.title}",
        f"machine {scenario.machine}, costs {scenario.costs}, seed {scenario.seed}"
        + (f", compared with {scenario.published}" if scenario.published else ""),
    ]
    for row in scenario.row:
        traffic, box, _ = sections(scenario, row)
        parameters = "".join(f", {key}={value}" for key, value in row.parameters.items())
        lines += [
            "",
            f"{row.name}: {row.structure}{parameters}" + (f" (published: {row.published})" if row.published else ""),
            f"  {traffic.senders} x {traffic.flows:,} flows of length {traffic.flow_length} to {traffic.destination}, "
            f"{traffic.offered_kpps:g} kpps offered, {traffic.start} start{', end marks' if traffic.end_mark else ''}",
            f"  polls of {box.poll}, budget {box.budget}, rings of {box.rx_ring}, HZ {box.hz}"
            f"{', resolve path' if box.resolve_path else ''}, completion on the {box.tx_completion_cpu} CPU",
        ]
        lines += [f"  late in a long run: {key} = {value:g}" for key, value in row.late.items()]
        if row.adjust:
            lines.append(f"  packet path adjusted: {row.adjust}")
        if row.roles:
            lines.append(f"  {', '.join(f'{figure} {role}' for figure, role in row.roles.items())}")
    return "\n".join(lines)


def _lines(value: Any, indent: str) -> list[str]:
    """Nested TOML data, indented; a value with its source on one line."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict) and set(item) == {"value", "source"}:
            lines.append(f"{indent}{key} = {item['value']}  [{item['source']}]")
        elif isinstance(item, dict):
            lines += [f"{indent}{key}:", *_lines(item, indent + "  ")]
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            for entry in item:
                lines += [f"{indent}{key}:", *_lines(entry, indent + "  ")]
        else:
            lines.append(f"{indent}{key} = {item}")
    return lines
