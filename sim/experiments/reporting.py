"""Telling how far a row is: one place that turns phase, packets and share into rates and time left."""

from __future__ import annotations

import time
from collections.abc import Callable

from sim.result import RowProgress

SURE = 0.02
"""Share of a row before which nothing is said of the time left."""


class Reporter:
    """Progress of one row, counted from when this was made."""

    def __init__(self, row: str, progress: Callable[[RowProgress], None]) -> None:
        self._row = row
        self._progress = progress
        self._began = time.perf_counter()

    @property
    def spent_s(self) -> float:
        """Wall time since the row began, seconds."""
        return time.perf_counter() - self._began

    def __call__(self, phase: str, packets: int, done: float) -> None:
        """Say that the row is in `phase`, has simulated so many packets and is a share `done` (0..1) of its way."""
        spent = self.spent_s
        self._progress(
            RowProgress(
                row=self._row,
                phase=phase,
                packets=packets,
                done=done,
                packets_per_s=packets / spent if spent > 0 else None,
                seconds_left=spent * (1 - done) / done if done > SURE else None,
            )
        )
