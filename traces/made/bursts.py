"""Bursts: another source's packets in on-times, with silence between them.

The source's own time runs during on-times only, so its rate is that within a burst; nothing is lost. Periods are fixed, or drawn
from exponential distributions with these means (the on-off model of packet trains, as in W. Willinger et al., Self-Similarity
through High-Variability, SIGCOMM 1995, where their tails are heavier).
"""

from typing import Any

import numpy as np

from models.flow import PacketBatch
from models.kernel import I64
from traces.pace import LATEST_NS
from traces.source import Source

PERIODS = 1024
"""Periods drawn at a time."""
MOST_PERIODS = 1 << 18
"""Periods that may fall between the packets of one batch, in the mean."""


class Bursts(Source):
    """`source` for `on_s`, then nothing for `off_s`, again and again; with `rng`, which must be its own, these are means.

    Counted from time 0 of the source. ValueError for periods that are not above 0 (off_s: not below) or longer than a year.
    """

    def __init__(self, source: Source, on_s: float, off_s: float, *, rng: np.random.Generator | None = None) -> None:
        if not 1e-9 <= on_s <= 3e7 or not 0 <= off_s <= 3e7:
            raise ValueError(f"bursts need on_s from 1e-9 and off_s from 0 to 3e7 seconds, got {on_s:g} and {off_s:g}")
        self.words = source.words
        self.source = source
        self._rng = rng
        self._on_s, self._off_s = on_s, off_s
        self._on, self._off = max(1, round(on_s * 1e9)), round(off_s * 1e9)
        # Drawn bursts that are not over, in the source's time.
        self._ends = np.zeros(0, np.int64)  # ns, when the on-time of each ends
        self._silence = np.zeros(1, np.int64)  # ns of silence before each, and before the one that is drawn next

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch from the source and move its packets into the on-times."""
        packets = self.source.fill(batch)
        if packets:
            times = batch.time[:packets]
            silence = self._fixed(times) if self._rng is None else self._drawn(self._rng, times)
            if int(silence[-1]) > LATEST_NS - int(times[-1]):
                raise ValueError("the bursts would not be over within 146 years; give a shorter silence")
            times += silence
        return packets

    def _fixed(self, times: I64) -> I64:
        """Silence before each packet, ns."""
        bursts = times // self._on
        if int(bursts[-1]) * self._off > LATEST_NS:
            raise ValueError("the bursts would not be over within 146 years; give a shorter silence")
        return bursts * self._off

    def _drawn(self, rng: np.random.Generator, times: I64) -> I64:
        """The same for periods that are drawn, a fixed number at a time, so that batches make no difference."""
        drawn_to = int(self._ends[-1]) if self._ends.size else 0
        if int(times[-1]) - drawn_to > MOST_PERIODS * self._on:
            raise ValueError("the bursts are far shorter than the gaps of the source; give longer ones")
        while not self._ends.size or self._ends[-1] <= times[-1]:
            on = np.maximum(1, np.rint(rng.exponential(self._on, PERIODS))).astype(np.int64)
            off = np.rint(rng.exponential(self._off, PERIODS)).astype(np.int64)
            begun = self._ends[-1] if self._ends.size else 0
            self._ends = np.concatenate((self._ends, begun + np.cumsum(on)))
            self._silence = np.concatenate((self._silence, self._silence[-1] + np.cumsum(off)))
        burst = np.searchsorted(self._ends, times, side="right")
        silence: I64 = self._silence[burst]
        gone = int(burst[-1])  # fewer than there are, for the last one ends after the last packet
        self._ends, self._silence = self._ends[gone:], self._silence[gone:]
        return silence

    def skipped(self) -> dict[str, int]:
        """What the source left out."""
        return self.source.skipped()

    def describe(self) -> dict[str, Any]:
        """The periods, and the source."""
        return {
            "source": "bursts",
            "on_s": self._on_s,
            "off_s": self._off_s,
            "periods": "fixed" if self._rng is None else "exponential",
            "of": self.source.describe(),
        }
