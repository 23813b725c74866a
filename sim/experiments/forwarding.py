"""The forwarding experiment: one row is warmed up, settled and measured; out comes the row of the result table.

The window begins and ends with a collection cycle where the structure has cycles (rt_hash: from one danger branch to the next;
unicache: from one passive collection to the next) and lasts at least `window_s`. Warm-up and window stand side by side.

Two forms of the throughput are given. Closed loop: what the box did; loss feeds back on the share of first packets.
Open loop: 2 f / ((1 - s) h + s w) from the mean cycles h of a hit and w of a slow-path packet as simulated, all collection
counted with the slow path, at the published share s.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.functions import names
from sim.account import WORST, Totals, percentile
from sim.assemble import Assembly, assemble, lossfree_checksum
from sim.costs import UNIT
from sim.experiments.reporting import Reporter
from sim.memory import CLASS_NAMES
from sim.published import PublishedRow, published_row
from sim.result import Host, Latency, Loss, Phases, RowProgress, RowResult, Span, Windows, make_figure
from sim.scenario import Row, Scenario
from sim.streams import stream
from sim.warmup import SECOND, fill
from traces.source import all_skipped

SLICE_NS = 20_000_000
STEADY_KPPS = 0.02
STEADY_ENTRIES = 0.05
LEVELS = ("entries", "leaves")
"""Counters of structures that say how many there are now, not how often something happened."""

Report = Callable[[RowProgress], None]


class Window:
    """The measured window: runs the box slice by slice and keeps what the figures need."""

    def __init__(self, assembly: Assembly, report: Callable[[str, float], None]) -> None:
        self.assembly = assembly
        self.box = assembly.box
        self.report = report
        self.series: list[dict[str, float | int | None]] = []
        self.entries: list[float] = []
        self.rates: list[float] = []
        self.cycles: int | None = None
        self.routes_before: dict[str, int] = {}

    def _slice(self, until: int) -> bool:
        """Run one slice; True if a collection cycle began in it."""
        before = self.box.structure.cycles()
        self.box.run(min(until, self.box.now + SLICE_NS))
        return before is not None and (self.box.structure.cycles() or 0) > before

    def wait_for_cycle(self, limit_ns: int) -> bool:
        """Run on until a collection cycle begins; False if none did within the limit."""
        until = self.box.now + limit_ns
        while self.box.now < until and not self.box.ended:
            if self._slice(until):
                return True
        return False

    def measure(self, whole_cycles: bool) -> None:
        """Run the window. All totals, bills and latencies count from here."""
        box, measure = self.box, self.assembly.found.measure
        box.reset_latency()
        box.pricer.reset_bill()
        self.start = box.now
        self.entries_before = len(box.structure)
        self.before = box.totals()
        self.counters_before = box.structure.counters()
        self.routes_before = box.routing_counters()
        least = self.start + round(measure.window_s * SECOND)
        limit = self.start + round(max(measure.window_limit_s, measure.window_s) * SECOND)
        cycles = 0
        next_sample = self.start + round(measure.series_s * SECOND)
        sampled, sampled_at = self.before, self.start
        while not box.ended:
            began = self._slice(limit if whole_cycles else least)
            self.entries.append(len(box.structure))
            cycles += began
            if box.now >= next_sample:
                self.sample(sampled, sampled_at, box.now)
                sampled, sampled_at = box.totals(), box.now
                next_sample += round(measure.series_s * SECOND)
            self.report("measuring", min(1.0, (box.now - self.start) / (least - self.start)))
            if box.now >= limit or (box.now >= least and (began or not whole_cycles)):
                self.cycles = cycles if whole_cycles else None
                break
        self.length = box.now - self.start
        self.added = box.totals().minus(self.before)

    def sample(self, since: Totals, since_ns: int, now: int) -> None:
        """Add a point to the time series: what happened since the last one, which was at `since_ns`."""
        box = self.box
        added = box.totals().minus(since)
        ms = (now - since_ns) / 1e6
        self.rates.append((added.hits + added.slow) / ms)
        self.series.append(
            {
                "time_s": round((now - self.start) / SECOND, 3),
                "hit_kpps": added.hits / ms,
                "slow_path_kpps": added.slow / ms,
                "total_kpps": (added.hits + added.slow) / ms,
                "dropped_kpps": added.dropped / ms,
                **box.structure.counters(),
                **box.routing_counters(),
            }
        )

    def steady(self) -> tuple[bool, str]:
        """Whether the window stands for the long run, and why it is thought so."""
        if len(self.rates) < 4:
            return False, "too short to tell"
        half = len(self.rates) // 2
        first, second = float(np.mean(self.rates[:half])), float(np.mean(self.rates[half:]))
        drift = abs(second - first) / max(first, 1e-9)
        a, b = self.entries_before, self.entries[-1]
        climb = abs(b - a) / max(a, b, 1)
        if drift > STEADY_KPPS:
            return False, f"the rate of the second half differs by {100 * drift:.1f} % from that of the first"
        if climb > STEADY_ENTRIES:
            return False, f"entries went from {a} to {b}"
        return True, f"the halves of the window differ by {100 * drift:.1f} %, entries at its ends by {100 * climb:.1f} %"


def warm_up(assembly: Assembly, row: Row, seed: int, report: Callable[[str, float], None]) -> tuple[Window, Windows]:
    """Fill, settle and measure one row."""
    box, measure = assembly.box, assembly.found.measure
    report("filling", 0.0)
    filled = fill(box, measure, row.late, stream(seed, row.name, "thinning"), report)
    filled_at = box.now
    report("settling", 0.0)
    box.run(box.now + round(measure.settle_s * SECOND))
    window = Window(assembly, report)
    whole = False
    if filled.cycles:
        whole = window.wait_for_cycle(round(measure.window_limit_s * SECOND))
        if not whole:
            assembly.notes.append("no collection cycle began while the box settled; the window is not a whole number of cycles")
    elif box.structure.cycles() is not None:
        assembly.notes.append("the structure never had to collect; the window is not a whole number of cycles")
    if not filled.level:
        assembly.notes.append(f"after {filled.seconds:.1f} s of filling the entries still climbed")
    settled_at = box.now
    window.measure(whole)
    steady, reason = window.steady()
    windows = Windows(
        warm_up=Span(start_s=0.0, length_s=filled_at / SECOND),
        settle=Span(start_s=filled_at / SECOND, length_s=(settled_at - filled_at) / SECOND),
        window=Span(start_s=settled_at / SECOND, length_s=window.length / SECOND),
        cycles=window.cycles,
        steady=steady and filled.level,
        reason=reason if filled.level else "entries still climbed when the filling ended",
    )
    return window, windows


def cycles_at(assembly: Assembly, hits: int, slow: int, share: float) -> NDArray[np.float64] | None:
    """float64[functions], cycles per packet by function: means of a hit and a slow-path packet at a given share of the slow path.

    None if packets of a kind are needed that the window did not see.
    """
    if (hits == 0 and share < 1) or (slow == 0 and share > 0):
        return None
    cycles = assembly.box.pricer.bill.cycles / UNIT
    found: NDArray[np.float64] = (1 - share) * cycles[0] / max(1, hits) + share * cycles[1] / max(1, slow)
    return found


def open_loop_kpps(assembly: Assembly, hits: int, slow: int, share: float) -> float | None:
    """Throughput from mean simulated cycles of a hit and of a slow-path packet at a given share of the slow path."""
    cycles = cycles_at(assembly, hits, slow, share)
    if cycles is None:
        return None
    return len(assembly.box.sources) * int(assembly.machine.clock_hz) / float(cycles.sum()) / 1000


def by_function(cycles: NDArray[np.float64] | None) -> dict[str, float]:
    """Cycles per packet by name, dearest first; functions that took none are left out."""
    known = names()
    if cycles is None:
        return {}
    return {known[f]: float(cycles[f]) for f in np.argsort(-cycles, kind="stable") if f < len(known) and cycles[f] > 0}


def run_row(scenario: Scenario, row: Row, *, seed: int, quick: bool = False, progress: Report) -> RowResult:
    """Run one row. ValueError in one sentence for what cannot work."""
    tell = Reporter(row.name, progress)
    last = 0.0

    def report(phase: str, done: float) -> None:
        nonlocal last
        if tell.spent_s - last < 0.2 and done not in (0.0, 1.0):
            return
        last = tell.spent_s
        overall = {"compiling": 0.0, "filling": 0.4 * done, "settling": 0.4, "measuring": 0.45 + 0.55 * done}.get(phase, 0.0)
        tell(phase, assembly.box.totals().processed if assembly is not None else 0, overall)

    assembly = None
    report("compiling", 0.0)
    checksum = lossfree_checksum(scenario, row, seed, quick=quick)
    assembly = assemble(scenario, row, seed, quick=quick)
    window, windows = warm_up(assembly, row, seed, report)
    published = published_row(scenario.published, row.published, row.name) if scenario.published and row.published else None
    return row_result(scenario, row, assembly, window, windows, published, checksum, tell.spent_s, quick)


def routing_notes(counters: dict[str, Phases], served: int) -> list[str]:
    """What the changes of routes did in the window, in a sentence; nothing where routes do not change."""
    if "box_changes" not in counters:
        return []
    changes, flushes, stale, in_vain = (
        int(counters[f"box_{name}"].window or 0) for name in ("changes", "flushes", "stale", "in_vain")
    )
    share = f"{100 * stale / served:.2g} % of the packets were" if served else "none was"
    notes = [f"{changes:,} changes of routes and {flushes:,} flushes in the window; {share} answered from before a change"]
    if in_vain:
        notes.append(f"{in_vain:,} withdrawals were of prefixes that the table does not hold")
    return notes


def row_result(
    scenario: Scenario,
    row: Row,
    assembly: Assembly,
    window: Window,
    windows: Windows,
    published: PublishedRow | None,
    checksum: str,
    wall_s: float,
    quick: bool,
) -> RowResult:
    """The row of the result table, from what the window saw and the box's bill."""
    box, added = assembly.box, window.added
    seconds = window.length / SECOND
    served = added.hits + added.slow
    share = added.slow / served if served else None
    want = published.figures if published is not None and not quick else {}
    simulated = {
        "entries": float(np.mean(window.entries)) if window.entries else None,
        "hit_kpps": added.hits / seconds / 1000 if seconds else None,
        "slow_path_kpps": added.slow / seconds / 1000 if seconds else None,
        "total_kpps": served / seconds / 1000 if seconds else None,
        "slow_share": share,
        "total_open_kpps": open_loop_kpps(assembly, added.hits, added.slow, want.get("slow_share", share or 0.0)),
    }
    figures = {name: make_figure(value, want.get(name), row.roles.get(name)) for name, value in simulated.items()}
    if added.wrong:
        raise AssertionError(f"{row.structure} gave {added.wrong} wrong routes")
    bill = box.pricer.bill
    per_packet = (bill.cycles[0] + bill.cycles[1]) / UNIT / max(1, added.processed)
    known = names()
    touches = bill.touches.sum(axis=0)
    counts = {
        known[f]: {"calls": int(bill.calls[f]) // UNIT}
        | {CLASS_NAMES[c]: int(touches[f, c]) for c in range(len(CLASS_NAMES)) if touches[f, c]}
        for f in range(len(known))
        if bill.calls[f] or touches[f].any()
    }
    after = box.structure.counters()
    counters = {
        name: Phases(
            warm_up=window.counters_before[name],
            window=value if name in LEVELS else value - window.counters_before[name],
        )
        for name, value in after.items()
    }
    before = window.before
    for name in ("offered", "dropped", "processed", "hits", "slow", "errors", "queued"):
        counters[f"box_{name}"] = Phases(warm_up=getattr(before, name), window=getattr(added, name))
    for name, value in box.routing_counters().items():
        counters[f"box_{name}"] = Phases(warm_up=window.routes_before[name], window=value - window.routes_before[name])
    assembly.notes += routing_notes(counters, served)
    latency = box.ledger.latency
    worst = int(box.ledger.total[WORST])
    # A percentile is known to the width of a bucket; the greatest latency is known exactly.
    p50, p99 = (None if found is None else min(found, worst) for found in (percentile(latency, 0.5), percentile(latency, 0.99)))
    processed = box.totals().processed
    return RowResult(
        row=row.name,
        role=figures["total_kpps"].role,
        structure=row.structure,
        parameters={
            **assembly.parameters,
            "traffic": msgspec.to_builtins(assembly.found.traffic),
            "box": msgspec.to_builtins(assembly.found.box),
            "adjust": row.adjust,
        },
        figures=figures,
        counters=counters,
        windows=windows,
        profile=by_function(per_packet),
        profile_open=by_function(cycles_at(assembly, added.hits, added.slow, want["slow_share"])) if "slow_share" in want else {},
        profile_counts=counts,
        loss=Loss(dropped=added.dropped, share=added.dropped / added.offered if added.offered else None),
        latency_us=Latency(
            p50=p50 / 1000 if p50 is not None else None,
            p99=p99 / 1000 if p99 is not None else None,
            max=worst / 1000,
        ),
        longest_stall_us=box.longest_stall / 1000,
        metrics=box.structure.metrics(),
        checksum=checksum,
        skipped=all_skipped(box.sources),
        notes=assembly.notes,
        series=window.series,
        host=Host(wall_s=wall_s, packets=processed, packets_per_s=processed / wall_s if wall_s > 0 else 0.0),
    )
