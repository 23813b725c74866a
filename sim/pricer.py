"""The pricer: what a poll of one CPU costs, from its access log to 1/1024 cycles to nanoseconds.

Puts together the memory model with the packet path (sim/pricing.py), the slow path's own touches (models/slow_path.py) and the cost
sheet (sim/costs.py), and keeps the bill by function. A poll first cleans up what was transmitted before, as the e1000's does: on
the CPU that transmitted it, or on the other one (`tx_completion_cpu`).
"""

from __future__ import annotations

from collections.abc import Iterator

from models.access import USED, AccessLog, make_log
from models.flow import PacketBatch
from models.functions import names
from models.interface import World
from models.kernel import I64, Standing, i64, kernel
from models.slow_path import SLOW_PATH_RECORDS, SlowPath, SlowPathState, slow_path
from sim.costs import Bill, CostSheet, CycleClock, Tariff, charge, make_bill
from sim.machine import Machine
from sim.memory import CLASSES, Memory, make_memory
from sim.packet_path import OPEN, PacketPath, make_path
from sim.pricing import ROUTED, Pricing, begin_poll, price_poll, price_records
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
        self._rows_done = int(path.begin[3] - path.begin[2])
        self._begin, self._packets, self._records = Standing(_begin_loop, 5), Standing(_packets_loop, 4), Standing(_records_loop, 2)
        self.priced_records = 0

    def reset_bill(self) -> None:
        """Forget what was charged so far."""
        for column in self.bill:
            column[:] = 0
        self.priced_records = 0

    def begin_poll(self, cpu: int, batch: PacketBatch) -> int:
        """Clean up what was transmitted, and let the card's writes take effect; returns the price in ns."""
        pricing = self.pricing
        ring = self._completes[cpu]
        completed = pricing.ready_to_begin(batch, cpu, ring, TX_CLEAN)
        self.priced_records += self._rows_done * completed
        states = (pricing.memory, pricing.path, self.tariff, self.bill, batch, self._slow_log)
        return self._clocks[cpu].ns(self._begin(states, cpu, ring, completed, int(batch.packets[0]), self._functions))

    def packets(self, cpu: int, batch: PacketBatch, log: AccessLog, first: int, stop: int) -> int:
        """Price packets [first, stop) of a batch and what the log holds of packet `stop`, still open; returns the price in ns."""
        pricing = self.pricing
        pricing.make_room(cpu, stop - first, log.record.size + self._slow_log.record.size)
        states = (pricing.memory, pricing.path, self.tariff, self.bill, self.slow_path.state, batch, log, self._slow_log)
        records, cycles = self._packets(states, cpu, first, stop, self._functions)
        if records < 0:
            raise AssertionError("the slow path wrote more records than SLOW_PATH_RECORDS allows for")
        self.priced_records += records
        return self._clocks[cpu].ns(cycles)

    def records(self, cpu: int, log: AccessLog) -> int:
        """Price a log that belongs to no packet (delayed frees, timers); returns the price in ns."""
        records, cycles = self._records((self.pricing.memory, self.tariff, self.bill, log), cpu, self._functions)
        self.priced_records += records
        return self._clocks[cpu].ns(cycles)


@kernel
def charge_only(tariff: Tariff, bill: Bill, mem: Memory, log: AccessLog, all_slow: bool, functions: int) -> int:
    """Charge what was counted outside packets. Returns 1/1024 cycles."""
    return charge(tariff, bill, mem.counts, log.calls, log.miss, 0, 0, all_slow, functions)


@kernel
def price_packets(
    mem: Memory,
    path: PacketPath,
    tariff: Tariff,
    bill: Bill,
    routing: SlowPathState,
    batch: PacketBatch,
    log: AccessLog,
    slow: AccessLog,
    cpu: int,
    first: int,
    stop: int,
    functions: int,
) -> tuple[int, int]:
    """The whole price of part of a poll in one kernel call: slow path, merge, memory, charge. Returns (records, 1/1024 cycles).

    One call instead of three: handing the states over costs more than the arithmetic in between. (-1, 0) if `slow` lacks room.
    """
    packets = i64(batch.packets[0])
    slow.head[USED] = 0
    routed = 1 if path.cpu[cpu, OPEN] == ROUTED else 0
    if slow_path(routing, batch, log, slow, cpu, first, stop, 1 if stop < packets else 0, routed) < 0:
        return -1, 0
    for f in range(functions):
        log.calls[f] += slow.calls[f]
        slow.calls[f] = 0
    records = price_poll(mem, path, log, slow, cpu, first, stop, packets)
    return records, charge(tariff, bill, mem.counts, log.calls, log.miss, first, stop, False, functions)


@kernel
def _packets_loop(
    mem: Memory,
    path: PacketPath,
    tariff: Tariff,
    bill: Bill,
    routing: SlowPathState,
    batch: PacketBatch,
    log: AccessLog,
    slow: AccessLog,
    numbers: I64,
) -> Iterator[tuple[int, int]]:
    """price_packets over and over; numbers: cpu, first, stop, functions."""
    while True:
        yield price_packets(
            mem, path, tariff, bill, routing, batch, log, slow, i64(numbers[0]), i64(numbers[1]), i64(numbers[2]), i64(numbers[3])
        )


@kernel
def _begin_loop(
    mem: Memory, path: PacketPath, tariff: Tariff, bill: Bill, batch: PacketBatch, log: AccessLog, numbers: I64
) -> Iterator[int]:
    """begin_poll and its charge over and over; numbers: cpu, ring, packets completed, packets arrived, functions."""
    while True:
        begin_poll(mem, path, batch.length, i64(numbers[0]), i64(numbers[1]), i64(numbers[2]), i64(numbers[3]))
        yield charge_only(tariff, bill, mem, log, False, i64(numbers[4]))


@kernel
def _records_loop(mem: Memory, tariff: Tariff, bill: Bill, log: AccessLog, numbers: I64) -> Iterator[tuple[int, int]]:
    """The price of a log that belongs to no packet, over and over; numbers: cpu, functions. Yields (records, 1/1024 cycles)."""
    while True:
        records = price_records(mem, log, i64(numbers[0]))
        yield records, charge_only(tariff, bill, mem, log, True, i64(numbers[1]))
