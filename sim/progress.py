"""Progress of a run on stderr: bars on a terminal, a plain line now and then otherwise, nothing when asked to be quiet."""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType
from typing import Any, Protocol

from sim.result import RowProgress

PLAIN_INTERVAL_S = 5.0
"""A row writes a plain line at a change of phase, and no more often than this in between."""


class Display(Protocol):
    """A context manager that is called with every RowProgress."""

    def __call__(self, progress: RowProgress) -> None: ...

    def __enter__(self) -> Display: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


def make_display(quiet: bool, rows: int) -> Display:
    """What fits stderr."""
    if quiet:
        return Silent()
    return Bars(rows) if sys.stderr.isatty() else Lines()


def describe(progress: RowProgress) -> str:
    """A row's state in words: phase, share, packets per second, time left."""
    parts = [progress.phase]
    if progress.done > 0:
        parts.append(f"{progress.done:.0%}")
    if progress.packets_per_s:
        parts.append(f"{pace(progress.packets_per_s)} packets/s")
    if progress.seconds_left is not None and progress.phase != "done":
        parts.append(f"{clock(progress.seconds_left)} left")
    return ", ".join(parts)


def pace(per_second: float) -> str:
    """A rate with three figures or so."""
    return f"{per_second / 1e6:.2f} M" if per_second >= 1e5 else f"{per_second / 1e3:.1f} k"


def clock(seconds: float) -> str:
    """Seconds as m:ss."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


class Silent:
    """Says nothing."""

    def __call__(self, progress: RowProgress) -> None:
        return None

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None


class Lines(Silent):
    """One line at every change of phase and every few seconds, for logs."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[str, float]] = {}

    def __call__(self, progress: RowProgress) -> None:
        phase, last = self._shown.get(progress.row, ("", 0.0))
        now = monotonic()
        if progress.phase != phase or now - last >= PLAIN_INTERVAL_S:
            self._shown[progress.row] = (progress.phase, now)
            print(f"{progress.row}: {describe(progress)}", file=sys.stderr, flush=True)


class Bars:
    """A bar for every row at work and one for the whole run."""

    def __init__(self, rows: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(24),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._whole = self._progress.add_task("all rows", total=float(rows), state="")
        self._tasks: dict[str, Any] = {}
        self._rows = rows
        self._finished = 0

    def __call__(self, progress: RowProgress) -> None:
        if progress.row not in self._tasks:
            self._tasks[progress.row] = self._progress.add_task(progress.row, total=1.0, state="")
        if progress.phase == "done":
            self._progress.remove_task(self._tasks.pop(progress.row))
            self._finished += 1
            self._progress.update(self._whole, completed=self._finished, state=f"{self._finished} of {self._rows}")
        else:
            self._progress.update(self._tasks[progress.row], completed=progress.done, state=describe(progress))

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()
