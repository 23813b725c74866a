"""What a CPU does for the structure between packets: freeing what RCU has held back, and on CPU 0 the periodic timers, routing
changes and the flushes that they ask for.

Models rcu_process_callbacks after a softirq round and run_timer_softirq (2.6.20). What falls due while a round runs is
served at its end; a timer that was missed several times runs once.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.drive import Price, drive_reclaim, drive_timer
from models.interface import Context, FlowCache
from sim.live_routes import LiveRoutes

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
    """Delayed frees, timers and routing changes of one structure."""

    def __init__(self, structure: FlowCache, live: LiveRoutes | None = None) -> None:
        self.structure = structure
        self._live = live
        self._timers = [_Due(timer.name, timer.period_ns, timer.first_ns) for timer in structure.timers()]

    def run(self, context: Context, now: int, price: Price) -> None:
        """The end of a softirq round at `now` (ns): callbacks of context.cpu, then the timers that are due."""
        drive_reclaim(self.structure, context, price)
        if context.cpu == TIMER_CPU:
            for timer in self._timers:
                if now >= timer.due:
                    timer.go_beyond(now)
                    drive_timer(self.structure, timer.name, context, price)
            if self._live is not None:
                self._live.run(now, context, price)

    def next_due(self, cpu: int) -> int | None:
        """When (ns) the next timer or routing change of a CPU falls due; None if it has none."""
        if cpu != TIMER_CPU:
            return None
        due = [timer.due for timer in self._timers]
        change = self._live.next_due() if self._live is not None else None
        if change is not None:
            due.append(change)
        return min(due, default=None)

    def skip(self, cpu: int, until: int) -> None:
        """Let the timers of a CPU that fall due before `until` (ns) go by."""
        if cpu == TIMER_CPU:
            for timer in self._timers:
                if timer.due < until:
                    timer.go_beyond(until - 1)
