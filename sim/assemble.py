"""From a scenario's row to a box that is ready to run: structure, sources, FIB, memory, prices, each with its own random stream.

Every random stream is keyed by the scenario's seed, the row's name and the component, so that rows do not depend on each other,
on their order or on the number of workers. Rows with the same traffic see the same packets: a source is keyed by its traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from models.access import make_log
from models.drive import drive
from models.flow import make_batch
from models.interface import Context, FlowCache, World, make_params
from models.kernel import Standing
from models.rcu import Rcu
from models.simulated_memory import SimulatedMemory
from sim.account import SUM, Ledger, account_loop, make_ledger
from sim.box import Box
from sim.costs import CostSheet, load_costs, make_tariff
from sim.load import FILES, Sections, sections
from sim.machine import Machine, load_machine
from sim.made_traffic import made_sources
from sim.memory import latency_vector
from sim.pricer import Pricer
from sim.published import load_published
from sim.routing import make_routing, make_table
from sim.scenario import Fib, Measure, Row, Scenario, Traffic
from sim.streams import stream
from sim.structures import find_structure
from traces.capture import open_captures
from traces.expand import open_flow_records
from traces.retime import RetimedSource
from traces.routes import RouteTable
from traces.source import Source

QUICK = 10
"""`--quick` divides flows, tables and durations by this."""

SCALED = ("rhash_entries", "gc_thresh", "gc_goal", "max_size", "capacity")
"""Structure parameters that count entries: a quick run scales them, to a power of two where the whole value is one."""


@dataclass
class Assembly:
    """Everything one row needs."""

    box: Box
    found: Sections
    machine: Machine
    sheet: CostSheet
    parameters: dict[str, Any]  # effective, of the structure
    notes: list[str]

    @property
    def structure(self) -> FlowCache:
        return self.box.structure


def quick_parameters(values: dict[str, Any]) -> dict[str, Any]:
    """A structure's parameters at a tenth of the size."""
    scaled = dict(values)
    for name in SCALED:
        value = values.get(name, 0)
        if isinstance(value, int) and value > QUICK:
            power = 1 << (max(1, value // QUICK).bit_length() - 1)
            scaled[name] = power if value & (value - 1) == 0 else value // QUICK
    return scaled


def _tenth(values: dict[str, Any]) -> dict[str, Any]:
    """Keys of traffic at a tenth of the size: flows, and the buckets that collisions aim at, as many as rt_hash has then."""
    scaled = dict(values)
    if "flows" in scaled:
        scaled["flows"] = max(1, int(scaled["flows"]) // QUICK)
    if "buckets" in scaled:
        scaled["buckets"] = quick_parameters({"rhash_entries": scaled["buckets"]})["rhash_entries"]
    return scaled


def quick_sections(found: Sections) -> Sections:
    """Traffic and durations at a tenth of the size."""
    measure, traffic = found.measure, found.traffic
    parts = [_tenth(part) | {"options": _tenth(part.get("options", {}))} for part in traffic.parts]
    options = _tenth(traffic.options)
    return Sections(
        msgspec.structs.replace(traffic, flows=max(1, traffic.flows // QUICK), parts=parts, options=options),
        found.box,
        msgspec.structs.replace(
            measure,
            fill_s=measure.fill_s / QUICK,
            settle_s=measure.settle_s / QUICK,
            window_s=measure.window_s / QUICK,
            window_limit_s=measure.window_limit_s / QUICK,
            series_s=measure.series_s / QUICK,
        ),
    )


def make_sources(
    traffic: Traffic, seed: int, most: int | None = None, table: Callable[[], RouteTable] | None = None
) -> list[Source]:
    """The packet sources of a row. Files are one source, merged in order of time; `most` ends it after so many packets.

    `table` gives the routing table, for traffic whose destinations are drawn from it. ValueError.
    """
    if traffic.source not in FILES:
        return made_sources(traffic, seed, table or (lambda: make_table(Fib(), traffic.family, seed)))

    def open_files() -> Source:
        if traffic.source == "flow-records":
            return open_flow_records(traffic.files, family=traffic.family, **traffic.options)
        return open_captures(traffic.files, family=traffic.family, inner=traffic.inner, strict=traffic.strict)

    rate = None if traffic.as_captured else traffic.offered_kpps
    gap = traffic.longest_gap_s if traffic.as_captured else None
    return [RetimedSource(open_files, rate, most, speed=traffic.speed, longest_gap_s=gap, repeat=traffic.repeat)]


def adjustment_factors(sheet: CostSheet, scenario: Scenario, row: Row, flow_length: int) -> dict[str, float]:
    """Factors of a row's packet-path adjustment: the ratio of two published boots at the *other* flow length.

    So no row is scaled by its own profile. Functions that one of the two profiles does not list stay as they are.
    """
    if row.adjust is None:
        return {}
    for adjustment in sheet.adjustment:
        if adjustment.name == row.adjust:
            break
    else:
        known = ", ".join(a.name for a in sheet.adjustment) or "none"
        raise ValueError(f"row {row.name}: the cost sheet {sheet.name} has no adjustment {row.adjust!r}; it has: {known}")
    if scenario.published is None:
        raise ValueError(f"row {row.name}: adjust = {row.adjust!r} needs the scenario to name its published table")
    rows = load_published(scenario.published)
    others = sorted({found.flow_length for found in rows.values()} - {flow_length})
    if len(others) != 1:
        raise ValueError(f"row {row.name}: adjust needs exactly one other published flow length, found {others}")
    dearer = rows[f"{others[0]}/{adjustment.numerator}"].profile
    cheaper = rows[f"{others[0]}/{adjustment.denominator}"].profile
    return {name: dearer[name] / cheaper[name] for name in adjustment.functions if name in dearer and name in cheaper}


def longest_run(measure: Measure) -> float:
    """Simulated seconds that a row may take, whatever its warm-up and window turn out to need."""
    return 1.5 * measure.fill_s + measure.settle_s + 2 * max(measure.window_limit_s, measure.window_s) + 1


def assemble(
    scenario: Scenario,
    row: Row,
    seed: int,
    *,
    quick: bool = False,
    sources: list[Source] | None = None,
    seconds: float | None = None,
) -> Assembly:
    """Build a row. ValueError in one sentence for what cannot work; nothing is simulated yet.

    `seconds`: how long routes change, if the scenario generates changes; by default as long as the row can take.
    """
    found = sections(scenario, row)
    parameters = dict(row.parameters)
    if quick:
        found = quick_sections(found)
    cls = find_structure(row.structure)
    params = make_params(cls, parameters)
    effective = msgspec.to_builtins(params)
    if quick:
        effective = quick_parameters(effective)
        params = make_params(cls, effective)
    machine, sheet = load_machine(scenario.machine), load_costs(scenario.costs)
    family = found.traffic.family
    table = make_table(scenario.fib, family, seed)
    if sources is None:
        sources = make_sources(found.traffic, seed, table=lambda: table)
    cpus = len(sources)
    if cpus > int(machine.cpus):
        raise ValueError(f"{machine.name} has {int(machine.cpus)} CPUs, {cpus} senders need one each; set traffic.senders")
    if family not in cls.families:
        only = " and ".join(f"IPv{served}" for served in cls.families)
        raise ValueError(f"row {row.name}: {cls.name} serves {only} only; leave the row out, or set traffic.family")
    world = World(SimulatedMemory(), Rcu(cpus, found.box.hz), stream(seed, row.name, "structure"), cpus, found.box.hz)
    structure = cls(params, world)
    routing = make_routing(scenario.fib, table, seed, longest_run(found.measure) if seconds is None else seconds)
    slow_path = routing.slow_path(world)
    scale = adjustment_factors(sheet, scenario, row, found.traffic.flow_length)
    fitted = sheet.memory_latency
    memory_ns = fitted.ns if fitted is not None and fitted.machine in (None, machine.name) else None
    tariff = make_tariff(sheet, structure, latency_vector(machine, memory_ns), resolve_path=found.box.resolve_path, scale=scale)
    pricer = Pricer(machine, sheet, tariff, slow_path, world, found.box, cpus)
    box = Box(structure, world, routing.truth, sources, found.box, pricer, live=routing.live(structure, slow_path))
    own = scenario.fib.file is not None or scenario.fib.updates is not None
    return Assembly(box, found, machine, sheet, effective, routing.notes() if own else [])


def lossfree_checksum(scenario: Scenario, row: Row, seed: int, *, quick: bool, packets: int = 65536) -> str:
    """Checksum over (packet index, route) of a row's first packets, without loss; equal for all that answer correctly."""
    return checksum_of(lossfree(assemble(scenario, row, seed, quick=quick), packets))


def checksum_of(ledger: Ledger) -> str:
    """A ledger's checksum as it stands in results."""
    return f"{int(ledger.total[SUM]):08x}"


def lossfree(assembly: Assembly, packets: int) -> Ledger:
    """What becomes of the first packets of the traffic, to whole batches, if none is lost and the structure is empty at first.

    Unpriced; what waits to be freed is freed after every batch, so that no small table is full of it.
    """
    box = assembly.box
    ledger, log, batch = make_ledger(), make_log(1, 256, on=False), make_batch(256, box.sources[0].words)
    account = Standing(account_loop, 4)
    for _ in range(-(-packets // (256 * len(box.sources)))):
        for cpu, source in enumerate(box.sources):
            if source.fill(batch) == 0:
                continue
            box.truth.resolve(batch)
            context = Context(int(batch.time[0]), cpu, log, box.world)
            drive(box.structure, batch, context, lambda log, first, stop: None)
            account((ledger, batch, log), 0, int(batch.packets[0]), context.now, context.now)
            context.now += box.world.rcu.grace_ns
            while box.structure.reclaim(int(batch.packets[0]), context):
                pass
    return ledger
