"""The forwarding box: ports, CPUs, one structure, the FIB behind it and the clock.

A priced run is a simpy simulation: one process for each sender (it hands its port a chunk of arrivals at a time) and one for each
CPU (a softirq round of polls, then RCU callbacks, then timers), one event a poll. The work of a poll is done at its start, priced,
and the clock moves on by the price, so polls of two CPUs are priced in the order in which they begin, on one coherent memory.
Models net_rx_action (budget 300, device weight 64) and the e1000's poll, which first cleans up what was transmitted (2.6.20). A CPU
that has emptied its ring waits for the next interrupt, which the card moderates, so that polls are about as full as those the
cost sheet was fitted on. Left out: what an interrupt costs, and that the driver of 2.6.20 polls once more before it sleeps.

An unpriced run (`pace`) feeds the same structure at a given rate without card, memory or cost: for filling tables and for
reproducing measurements at a fixed rate.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from models.access import AccessLog, make_log
from models.drive import drive
from models.flow import PacketBatch, make_batch
from models.interface import Context, FlowCache, World
from models.kernel import Standing
from sim.account import Totals, account_loop, booked, forget_latency, make_ledger
from sim.housekeeping import Housekeeping
from sim.live_routes import LiveRoutes, Resolver
from sim.nic import Port, copy_packets
from sim.pricer import Pricer
from sim.scenario import Box as BoxSettings
from traces.source import Source
from traces.thin import thin

LOG_ROOM = 1 << 14
IDLE_TIMERS = 32
"""Enough for a table that nothing is added to to be swept several times (rt_hash: 32 minutes)."""
PACE_CHUNK = 1200
PACE_ROUND = 300


@dataclass(slots=True)
class _Cpu:
    context: Context
    port: Port
    source: Source
    free_at: int = 0  # ns, end of the work that an earlier phase began
    interrupted_at: int = 0  # ns, the last interrupt of the port
    paced_to: int = 0  # ns, the last packet that was put through unpriced
    wakes: Any = None  # simpy event: a sender has handed over arrivals
    ended: bool = False  # the source has no more packets


def _ignore(log: AccessLog, first: int, stop: int) -> None:
    """Price of an unpriced run."""


@dataclass
class Box:
    """One structure under test with everything around it. `now` is the simulated time in ns."""

    structure: FlowCache
    world: World
    truth: Resolver  # the route that every packet must get
    sources: list[Source]
    settings: BoxSettings
    pricer: Pricer
    now: int = 0
    longest_stall: int = 0  # ns, longest time between two polls' starts on one CPU
    each_round: Callable[[int], None] | None = None  # called with the time at the end of every softirq round
    live: LiveRoutes | None = None  # routing changes; without them packets are resolved a chunk at a time
    ledger: Any = field(default_factory=make_ledger)

    def __post_init__(self) -> None:
        words = self.sources[0].words
        self._log = make_log(LOG_ROOM, max(self.settings.poll, PACE_ROUND))
        self._quiet = make_log(1, PACE_ROUND, on=False)
        self._batch = make_batch(self.settings.poll, words)
        self._chunk = make_batch(PACE_CHUNK, words)
        self._part = make_batch(PACE_ROUND, words)
        self._cpus = [
            _Cpu(Context(0, cpu, self._log, self.world), Port(self.settings.rx_ring, words), source)
            for cpu, source in enumerate(self.sources)
        ]
        self._paced = Totals()
        self._account = Standing(account_loop, 4)
        self._housekeeping = Housekeeping(self.structure, self.live)

    # -- totals --------------------------------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """Packets so far, over all ports and both kinds of run."""
        found = booked(self.ledger)
        for cpu in self._cpus:
            offered, dropped, _ = cpu.port.totals()
            found.offered += offered
            found.dropped += dropped
            found.queued += cpu.port.queued
        found.offered += self._paced.offered
        found.dropped += self._paced.dropped
        return found

    def routing_counters(self) -> dict[str, int]:
        """What became of changes of routes so far; empty where none come."""
        return self.live.counters() if self.live is not None else {}

    def reset_latency(self) -> None:
        """Forget latencies and stalls of the warm-up; the counters stay."""
        forget_latency(self.ledger)
        self.longest_stall = 0

    @property
    def ended(self) -> bool:
        """True when every source has ended and every ring is empty."""
        return all(cpu.ended and cpu.port.queued == 0 and cpu.port.next_arrival() is None for cpu in self._cpus)

    @property
    def busy_until(self) -> int:
        """End of the work that has been begun, ns: after `run`, when the last CPU came to rest."""
        return max(cpu.free_at for cpu in self._cpus)

    def next_arrival(self) -> int:
        """Time (ns) at which every port has its next packet or has ended; `now` if that is earlier or not known yet."""
        return max([self.now, *(cpu.port.next_arrival() or 0 for cpu in self._cpus)])

    # -- priced --------------------------------------------------------------------------------------------------------

    def run(self, until: int) -> None:
        """Run priced until `until` (ns), or until every source has ended and its packets are through."""
        env = simpy.Environment(initial_time=self.now)
        for cpu in self._cpus:
            cpu.wakes = env.event()
            env.process(self._sender(env, cpu))
            env.process(self._softirq(env, cpu))
        if until > self.now:
            env.run(until=until)
        self.now = until

    def _sender(self, env: simpy.Environment, cpu: _Cpu) -> Generator[simpy.Event, Any, None]:
        """Hand the port its next chunk when the last packet of the one before has arrived."""
        port = cpu.port
        while True:
            if port.next_arrival() is None:
                if not self._next_chunk(cpu, port.chunk):
                    cpu.wakes.succeed()
                    return
                port.begin_chunk()
                cpu.wakes.succeed()
                cpu.wakes = env.event()
            last = int(port.chunk.time[port.chunk.packets[0] - 1])
            if last > env.now:
                yield env.timeout(last - env.now)
            port.receive(int(env.now))

    def _next_chunk(self, cpu: _Cpu, chunk: PacketBatch) -> bool:
        if not cpu.ended and cpu.source.fill(chunk) == 0:
            cpu.ended = True
        if cpu.ended:
            chunk.packets[0] = 0
            return False
        if self.live is None:
            self.truth.resolve(chunk)
        return True

    def _softirq(self, env: simpy.Environment, cpu: _Cpu) -> Generator[simpy.Event, Any, None]:
        """net_rx_action over and over: polls until the budget is used or the ring is empty, then RCU callbacks and timers."""
        settings = self.settings
        if cpu.free_at > env.now:
            yield env.timeout(cpu.free_at - env.now)
        if cpu.interrupted_at > env.now:  # an earlier phase ended while the card held an interrupt back
            yield env.timeout(cpu.interrupted_at - env.now)
        started = int(env.now)
        quiet = 1_000_000_000 // settings.interrupt_rate if settings.interrupt_rate else 0
        idle = False  # the ring was emptied: polling is left, the next interrupt begins it again
        while True:
            cpu.port.receive(int(env.now))
            if cpu.port.queued == 0 or idle:
                arrival = cpu.port.next_arrival() if cpu.port.queued == 0 else int(env.now)
                if arrival is not None:
                    # The card holds the next interrupt back until its interval is over.
                    cpu.interrupted_at = max(arrival, int(env.now), cpu.interrupted_at + quiet)
                    yield from self._idle(env, cpu, cpu.interrupted_at)
                elif cpu.ended:
                    return
                else:
                    yield cpu.wakes
                idle = False
                started = int(env.now)
                continue
            used = 0
            while used < settings.budget:
                now = int(env.now)
                self.longest_stall = max(self.longest_stall, now - started)
                started = now
                n = cpu.port.receive_and_poll(now, self._batch, min(settings.poll, settings.budget - used))
                if n == 0:
                    break
                cpu.free_at = now + self._poll(cpu, now)
                yield env.timeout(cpu.free_at - now)
                used += n
                if quiet and n < settings.poll and used < settings.budget:
                    idle = True
                    break
            now = int(env.now)
            cpu.free_at = now + self._after_round(cpu, now)
            if self.each_round is not None:
                self.each_round(cpu.free_at)
            if cpu.free_at > now:
                yield env.timeout(cpu.free_at - now)

    def _idle(self, env: simpy.Environment, cpu: _Cpu, until: int) -> Generator[simpy.Event, Any, None]:
        """Sleep until the next interrupt. On CPU 0 the first IDLE_TIMERS timers that fall due meanwhile run at their time.

        What they do in idle time takes nothing from any packet, so it is not on the bill.
        """
        number, housekeeping = cpu.context.cpu, self._housekeeping
        for _ in range(IDLE_TIMERS):
            due = housekeeping.next_due(number)
            if due is None or due >= until:
                break
            if due > env.now:
                yield env.timeout(due - int(env.now))
            now = int(env.now)
            before = [column.copy() for column in self.pricer.bill]
            cpu.free_at = now + self._after_round(cpu, now)
            for column, kept in zip(self.pricer.bill, before, strict=True):
                column[:] = kept
            yield env.timeout(cpu.free_at - now)
        housekeeping.skip(number, until)
        yield env.timeout(max(0, until - int(env.now)))

    def _poll(self, cpu: _Cpu, now: int) -> int:
        """The work of one poll; returns its price in ns."""
        context, batch, pricer = cpu.context, self._batch, self.pricer
        context.now, context.log = now, self._log
        if self.live is not None:
            self.truth.resolve(batch)
        begun = now + pricer.begin_poll(context.cpu, batch)
        spent = begun

        def price(log: AccessLog, first: int, stop: int) -> None:
            nonlocal spent
            end = spent + pricer.packets(context.cpu, batch, log, first, stop)
            if stop > first:
                self._book(batch, log, first, stop, spent, end)
            spent = end

        drive(self.structure, batch, context, price)
        return spent - now

    def _book(self, batch: PacketBatch, log: AccessLog, first: int, stop: int, begin: int, end: int) -> None:
        self._account((self.ledger, batch, log), first, stop, begin, end)
        if self.live is not None:
            self.live.review(self.ledger)

    def _after_round(self, cpu: _Cpu, now: int) -> int:
        """RCU callbacks, and on CPU 0 the timers that are due; returns the price in ns."""
        context = cpu.context
        context.now, context.log = now, self._log
        spent = 0

        def price(log: AccessLog, first: int, stop: int) -> None:
            nonlocal spent
            spent += self.pricer.records(context.cpu, log)

        self._housekeeping.run(context, now, price)
        return spent

    # -- unpriced ------------------------------------------------------------------------------------------------------

    def pace(self, until: int, keep: float, rng: np.random.Generator) -> None:
        """Run unpriced until `until` (ns): of what the sources send a share `keep` reaches the structure, the rest is dropped.

        Which packets are dropped is drawn uniformly: tail drop at a full ring does not look at flows.
        """
        for cpu in self._cpus:
            self._drain(cpu)
        while self.now < until:
            reached = until
            for cpu in self._cpus:
                if cpu.paced_to < until:  # chunks of a slow source reach beyond
                    reached = min(reached, self._pace_chunk(cpu, keep, rng))
            if all(cpu.ended for cpu in self._cpus):
                reached = until
            self.now = max(self.now, reached)
        for cpu in self._cpus:
            cpu.free_at = self.now

    def _pace_chunk(self, cpu: _Cpu, keep: float, rng: np.random.Generator) -> int:
        """Feed one chunk of one CPU's source; returns the time of its last packet."""
        chunk = self._chunk
        if not self._next_chunk(cpu, chunk):
            return 1 << 62
        offered = int(chunk.packets[0])
        last = cpu.paced_to = int(chunk.time[offered - 1])
        if keep < 1.0:
            thin(chunk, keep, rng)
        kept = int(chunk.packets[0])
        self._paced.offered += offered
        self._paced.dropped += offered - kept
        self._feed(cpu, chunk, kept)
        return last

    def _drain(self, cpu: _Cpu) -> None:
        """Put what waits in the ring and in the port's chunk through unpriced, so that no packet is lost between two phases."""
        port = cpu.port
        while port.queued or port.next_arrival() is not None:
            arrival = port.next_arrival()
            if port.queued == 0 and arrival is not None:
                port.receive(arrival)
            n = port.poll(self._chunk, PACE_ROUND)
            cpu.paced_to = int(self._chunk.time[n - 1])
            self._feed(cpu, self._chunk, n)

    def _feed(self, cpu: _Cpu, chunk: PacketBatch, packets: int) -> None:
        context, log, part = cpu.context, self._quiet, self._part
        context.log = log
        for first in range(0, packets, PACE_ROUND):
            stop = min(first + PACE_ROUND, packets)
            copy_packets(chunk, first, part, stop - first)
            context.now = int(part.time[stop - first - 1])
            if self.live is not None:
                self.truth.resolve(part)
            drive(self.structure, part, context, _ignore)
            self._book(part, log, 0, stop - first, context.now, context.now)
            self._housekeeping.run(context, context.now, _ignore)
