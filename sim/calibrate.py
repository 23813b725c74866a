"""Calibration: fits the constants of a cost sheet that its file marks as fitted, and says to how many figures.

What is fitted to what, for `olsson-2007`:

- memory latency and the instruction cycles of ip_route_input: two constants, to ip_route_input's cycles per packet in the
  profiles of rt_hash 32k at lengths 40 and 4; the instruction cycles stay between LEAST_LOOKUP and MOST_LOOKUP, the latency
  takes the rest;
- instruction cycles of every other function that these two profiles list: one constant each, to one or two figures each; what
  a function's simulated touches already cost is taken off, and nothing goes below 0;
- other_per_packet and other_slow_path: what the two profiles do not list, as a line in the slow share through both totals;
- the functions of unicache's lookup, and kfree and kmem_cache_alloc behind it (it allocates for every packet, it seems): one
  constant each, to the profile of unicache at length 40; what that profile does not list is put on its slow path, because all
  that unicache does for every packet is dear enough to be listed;
- the offered load at length 4: one constant, to three shares of the slow path (sim/calibrate_offered.py).

Figures are compared at the published share of the slow path: mean costs of hits and of slow-path packets as simulated, weighted
with the published share. The box runs closed-loop with the present sheet, so a refit is repeated until it no longer moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from models.functions import number
from sim.assemble import Assembly, assemble
from sim.calibrate_offered import fit_offered, write_offered
from sim.costs import UNIT, CostSheet, load_costs
from sim.experiments.forwarding import Window, warm_up
from sim.load import COSTS
from sim.memory import MEMORY
from sim.published import PublishedRow, published_row
from sim.scenario import Row, Scenario

VANILLA = ("rt_hash-32k-L40", "rt_hash-32k-L4")
TRIE = "unicache-L40"
LATENCY_ON = "ip_route_input"
LEAST_LOOKUP, MOST_LOOKUP = 20.0, 160.0
TRIE_LOOKUP = (
    "trie_lookup", "tkey_extract_bits", "tkey_equals", "unicache_tcp_establish", "match_pktgen", "unicache_garbage_collect_active",
    "ip_route_input@unicache",
)  # fmt: skip
TRIE_PATH = ("kfree@unicache", "kmem_cache_alloc@unicache")
OTHERS = ("other_per_packet", "other_slow_path")


@dataclass
class Measured:
    """One simulated row and the published one, at the published share of the slow path."""

    row: Row
    published: PublishedRow
    assembly: Assembly
    window: Window

    def __post_init__(self) -> None:
        added, share = self.window.added, self.published.figures["slow_share"]
        bill = self.assembly.box.pricer.bill
        weights = ((1 - share) / max(1, added.hits), share / max(1, added.slow))
        self.touches = weights[0] * bill.touches[0] + weights[1] * bill.touches[1]  # per packet, float[functions, classes]
        tariff = self.assembly.box.pricer.tariff
        # Calls by plane are not kept; what instructions cost by plane gives them back.
        stall = (bill.touches * tariff.latency).sum(axis=2)
        instructions = weights[0] * (bill.cycles[0] - stall[0]) + weights[1] * (bill.cycles[1] - stall[1])
        each = np.where(tariff.cycles > 0, tariff.cycles, 1)
        by_cycles = instructions / each
        all_calls = bill.calls / UNIT / max(1, added.hits + added.slow)
        self.calls = np.where(tariff.cycles > 0, by_cycles, all_calls)  # per packet

    def latency(self, memory_ns: float) -> np.ndarray:
        """The tariff's latencies with another one for lines from memory, 1/1024 cycle by class."""
        changed: np.ndarray = self.assembly.box.pricer.tariff.latency.copy()
        changed[2 * MEMORY : 2 * MEMORY + 2] = self.assembly.machine.cycles(memory_ns)
        return changed

    def stall(self, function: int, memory_ns: float) -> float:
        """Cycles per packet that the touches of a function cost with that memory latency."""
        return float(self.touches[function] @ self.latency(memory_ns)) / UNIT

    def simulated(self, cycles: dict[str, float], memory_ns: float, leave_out: set[str]) -> float:
        """Cycles per packet of all functions but some, at so many instruction cycles a call."""
        skipped = {number(name) for name in leave_out}
        total = sum(self.stall(f, memory_ns) for f in range(self.touches.shape[0]) if f not in skipped)
        return total + sum(own * float(self.calls[number(name)]) for name, own in cycles.items() if name not in leave_out)

    @property
    def published_cycles(self) -> float:
        """Cycles per packet of the published row, all CPUs being busy."""
        cpus, clock_hz = len(self.assembly.box.sources), int(self.assembly.machine.clock_hz)
        return cpus * clock_hz / (self.published.figures["total_kpps"] * 1000)


