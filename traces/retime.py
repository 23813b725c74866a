"""The packets of a source at other times: evenly, at a given rate, or as they are but from time 0.

Sent evenly, packet i arrives i / rate after the first, in the order of the source. Left out: bursts, and speeding a capture up
while keeping its gaps.
"""

from typing import Any

import numpy as np

from models.flow import PacketBatch
from traces.source import Source

LATEST_NS = 1 << 62
"""No packet may arrive later than this (146 years)."""


class RetimedSource(Source):
    """`source` from time 0 on: evenly at `rate_kpps` (thousand packets per second), or with its own gaps if that is None.

    `most` ends the stream after so many packets. ValueError for a rate that is not above 0, and from `fill` for one so low that the
    packets would not arrive within 146 years.
    """

    def __init__(self, source: Source, rate_kpps: float | None = None, most: int | None = None) -> None:
        if rate_kpps is not None and not 0 < rate_kpps < float("inf"):
            raise ValueError(f"the rate must be more than 0 thousand packets per second, got {rate_kpps:g}")
        if most is not None and most < 0:
            raise ValueError(f"the number of packets must not be negative, got {most}")
        self.words = source.words
        self.source = source
        self.rate_kpps = rate_kpps
        self.most = most
        self._sent = 0
        self._first = 0  # ns, time of the source's first packet

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch from the source and set the times."""
        room = batch.time.size if self.most is None else min(batch.time.size, self.most - self._sent)
        batch.packets[0] = 0
        if room == 0:
            return 0
        packets = self.source.fill(batch if room == batch.time.size else _first_rows(batch, room))
        batch.packets[0] = packets
        if packets == 0:
            return 0
        times = batch.time[:packets]
        if self.rate_kpps is None:
            if self._sent == 0:
                self._first = int(times[0])
            times -= self._first
        else:
            even = np.floor(np.arange(self._sent, self._sent + packets) * (1e6 / self.rate_kpps))
            if even[-1] > LATEST_NS:
                raise ValueError(f"at {self.rate_kpps:g} kpps the packets would not arrive within 146 years; give a higher rate")
            times[:] = even
        self._sent += packets
        return packets

    def skipped(self) -> dict[str, int]:
        """What the source left out."""
        return self.source.skipped()

    def describe(self) -> dict[str, Any]:
        """How times are set, and the source."""
        return {"source": "retimed", "rate_kpps": self.rate_kpps, "packets": self._sent, "of": self.source.describe()}


def _first_rows(batch: PacketBatch, rows: int) -> PacketBatch:
    """The same batch with less room."""
    return PacketBatch(
        batch.packets, batch.time[:rows], batch.key[:rows], batch.length[:rows], batch.flags[:rows], batch.route[:rows]
    )
