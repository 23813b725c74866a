"""Replaying captures: the user's own packets, once, through one priced CPU and a structure that is empty at first.

A capture is finite, so the window is the whole run, from the first packet to the end of the last one's processing, and is never
called steady; `measure.warm_up_s` leaves the first part of the trace out of the figures. All captures are merged in order of time
on one CPU, each with an input interface of its own. `entries` is the mean over packets. The checksum is over a loss-free replay of
the whole capture; a packet that the structure refuses (the kernel's -ENOBUFS) changes it.

A destination without route gets the unreachable entry that the kernel would make, after a slow path that finds nothing. Left out:
such a packet is answered with an ICMP message and not transmitted; here it is priced like a forwarded one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from models.flow import make_batch
from sim.account import ERRORS, SLOWS, Ledger, Totals
from sim.assemble import QUICK, Assembly, assemble, checksum_of, lossfree, make_sources
from sim.experiments.forwarding import Window, row_result
from sim.experiments.reporting import Reporter
from sim.load import sections
from sim.result import RowProgress, RowResult, Span, Windows
from sim.routing import make_table, make_truth
from sim.scenario import Row, Scenario, Traffic
from sim.warmup import SECOND

FOREVER = 1 << 62
"""ns; later than any capture's end."""

MOST_SAMPLES = 1000
"""A long capture has no more points of its time series than this."""

REPORT_ROUNDS = 50

WHY_NOT_STEADY = "a capture is replayed once, from an empty structure"


@dataclass
class Survey:
    """What a first reading of the captures found."""

    packets: int
    length_ns: int  # from the first packet's arrival to the last one's, as it will be sent
    unreachable: int  # packets whose destination no prefix of the routing table holds
    went_back: int  # packets whose time was before that of the packet before them
    shortened: int = 0  # gaps longer than traffic.longest_gap_s
    cut_s: float = 0.0  # what was taken from them
    fragments: int = 0  # later fragments, which have no ports
    damage: tuple[str, ...] = ()  # where captures are damaged; what is before it was read


def run_replay(
    scenario: Scenario, row: Row, *, seed: int, quick: bool = False, progress: Callable[[RowProgress], None]
) -> RowResult:
    """Replay the captures of one row; a quick run takes their first tenth. ValueError in one sentence for what cannot work."""
    tell = Reporter(row.name, progress)
    traffic = sections(scenario, row).traffic

    tell("reading", 0, 0.0)
    most = None
    if quick:
        most = max(1, survey(scenario, traffic, seed).packets // QUICK)
    found = survey(scenario, traffic, seed, most)
    warm_up = check_warm_up(found, sections(scenario, row).measure.warm_up_s)

    def build() -> Assembly:
        return assemble(
            scenario, row, seed, quick=quick, sources=make_sources(traffic, seed, most), seconds=found.length_ns / SECOND + 1
        )

    tell("checking", 0, 0.0)
    whole = lossfree(build(), found.packets)
    assembly = build()
    window = Replay(assembly, lambda phase, done: tell(phase, assembly.box.totals().processed, done))
    window.run(found, warm_up)
    assembly.notes += notes(scenario, found, whole, window.added)
    windows = Windows(
        warm_up=Span(start_s=0.0, length_s=warm_up / SECOND),
        window=Span(start_s=warm_up / SECOND, length_s=window.length / SECOND),
        cycles=assembly.structure.cycles(),
        steady=False,
        reason=WHY_NOT_STEADY,
    )
    return row_result(scenario, row, assembly, window, windows, None, checksum_of(whole), tell.spent_s, quick)


def survey(scenario: Scenario, traffic: Traffic, seed: int, most: int | None = None) -> Survey:
    """Read the captures once to their end, so that whatever is wrong with them is said before anything is simulated."""
    (source,) = make_sources(traffic, seed, most)
    ranges, unreachable = make_truth(make_table(scenario.fib, traffic.family, seed))
    batch = make_batch(4096, source.words)
    packets = last = without = 0
    while count := source.fill(batch):
        ranges.resolve(batch)
        packets += count
        last = int(batch.time[count - 1])
        without += int((batch.route[:count] == unreachable).sum())
    if packets == 0:
        what = ", ".join(traffic.files)
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in sorted(source.skipped().items()))
        raise ValueError(
            f"{what} {'holds' if len(traffic.files) == 1 else 'hold'} no IPv{traffic.family} packet that could be replayed"
            f"{f' (left out: {left_out})' if left_out else ''}; give a capture of IPv{traffic.family} traffic"
        )
    said = list(_described(source.describe()))
    return Survey(
        packets,
        last,
        without,
        went_back=sum(part.get("time_went_back", 0) for part in said),
        shortened=sum(part.get("gaps_shortened", 0) for part in said),
        cut_s=sum(part.get("gap_time_cut_s", 0.0) for part in said),
        fragments=sum(part.get("later_fragments", 0) for part in said),
        damage=tuple(where for part in said for where in part.get("damage", [])),
    )


