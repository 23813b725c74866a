"""Delayed frees: what a structure has unlinked waits here until no reader can hold it.

Models call_rcu_bh of kernel/rcupdate.c, 2.6.20, reduced to what a saturated box shows: per CPU a queue in order of unlinking;
after every softirq round (about 300 packets) a CPU may run `blimit` (10) callbacks whose grace period of 3 ticks has passed, or all
of them once more than `qhimark` (10,000) are waiting, until no more than `qlowmark` (100) are left. The box asks
`allowance` after each round and has the structure reclaim that many; the ids stay in `entries` until then.
Left out: tasklet scheduling between rounds and quiescent-state reports, which the 3 ticks stand for.
"""

from typing import NamedTuple

import numpy as np

from models.kernel import I64, i64, kernel

BLIMIT, QHIMARK, QLOWMARK = 10, 10_000, 100
GRACE_TICKS = 3

HEAD, WAITING, UNLIMITED = 0, 1, 2


class RcuState(NamedTuple):
    """One ring per CPU; grown by Rcu.grow, never by a kernel."""

    id: I64  # int64[cpus, room], what waits: an entry id of the structure that queued it
    since: I64  # int64[cpus, room], ns, when it was queued
    var: I64  # int64[cpus, 3]: index of the oldest, number waiting, 1 while callbacks run without limit


class Rcu:
    """The queues of one run. `state` is replaced by `grow`: read it afresh for every kernel call."""

    def __init__(
        self,
        cpus: int = 2,
        hz: int = 1000,
        *,
        room: int = 1 << 15,
        blimit: int = BLIMIT,
        qhimark: int = QHIMARK,
        qlowmark: int = QLOWMARK,
    ) -> None:
        if room < 1 or room & (room - 1):
            raise ValueError(f"room must be a power of two, got {room}")
        self.grace_ns = GRACE_TICKS * 1_000_000_000 // hz
        self.blimit, self.qhimark, self.qlowmark = blimit, qhimark, qlowmark
        self.state = RcuState(np.zeros((cpus, room), np.int64), np.zeros((cpus, room), np.int64), np.zeros((cpus, 3), np.int64))

    def waiting(self, cpu: int | None = None) -> int:
        """Ids queued on one CPU, or on all."""
        return int(self.state.var[:, WAITING].sum() if cpu is None else self.state.var[cpu, WAITING])

    def allowance(self, cpu: int, now: int) -> int:
        """How many callbacks this CPU may run after a softirq round that ends at `now` (ns). Asked once per round."""
        waiting = int(self.state.var[cpu, WAITING])
        if waiting > self.qhimark:
            self.state.var[cpu, UNLIMITED] = 1
        elif waiting <= self.qlowmark:
            self.state.var[cpu, UNLIMITED] = 0
        ready = int(ready_before(self.state, cpu, now - self.grace_ns))
        return ready if self.state.var[cpu, UNLIMITED] else min(ready, self.blimit)

    def grow(self) -> None:
        """Double the room of every queue, oldest first."""
        cpus, old = self.state.id.shape
        bigger = RcuState(np.zeros((cpus, old * 2), np.int64), np.zeros((cpus, old * 2), np.int64), self.state.var.copy())
        for cpu in range(cpus):
            head, waiting = int(self.state.var[cpu, HEAD]), int(self.state.var[cpu, WAITING])
            at = (head + np.arange(waiting)) & (old - 1)
            bigger.id[cpu, :waiting] = self.state.id[cpu, at]
            bigger.since[cpu, :waiting] = self.state.since[cpu, at]
            bigger.var[cpu, HEAD] = 0
        self.state = bigger


@kernel
def rcu_room(rcu: RcuState, cpu: int) -> int:
    """Ids that may still be queued on a CPU before the queue must grow."""
    return i64(rcu.id.shape[1] - rcu.var[cpu, WAITING])


@kernel
def call_rcu(rcu: RcuState, cpu: int, entry: int, now: int) -> None:
    """Queue an id at `now` (ns). The caller has checked rcu_room."""
    at = (rcu.var[cpu, HEAD] + rcu.var[cpu, WAITING]) & (rcu.id.shape[1] - 1)
    rcu.id[cpu, at] = entry
    rcu.since[cpu, at] = now
    rcu.var[cpu, WAITING] += 1


@kernel
def rcu_next(rcu: RcuState, cpu: int) -> int:
    """Take the oldest id off a CPU's queue. The caller knows that one is waiting."""
    head = rcu.var[cpu, HEAD]
    rcu.var[cpu, HEAD] = (head + 1) & (rcu.id.shape[1] - 1)
    rcu.var[cpu, WAITING] -= 1
    return i64(rcu.id[cpu, head])


@kernel
def ready_before(rcu: RcuState, cpu: int, deadline: int) -> int:
    """Ids at the head of a queue that were queued at or before `deadline` (ns); they are in order of time: binary search."""
    mask = rcu.id.shape[1] - 1
    head = rcu.var[cpu, HEAD]
    low = 0
    high = rcu.var[cpu, WAITING]
    while low < high:
        middle = (low + high) >> 1
        if rcu.since[cpu, (head + middle) & mask] <= deadline:
            low = middle + 1
        else:
            high = middle
    return low