@dataclass
class Fit:
    """What a calibration found."""

    cycles: dict[str, float] = field(default_factory=dict)  # function, or function@structure -> instruction cycles of one call
    memory_ns: float = 0.0
    constants: int = 0
    figures: int = 0
    notes: list[str] = field(default_factory=list)


def measure(scenario: Scenario, name: str, seed: int, report: Callable[[str], None]) -> Measured:
    """Simulate one row of the scenario to the end of its window."""
    row = next(row for row in scenario.row if row.name == name)
    assert scenario.published is not None
    assert row.published is not None
    assembly = assemble(scenario, row, seed)
    window, _ = warm_up(assembly, row, seed, lambda phase, done: None)
    report(f"{name}: {window.added.processed} packets")
    return Measured(row, published_row(scenario.published, row.published, name), assembly, window)


def fit_latency(rows: list[Measured], fit: Fit) -> None:
    """Memory latency and the instructions of ip_route_input, to that function in both profiles."""
    f = number(LATENCY_ON)
    lines, rest, calls, wanted = [], [], [], []
    for found in rows:
        lines.append(float(found.touches[f, 2 * MEMORY : 2 * MEMORY + 2].sum()))
        rest.append(found.stall(f, 0.0))
        calls.append(float(found.calls[f]))
        wanted.append(found.published.profile[LATENCY_ON])
    a = np.array([lines, calls]).T
    b = np.array(wanted) - np.array(rest)
    scale = 1 / np.array(wanted)  # relative errors count
    (per_line, own), *_ = np.linalg.lstsq(a * scale[:, None], b * scale, rcond=None)
    held = float(np.clip(own, LEAST_LOOKUP, MOST_LOOKUP))
    if held != own:
        fit.notes.append(
            f"{LATENCY_ON}: instruction cycles would be {own:.0f}, held at {held:.0f}; the latency is fitted to the rest"
        )
        rest_b = (b - held * np.array(calls)) * scale
        rest_a = np.array(lines) * scale
        per_line = float(rest_a @ rest_b / (rest_a @ rest_a))
    fit.memory_ns = round(float(per_line) / int(rows[0].assembly.machine.clock_hz) * 1e9, 1)
    fit.cycles[LATENCY_ON] = round(held, 1)
    fit.constants += 2
    fit.figures += 2


def fit_functions(rows: list[Measured], names: list[str], most: float | None, fit: Fit) -> None:
    """Instruction cycles of each function, least squares over the rows that list it."""
    for name in names:
        plain = name.partition("@")[0]
        f = number(plain)
        over, under, listed = 0.0, 0.0, 0
        for found in rows:
            if plain not in found.published.profile or found.calls[f] <= 0:
                continue
            target = found.published.profile[plain]
            over += (target - found.stall(f, fit.memory_ns)) * found.calls[f] / target**2
            under += found.calls[f] ** 2 / target**2
            listed += 1
        if not listed:
            continue
        own = over / under
        held = max(0.0, own) if most is None else float(np.clip(own, 0.0, most))
        if held != own:
            fit.notes.append(f"{name}: instruction cycles would be {own:.0f}, held at {held:.0f}")
        fit.cycles[name] = round(float(held), 1)
        fit.constants += 1
        fit.figures += listed