def check_warm_up(found: Survey, seconds: float) -> int:
    """The warm-up in ns. ValueError if the trace is over before it."""
    if seconds and seconds * SECOND >= found.length_ns:
        raise ValueError(
            f"the trace lasts {found.length_ns / SECOND:.6g} s as it is sent, the warm-up takes {seconds:.6g} s; "
            "shorten the warm-up (measure.warm_up_s), send the trace more slowly or repeat it"
        )
    return round(seconds * SECOND)


def _described(description: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The description of a source and of all that it is made of."""
    yield description
    for part in [*description.get("sources", []), *([description["of"]] if "of" in description else [])]:
        yield from _described(part)


def notes(scenario: Scenario, found: Survey, whole: Ledger, priced: Totals) -> list[str]:
    """What a reader of the row must know."""
    lines = [f"{found.packets:,} packets, the last {found.length_ns / SECOND:.3g} s after the first"]
    lines += [f"read up to damage: {where}" for where in found.damage]
    if found.went_back:
        lines.append(f"the time of {found.went_back:,} packets was before that of the one before them; it was held")
    if found.shortened:
        lines.append(f"{found.shortened:,} gaps were shortened to the longest allowed; {found.cut_s:,.3g} s were taken out")
    if found.fragments:
        lines.append(f"{found.fragments:,} packets are later fragments: keyed without ports")
    if found.unreachable:
        lines.append(f"{found.unreachable:,} packets have no route in {scenario.fib.file or 'the routing table'}: unreachable")
    if priced.dropped:
        lines.append(f"without loss {whole.total[SLOWS] / found.packets:.2%} of the packets take the slow path")
    if whole.total[ERRORS]:
        lines.append(f"the structure refused {int(whole.total[ERRORS]):,} packets of the loss-free replay, so its checksum differs")
    return lines


class Replay(Window):
    """A window that is the whole run, but for its warm-up."""

    def run(self, found: Survey, warm_up: int) -> None:
        """Run the box to the end of its sources; the first `warm_up` ns count for nothing."""
        box = self.box
        if warm_up:
            self.report("warming up", 0.0)
            box.run(warm_up)
            box.reset_latency()
            box.pricer.reset_bill()
        self.start = warm_up
        self.before, self.counters_before = box.totals(), box.structure.counters()
        self.routes_before = box.routing_counters()
        interval = max(round(self.assembly.found.measure.series_s * SECOND), found.length_ns // MOST_SAMPLES)
        next_sample = warm_up + interval
        sampled, sampled_at = self.before, warm_up
        weighted = rounds = 0
        processed = self.before.processed
        self.report("replaying", 0.0)

        def round_ended(now: int) -> None:
            nonlocal next_sample, sampled, sampled_at, weighted, processed, rounds
            totals = box.totals()
            weighted += len(box.structure) * (totals.processed - processed)
            processed = totals.processed
            if now >= next_sample:
                self.sample(sampled, sampled_at, now)
                sampled, sampled_at = totals, now
                next_sample = now + interval
            rounds += 1
            if rounds % REPORT_ROUNDS == 0:
                self.report("replaying", min(1.0, totals.offered / found.packets))

        box.each_round = round_ended
        box.run(FOREVER)
        self.length = box.busy_until - warm_up
        self.added = box.totals().minus(self.before)
        self.entries = [weighted / max(1, processed - self.before.processed)]
