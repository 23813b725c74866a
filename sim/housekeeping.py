"""What a CPU does for the structure between packets: freeing what RCU has held back, and on CPU 0 the periodic timers.

Models rcu_process_callbacks after a softirq round and run_timer_softirq (2.6.20). A timer that falls due while a round runs is
served at its end; one that was missed several times runs once.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.drive import Price, drive_reclaim, drive_timer
from models.interface import Context, FlowCache

TIMER_CPU = 0


@dataclass(slots=True)
class _Due:
    name: str
    period_ns: int
    due: int  # ns

    def go_beyond(self, now: int) -> None:
        """The first due time after `now`."""
        self.due += self.period_ns * ((now - self.due) // self.period_ns + 1)


class Housekeeping:
    """Delayed frees and timers of one structure."""

    def __init__(self, structure: FlowCache) -> None:
        self.structure = structure
        self._timers = [_Due(timer.name, timer.period_ns, timer.first_ns) for timer in structure.timers()]

    def run(self, context: Context, now: int, price: Price) -> None:
        """The end of a softirq round at `now` (ns): callbacks of context.cpu, then the timers that are due."""
        drive_reclaim(self.structure, context, price)
        if context.cpu == TIMER_CPU:
            for timer in self._timers:
                if now >= timer.due:
                    timer.go_beyond(now)
                    drive_timer(self.structure, timer.name, context, price)

    def next_due(self, cpu: int) -> int | None:
        """When (ns) the next timer of a CPU falls due; None if it has none."""
        return min((timer.due for timer in self._timers), default=None) if cpu == TIMER_CPU else None

    def skip(self, cpu: int, until: int) -> None:
        """Let the timers of a CPU that fall due before `until` (ns) go by."""
        if cpu == TIMER_CPU:
            for timer in self._timers:
                if timer.due < until:
                    timer.go_beyond(until - 1)