def _general(sheet: CostSheet, fit: Fit) -> dict[str, float]:
    """Instruction cycles of every function, fitted ones first; not those that hold behind one structure only."""
    fitted = {name: cycles for name, cycles in fit.cycles.items() if "@" not in name}
    return {entry.name: entry.cycles for entry in sheet.function if entry.structure is None} | fitted


def fit_others(rows: list[Measured], sheet: CostSheet, fit: Fit) -> None:
    """What the profiles do not list, as a line in the slow share through the totals of both rows."""
    known = {name: cycles for name, cycles in _general(sheet, fit).items() if name not in OTHERS}
    shares = [found.published.figures["slow_share"] for found in rows]
    missing = [found.published_cycles - found.simulated(known, fit.memory_ns, set()) for found in rows]
    per_slow = (missing[1] - missing[0]) / (shares[1] - shares[0])
    per_packet = missing[0] - per_slow * shares[0]
    fit.cycles["other_slow_path"] = round(max(0.0, per_slow), 1)
    fit.cycles["other_per_packet"] = round(max(0.0, per_packet), 1)
    if min(per_slow, per_packet) < 0:
        fit.notes.append(f"what is not listed would be {per_packet:.0f} + {per_slow:.0f} s; held at 0")
    fit.constants += 2
    fit.figures += 2


def fit_trie_rest(found: Measured, sheet: CostSheet, fit: Fit) -> None:
    """What the profile of unicache does not list, beyond what is simulated of it, for each slow-path packet.

    All that unicache does for every packet is dear enough to be listed; what is missing is the upkeep of the trie.
    """
    listed = found.published.profile
    simulated = found.simulated(_general(sheet, fit), fit.memory_ns, set(listed))
    missing = found.published_cycles - sum(listed.values()) - simulated
    more = missing / found.published.figures["slow_share"]
    fit.notes.append(
        f"unicache at length 40: {missing:.0f} cycles a packet that its profile does not list are not simulated either"
    )
    fit.cycles["other_slow_path@unicache"] = round(fit.cycles["other_slow_path"] + max(0.0, more), 1)
    fit.constants += 1
    fit.figures += 1


def calibrate(scenario: Scenario, seed: int, rounds: int = 2, report: Callable[[str], None] = print) -> Fit:
    """Refit a scenario's sheet and write it. Returns what was fitted in the last round."""
    path = COSTS / f"{scenario.costs}.toml"
    fit = Fit()
    for turn in range(rounds):
        sheet = load_costs(scenario.costs)
        fit = Fit()
        rows = [measure(scenario, name, seed, report) for name in VANILLA]
        fit_latency(rows, fit)
        fitted = [
            e.name for e in sheet.function if e.source.startswith("fitted") and e.name not in (LATENCY_ON, *OTHERS, *TRIE_LOOKUP)
        ]
        fit_functions(rows, fitted, None, fit)
        fit_others(rows, sheet, fit)
        trie = measure(scenario, TRIE, seed, report)
        fit_functions([trie], list(TRIE_LOOKUP), MOST_LOOKUP, fit)
        fit_functions([trie], list(TRIE_PATH), None, fit)
        fit_trie_rest(trie, sheet, fit)
        write_sheet(path, fit)
        report(f"round {turn + 1}: memory {fit.memory_ns:.1f} ns, {fit.constants} constants fitted to {fit.figures} figures")
    offered = fit_offered(scenario, seed, report)
    write_offered(scenario, offered.kpps)
    fit.constants += 1
    fit.figures += len(offered.shares)
    return fit


def write_sheet(path: Path, fit: Fit) -> None:
    """Put fitted cycles and latency in place of those in the file; all else in it stays as it is."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"(\[memory_latency\]\nns = )[0-9.]+", rf"\g<1>{fit.memory_ns}", text)
    for name, cycles in fit.cycles.items():
        plain, at, structure = name.partition("@")
        own = f'structure = "{structure}"\n' if at else ""
        text, n = re.subn(rf'(name = "{re.escape(plain)}"\n{own}cycles = )[0-9.]+', rf"\g<1>{cycles}", text)
        assert n == 1, f"{path}: {name} stands {n} times"
    partial = path.with_suffix(".tmp")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
