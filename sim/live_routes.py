"""Routing changes while packets flow: the truth, the FIB and the caches follow them, each at its time.

A change goes into the truth and into the FIB at once and asks the structure to flush, which it does later (models/flush.py). Until
then it answers as it learned: such an answer is *stale*, counted, and no error; a wrong answer with no flush to come is one.

Changes are made by CPU 0 at the end of a softirq round. Left out: what the change of the FIB itself costs (the routing daemon's
time, not the packets'), and packets on the other CPU that are in the middle of their lookup.
"""

from __future__ import annotations

from typing import Protocol

from models.drive import Price, drive_flush
from models.flow import PacketBatch
from models.flush import MAX_DELAY_S, MIN_DELAY_S, FlushTimer
from models.interface import Context, FlowCache
from models.kernel import I64
from models.route_hash import RouteHash
from models.slow_path import SlowPath
from sim.account import WRONG, Ledger
from traces.churn import WITHDRAWN, Churn


class Resolver(Protocol):
    """What every answer is checked against."""

    def resolve(self, batch: PacketBatch) -> None:
        """Write the route of each packet's destination into batch.route."""


class LiveRoutes:
    """The changes of one run, and the flushes that they ask for."""

    def __init__(
        self,
        churn: Churn,
        truth: RouteHash,
        slow_path: SlowPath,
        structure: FlowCache,
        *,
        nexthop: I64,
        next_route: int,
        unreachable: int,
    ) -> None:
        """`nexthop`: int64[len(churn.nexthops)], number in the slow path of each of the churn's next hops.

        `next_route`: the first number that no route has yet; `unreachable`: what the truth says where there is no default route.
        ValueError for a structure that cannot flush.
        """
        if not structure.can_flush():
            raise ValueError(f"{structure.name} has no flush(), which runs in which routes change need; see docs/extending.md")
        self.changes = self.in_vain = self.flushes = self.stale = 0
        self._churn = churn
        self._time = churn.time_ns
        self._truth = truth
        self._slow_path = slow_path
        self._structure = structure
        self._nexthop = nexthop
        self._next_route = next_route
        self._unreachable = unreachable
        self._at = 0
        self._wrong = 0
        params = structure.params
        self._timer = FlushTimer(
            getattr(params, "min_delay_s", MIN_DELAY_S),
            getattr(params, "max_delay_s", MAX_DELAY_S),
        )

    def counters(self) -> dict[str, int]:
        """Changes made, withdrawals of prefixes that the table did not hold, flushes run, answers from before a change."""
        return {"changes": self.changes, "in_vain": self.in_vain, "flushes": self.flushes, "stale": self.stale}

    def next_due(self) -> int | None:
        """Time (ns) of the next change or flush; None if there is none."""
        due = [int(time) for time in self._time[self._at : self._at + 1]]
        if self._timer.due is not None:
            due.append(self._timer.due)
        return min(due, default=None)

    def run(self, now: int, ctx: Context, price: Price) -> None:
        """Make the changes that are due at `now` (ns), and the flush if that is."""
        changed = False
        while self._at < self._time.size and self._time[self._at] <= now:
            changed |= self._make(self._at)
            self._at += 1
        if changed:
            self._timer.ask(now)
        if self._timer.due is not None and self._timer.due <= now:
            drive_flush(self._structure, ctx, price)
            self._timer.done()
            self.flushes += 1

    def _make(self, at: int) -> bool:
        """One change; False if it changes nothing."""
        churn = self._churn
        prefix, plen, hop = int(churn.prefix[at]), int(churn.plen[at]), int(churn.nexthop[at])
        if hop == WITHDRAWN:
            if not self._slow_path.remove(prefix, plen):
                self.in_vain += 1
                return False
            if plen == 0:
                self._truth.insert(0, 0, self._unreachable)
            else:
                self._truth.remove(prefix, plen)
        else:
            # A new number each time, so that an answer from before the change can be told from one after it.
            self._truth.insert(prefix, plen, self._next_route)
            self._slow_path.change(prefix, plen, self._next_route, int(self._nexthop[hop]))
            self._next_route += 1
        self.changes += 1
        return True

    def review(self, ledger: Ledger) -> None:
        """Book answers that the ledger has come to call wrong as stale, if a flush is still to come."""
        new = int(ledger.total[WRONG]) - self._wrong
        if new and self._timer.due is not None:
            self.stale += new
            ledger.total[WRONG] -= new
        else:
            self._wrong += new
