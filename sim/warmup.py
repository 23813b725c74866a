"""Warm-up: fill the structure fast, at the pace that the priced box would keep, until it is where a long run would have it.

Filling is unpriced. Its pace comes from pilots: every second of filling a short priced run on the structure as it is then
measures which share of the offered packets the box gets through; the mean over the last pilots is the share that
the next second of filling keeps. Collection state that takes minutes to arrive (rt_hash's `expire`) is put at its late value once
the structure has collected for the first time. Filling ends in the last part of a later collection cycle, or, without
collection, when the entries no longer climb; at the latest after `fill_s`. A priced settling follows, which
warms the caches and is not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.box import Box
from sim.scenario import Measure

SECOND = 1_000_000_000
PILOT_NS = 20_000_000
PILOT_LEAD_NS = 4_000_000
"""A pilot runs this long before it counts: time for the caches to fill again."""
PILOTS_KEPT = 6
STEP_NS = 50_000_000
ADAPT = 5
"""Settling times that filling goes on after the first collection."""
NEARLY = 0.9
FLAT = 0.005
"""Entries that climb by less than this share a second are called level."""


@dataclass
class Filled:
    """How the filling ended."""

    seconds: float
    keep: float  # share of the offered packets that the last pilots got through
    level: bool  # entries no longer climbed, or collection had set in
    cycles: int  # collection cycles begun


Progress = Callable[[str, float], None]
"""progress(phase, share of the phase that is done)"""


def pilot(box: Box) -> float:
    """Share of the offered packets that the priced box gets through now, over PILOT_NS."""
    box.run(box.now + PILOT_LEAD_NS)
    ahead = box.next_arrival()
    if ahead > box.now + PILOT_LEAD_NS:  # filling has run ahead with chunks of a slow source
        box.run(ahead + PILOT_LEAD_NS)
    before = box.totals()
    box.run(box.now + PILOT_NS)
    added = box.totals().minus(before)
    # Packets that a deeper or emptier ring holds back or hands over are not the box's pace.
    return min(1.0, added.processed / added.offered) if added.offered else 1.0


def fill(box: Box, measure: Measure, late: dict[str, float], rng: np.random.Generator, progress: Progress) -> Filled:
    """Fill the structure. `late` goes to FlowCache.set_late at the first collection, and again at the end."""
    began = box.now
    until = began + round(measure.fill_s * SECOND)
    piece = max(STEP_NS, min(SECOND, round(measure.fill_s * SECOND / 10)))
    pilots: deque[float] = deque(maxlen=PILOTS_KEPT)
    marks: list[int] = []
    seen = box.structure.cycles() or 0
    level_pieces, entries = 0, -1
    while box.now < until and not box.ended:
        pilots.append(pilot(box))
        keep = sum(pilots) / len(pilots)
        piece_end = min(until, box.now + piece)
        while box.now < piece_end and not box.ended:
            box.pace(min(piece_end, box.now + STEP_NS), keep, rng)
            now_seen = box.structure.cycles() or 0
            if now_seen > seen:
                seen = now_seen
                if late and not marks:
                    box.structure.set_late(**late)
                marks.append(box.now)
            if _cycle_ends_soon(box, marks, measure):
                break
        progress("filling", min(1.0, (box.now - began) / max(1, until - began)))
        if _cycle_ends_soon(box, marks, measure):
            break
        now_entries = len(box.structure)
        flat = abs(now_entries - entries) <= FLAT * max(1, now_entries) * piece / SECOND
        level_pieces = level_pieces + 1 if flat else 0
        entries = now_entries
        # A table that nears its next collection climbs ever more slowly: that is not level.
        near = (box.structure.cycle_progress() or 0.0) > 0.5
        if level_pieces >= 3 and not marks and not near:
            break
    if late:
        box.structure.set_late(**late)
    pilots.append(pilot(box))
    return Filled(
        seconds=(box.now - began) / SECOND,
        keep=sum(pilots) / len(pilots),
        level=bool(marks) or level_pieces >= 3,
        cycles=len(marks),
    )


def _cycle_ends_soon(box: Box, marks: list[int], measure: Measure) -> bool:
    """True once the structure has collected, has had time to adapt to its late state, and its cycle is nearly over.

    Then the priced wait for the start of the window, which begins with a cycle, is short.
    """
    if not marks or box.now - marks[0] < ADAPT * measure.settle_s * SECOND:
        return False
    done = box.structure.cycle_progress()
    short = len(marks) > 3 and (marks[-1] - marks[-4]) / 3 < 2 * measure.settle_s * SECOND
    return done is None or short or done >= NEARLY
