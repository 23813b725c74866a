"""Cost sheets: what a call of each function costs in instructions, and how counts become cycles.

The time of a function is its calls times the sheet's instruction cycles plus, for each level of the memory model, its touches
served there times that level's latency. Everything is an integer in units of 1/1024 cycle, so that sums do not depend on their
order. A sheet says of each number where it comes from: measured, published, fitted (on which rows) or estimated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from models.functions import MAX_FUNCTIONS, register
from models.interface import FlowCache
from models.kernel import I64, NIL, kernel
from sim.memory import CLASS_BITS
from sim.toml_input import load_named

UNIT = 1024
"""Parts of a cycle that costs are counted in."""

Category = Literal["per packet", "per lookup", "per slow path", "per collection"]

HIT, SLOW = 0, 1
"""Planes of the counts: packets that hit (and all work that goes with no packet in particular), packets of the slow path."""


class FunctionCost(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One function of a sheet."""

    name: str
    structure: str | None = None  # only behind this structure, whose body of the function differs; it goes before the general entry
    cycles: float  # instruction work of one call
    category: Category
    source: str
    per_packet: float = 0.0  # calls that the packet path makes for every packet
    resolve_path: bool = False  # only while every packet takes the neighbour's resolve path


class MemoryLatency(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Latency of a line that comes from memory, where the sheet's experiment calls for another than the machine's."""

    ns: float
    source: str
    machine: str | None = None  # the machine it was fitted on; others keep their own. None: any machine


class Adjustment(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A packet path that differs between two published boots: functions scaled by the ratio of their published cycles."""

    name: str
    functions: list[str]
    numerator: str  # structure and buckets of the dearer boot's published profile
    denominator: str
    source: str


class PathRow(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One touch that the packet path makes for every packet."""

    phase: Literal["receive", "forward", "complete"]
    function: str
    kind: Literal["read", "write"]
    object: str
    offset: int = 0
    resolve_path: bool = False


class CostSheet(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A whole sheet."""

    schema: int = 1
    name: str
    title: str
    memory_latency: MemoryLatency | None = None
    default_cycles: float = 60.0  # of a function that neither the sheet nor its structure prices
    function: list[FunctionCost]
    path: list[PathRow] = []
    adjustment: list[Adjustment] = []


def load_costs(name: str) -> CostSheet:
    """A sheet of the project by name, or a user's own file. ValueError with the place of what is wrong."""
    return load_named(CostSheet, name, Path(__file__).parent / "costs", "cost sheet")


class Tariff(NamedTuple):
    """A sheet in the form that kernels read."""

    cycles: I64  # int64[MAX_FUNCTIONS], instruction work of one call, 1/1024 cycle
    per_packet: I64  # int64[MAX_FUNCTIONS], calls of the packet path for every packet, 1/1024 call
    slow: I64  # int64[MAX_FUNCTIONS], 1 for functions whose calls beyond per_packet belong to the slow path or a collection
    scale: I64  # int64[MAX_FUNCTIONS], 1024 unless an adjustment scales the function
    latency: I64  # int64[CLASSES], what one touch of each class costs, 1/1024 cycle


def make_tariff(
    sheet: CostSheet, structure: FlowCache | None, latency: I64, *, resolve_path: bool, scale: dict[str, float]
) -> Tariff:
    """Numbers of a sheet for one row. Functions of a user's own structure get what it declares, or the sheet's default."""
    cycles = np.full(MAX_FUNCTIONS, round(sheet.default_cycles * UNIT), np.int64)
    per_packet = np.zeros(MAX_FUNCTIONS, np.int64)
    slow = np.zeros(MAX_FUNCTIONS, np.int64)
    factors = np.full(MAX_FUNCTIONS, UNIT, np.int64)
    if structure is not None:
        for name in structure.functions:
            cycles[register(name)] = round(structure.instruction_cycles.get(name, sheet.default_cycles) * UNIT)
    own_name = structure.name if structure is not None else ""
    general = [entry for entry in sheet.function if entry.structure is None]
    for entry in [*general, *(entry for entry in sheet.function if entry.structure == own_name)]:
        at = register(entry.name)
        cycles[at] = round(entry.cycles * UNIT)
        if resolve_path or not entry.resolve_path:
            per_packet[at] = round(entry.per_packet * UNIT)
        slow[at] = entry.category in ("per slow path", "per collection") or entry.per_packet > 0
    for name, factor in scale.items():
        factors[register(name)] = round(factor * UNIT)
    return Tariff(cycles, per_packet, slow, factors, latency)


class Bill(NamedTuple):
    """Cycles charged so far; reset by whoever opens a window."""

    cycles: I64  # int64[2, MAX_FUNCTIONS], 1/1024 cycle, by plane and function
    touches: I64  # int64[2, MAX_FUNCTIONS, CLASSES]
    calls: I64  # int64[MAX_FUNCTIONS], 1/1024 call


def make_bill(classes: int) -> Bill:
    """An empty bill."""
    return Bill(
        np.zeros((2, MAX_FUNCTIONS), np.int64),
        np.zeros((2, MAX_FUNCTIONS, classes), np.int64),
        np.zeros(MAX_FUNCTIONS, np.int64),
    )


@kernel
def charge(
    tariff: Tariff, bill: Bill, counts: I64, calls: I64, miss: I64, first: int, stop: int, all_slow: bool, functions: int
) -> int:
    """Turn counts and calls into cycles, add them to the bill and zero them. Returns the sum in 1/1024 cycle.

    counts: int64[2 * MAX_FUNCTIONS << CLASS_BITS], plane by plane; calls: int64[MAX_FUNCTIONS], of structure and slow path; miss:
    int64[batch], NIL for packets that hit; [first, stop): packets that finished, for the packet path's own calls and for sharing
    the calls of lookups between the planes; all_slow: book everything to SLOW; functions: function numbers in use.
    """
    slows = 0
    for i in range(first, stop):
        if miss[i] != NIL:
            slows += 1
    packets = stop - first
    total = 0
    for f in range(functions):
        own = calls[f] * UNIT
        calls[f] = 0
        own_slow = own if tariff.slow[f] != 0 or all_slow else 0
        if own_slow == 0 and packets > 0:
            own_slow = own * slows // packets
        for plane in range(2):
            called = own_slow if plane == SLOW else own - own_slow
            called += tariff.per_packet[f] * (slows if plane == SLOW else packets - slows)
            sum_ = called * tariff.cycles[f] // UNIT
            booked = SLOW if all_slow else plane
            row = (plane * MAX_FUNCTIONS + f) << CLASS_BITS
            touched = 0
            for c in range(1 << CLASS_BITS):  # most rows are empty, and a fixed number of classes is no loop at all
                touched |= counts[row + c]
            if touched != 0:
                for c in range(tariff.latency.size):
                    n = counts[row + c]
                    sum_ += n * tariff.latency[c]
                    bill.touches[booked, f, c] += n
                    counts[row + c] = 0
            if sum_ != 0:
                sum_ = sum_ * tariff.scale[f] // UNIT
                bill.cycles[booked, f] += sum_
                total += sum_
            bill.calls[f] += called
    return total


class CycleClock:
    """Turns 1/1024 cycles into whole nanoseconds and carries the remainder, so that nothing is lost to rounding."""

    def __init__(self, clock_hz: int) -> None:
        self._divisor = clock_hz * UNIT
        self._rest = 0

    def ns(self, cycles: int) -> int:
        """Nanoseconds that have become whole after so many more 1/1024 cycles."""
        whole, self._rest = divmod(cycles * 1_000_000_000 + self._rest, self._divisor)
        return whole
