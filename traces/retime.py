"""The packets of a source at other times: evenly, at a given rate, or as they are but from time 0, faster, and over and over.

Sent evenly, packet i arrives i / rate after the first, in the order of the source. As they are, the gaps between packets are kept:
one that goes back counts as none, one above a limit is shortened to it (merged captures may span years), and all are divided by
`speed`. A source that is replayed goes on where it ended, one mean gap later. What was changed is counted.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from models.flow import PacketBatch
from traces.pace import (
    BEFORE,
    CUT_NS,
    EVEN_SIZE,
    FOLLOW_SIZE,
    LATEST_NS,
    LONGEST,
    MICRO,
    SHORTENED,
    SPEED_MICRO,
    TIME,
    WENT_BACK,
    even_times,
    followed_times,
    set_even,
)
from traces.source import Source

SINGLE_GAP_NS = 1_000_000
"""The mean gap of a trace of one packet, which has none: a millisecond."""


class RetimedSource(Source):
    """`source` from time 0 on: evenly at `rate_kpps` (thousand packets per second), or with its own gaps if that is None.

    `most` ends the stream after so many packets. With its own gaps: `speed` divides them (rounded to a millionth, from 1e-6 to
    1e5), those above `longest_gap_s` are shortened to it. `repeat` plays the source so many times end to end; for that `source`
    must be a function that opens it afresh. ValueError for values that cannot work, and from `fill` for a rate or speed so low
    that the packets would not arrive within 146 years.
    """

    def __init__(
        self,
        source: Source | Callable[[], Source],
        rate_kpps: float | None = None,
        most: int | None = None,
        *,
        speed: float = 1.0,
        longest_gap_s: float | None = None,
        repeat: int = 1,
    ) -> None:
        if rate_kpps is not None and not 0 < rate_kpps < float("inf"):
            raise ValueError(f"the rate must be more than 0 thousand packets per second, got {rate_kpps:g}")
        if most is not None and most < 0:
            raise ValueError(f"the number of packets must not be negative, got {most}")
        if not 1 / MICRO <= speed <= MICRO / 10:
            raise ValueError(f"the speed must be from {1 / MICRO:g} to {MICRO // 10} times that of the trace, got {speed:g}")
        if longest_gap_s is not None and not 0 <= longest_gap_s <= LATEST_NS / 1e9:
            raise ValueError(f"the longest gap must be from 0 to {LATEST_NS / 1e9:.0f} s, got {longest_gap_s:g}")
        if rate_kpps is not None and (speed != 1.0 or longest_gap_s is not None):
            raise ValueError("at an even rate a trace has no gaps of its own to divide or to shorten; give a rate or a speed")
        if repeat < 1:
            raise ValueError(f"a trace is played at least once, got repeat={repeat}")
        if repeat > 1 and isinstance(source, Source):
            raise ValueError("a source that is read once cannot be repeated; give a function that opens it afresh")
        self.rate_kpps = rate_kpps
        self.most = most
        self.speed = speed
        self.longest_gap_s = longest_gap_s
        self.repeat = repeat
        self._open = None if isinstance(source, Source) else source
        self.source = source if isinstance(source, Source) else source()
        self.words = self.source.words
        self._sent = 0
        self._passes = 1
        self._pass_packets = 0  # packets of this pass
        self._pass_time = 0  # ns, arrival of its first one
        self._skipped: dict[str, int] = {}  # of the passes that are over
        self._even = np.zeros(EVEN_SIZE, np.int64)
        self._follow = np.zeros(FOLLOW_SIZE, np.int64)
        self._follow[SPEED_MICRO] = round(speed * MICRO)
        self._follow[LONGEST] = LATEST_NS if longest_gap_s is None else round(longest_gap_s * 1e9)
        if rate_kpps is not None:
            set_even(self._even, rate_kpps * 1000.0)

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch from the source and set the times; fewer only at the end of the stream."""
        room = batch.time.size if self.most is None else min(batch.time.size, self.most - self._sent)
        filled = 0
        while filled < room:
            try:
                got = self.source.fill(_rows(batch, filled, room))
            except ValueError:
                # What came before the damage is handed out first; the next call comes here again.
                if filled == 0:
                    raise
                break
            if got:
                self._set_times(batch, filled, filled + got)
                filled += got
                self._sent += got
            elif not self._again():
                break
        batch.packets[0] = filled
        return filled

    def _set_times(self, batch: PacketBatch, start: int, stop: int) -> None:
        """The arrivals of the packets that the source has just written."""
        if self.rate_kpps is None:
            if self._pass_packets == 0:
                self._follow[BEFORE] = batch.time[start]
                self._pass_time = int(self._follow[TIME])
            good = followed_times(self._follow, batch.time, start, stop)
            what, which = f"at {self.speed:g} times the speed of the trace", "speed"
        else:
            good = even_times(self._even, batch.time, start, stop)
            what, which = f"at {self.rate_kpps:g} kpps", "rate"
        if good < stop:
            raise ValueError(f"{what} the packets would not arrive within 146 years; give a higher {which}")
        self._pass_packets += stop - start

    def _again(self) -> bool:
        """Open the source once more, if that is asked for and it had any packets."""
        if self._open is None or self._passes == self.repeat or self._pass_packets == 0:
            return False
        self._skipped = self.skipped()
        span = int(self._follow[TIME]) - self._pass_time
        self._follow[TIME] += span // (self._pass_packets - 1) if self._pass_packets > 1 else SINGLE_GAP_NS
        self.source = self._open()
        self._passes += 1
        self._pass_packets = 0
        return True

    def skipped(self) -> dict[str, int]:
        """What the source left out, in all passes."""
        total = dict(self._skipped)
        for reason, packets in self.source.skipped().items():
            total[reason] = total.get(reason, 0) + packets
        return total

    def describe(self) -> dict[str, Any]:
        """How times are set, what was changed for that, and the source (of several passes, the last)."""
        follow = self._follow
        described: dict[str, Any] = {"source": "retimed", "rate_kpps": self.rate_kpps, "packets": self._sent}
        if self.rate_kpps is None:
            described |= {
                "speed": self.speed,
                "longest_gap_s": self.longest_gap_s,
                "times_clamped": int(follow[WENT_BACK]),
                "gaps_shortened": int(follow[SHORTENED]),
                "gap_time_cut_s": int(follow[CUT_NS]) / 1e9,
            }
        return described | {"repeat": self.repeat, "passes": self._passes, "of": self.source.describe()}


def _rows(batch: PacketBatch, start: int, stop: int) -> PacketBatch:
    """The batch as it is seen through these rows."""
    if start == 0 and stop == batch.time.size:
        return batch
    rows = slice(start, stop)
    return PacketBatch(batch.packets, batch.time[rows], batch.key[rows], batch.length[rows], batch.flags[rows], batch.route[rows])
