"""The pricer: what a poll of one CPU costs, from its access log to 1/1024 cycles to nanoseconds.

Puts together the memory model with the packet path (sim/pricing.py), the slow path's own touches (models/slow_path.py) and the cost
sheet (sim/costs.py), and keeps the bill by function. A poll first cleans up what was transmitted before, as the e1000's does: on
the CPU that transmitted it, or on the other one (`tx_completion_cpu`).
"""

from __future__ import annotations

from models.access import AccessLog, begin_batch, empty, make_log
from models.flow import PacketBatch
from models.functions import names
from models.interface import World
from models.slow_path import SLOW_PATH_RECORDS, SlowPath, slow_path
from sim.costs import CostSheet, CycleClock, Tariff, charge, make_bill
from sim.machine import Machine
from sim.memory import CLASSES, make_memory
from sim.packet_path import OPEN, make_path
from sim.pricing import ROUTED, Pricing
from sim.scenario import Box

TX_CLEAN = 65
"""Most packets that one poll cleans up (e1000_clean_tx_irq)."""


class Pricer:
    """Prices of one box. `bill` holds cycles, touches and calls by function since `reset_bill`."""

    def __init__(
        self, machine: Machine, sheet: CostSheet, tariff: Tariff, slow_path: SlowPath, world: World, settings: Box, cpus: int
    ) -> None:
        path = make_path(world.memory, cpus, sheet.path, rx_ring=settings.rx_ring, resolve_path=settings.resolve_path)
        self.pricing = Pricing(make_memory(machine, cpus), path)
        self.tariff = tariff
        self.slow_path = slow_path
        self.bill = make_bill(CLASSES)
        self._slow_log = make_log((settings.poll + 1) * SLOW_PATH_RECORDS, settings.poll + 1)
        self._clocks = [CycleClock(int(machine.clock_hz)) for _ in range(cpus)]
        self._completes = [cpu if settings.tx_completion_cpu == "same" else (cpu + 1) % cpus for cpu in range(cpus)]
        self._functions = len(names())
        self.priced_records = 0

    def reset_bill(self) -> None:
        """Forget what was charged so far."""
        for column in self.bill:
            column[:] = 0
        self.priced_records = 0

    def begin_poll(self, cpu: int, batch: PacketBatch) -> int:
        """Clean up what was transmitted, and let the card's writes take effect; returns the price in ns."""
        before = self.pricing.path.begin[3] - self.pricing.path.begin[2]
        done = self.pricing.complete(cpu, self._completes[cpu], TX_CLEAN)
        self.priced_records += done * int(before)
        self.pricing.arrive(batch, cpu)
        return self._charge(cpu, self._slow_log, 0, 0, False)

    def packets(self, cpu: int, batch: PacketBatch, log: AccessLog, first: int, stop: int) -> int:
        """Price packets [first, stop) of a batch and what the log holds of packet `stop`, still open; returns the price in ns."""
        packets, slow = int(batch.packets[0]), self._slow_log
        empty(slow)
        begin_batch(slow, packets + 1)
        routed = int(self.pricing.path.cpu[cpu, OPEN]) == ROUTED
        written = slow_path(self.slow_path.state, batch, log, slow, cpu, first, stop, int(stop < packets), int(routed))
        if written < 0:
            raise AssertionError("the slow path wrote more records than SLOW_PATH_RECORDS allows for")
        log.calls[: self._functions] += slow.calls[: self._functions]
        self.priced_records += self.pricing.poll(log, slow, cpu, first, stop, packets)
        return self._charge(cpu, log, first, stop, False)

    def records(self, cpu: int, log: AccessLog) -> int:
        """Price a log that belongs to no packet (delayed frees, timers); returns the price in ns."""
        self.priced_records += self.pricing.records(log, cpu)
        return self._charge(cpu, log, 0, 0, True)

    def _charge(self, cpu: int, log: AccessLog, first: int, stop: int, all_slow: bool) -> int:
        cycles = charge(
            self.tariff, self.bill, self.pricing.memory.counts, log.calls, log.miss, first, stop, all_slow, self._functions
        )
        return self._clocks[cpu].ns(int(cycles))
