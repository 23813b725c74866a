"""A machine: clock, CPUs, cache levels, TLBs and memory latencies as named data, one TOML file each. Nothing is detected.

Cache geometry bears kerncraft's names (sets, ways, cl_size, replacement_policy, write_allocate, write_back, load_from, store_to,
victims_to); times and TLBs bear ChampSim's. Beside every number stands where it comes from. A file is read strictly:
unknown keys, wrong types and impossible values are refused in one sentence.

What can be written in a file is more than sim/memory.py can run today: shared levels and a third level are understood here
and refused there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from models.access import LINE
from sim.errors import UserError
from sim.toml_input import load_named

MACHINES = Path(__file__).parent / "machines"

MOST_NS = 1_000_000
"""A memory that answers after a millisecond is a mistake in the unit."""

ONE = 1024
"""Costs are integers of 1/1024 cycle."""


class Number(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A figure and its source; estimates say so."""

    value: int | float
    source: str

    def __int__(self) -> int:
        return int(self.value)


class Level(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One cache level. `victims_to` names the level that every line leaving this one moves to (exclusive hierarchies)."""

    level: str
    sets: Number
    ways: Number
    cl_size: Number
    latency: Number  # load-to-use, cycles
    replacement_policy: Literal["LRU", "FIFO", "RR", "MRU"] = "LRU"
    write_allocate: bool = True
    write_back: bool = True
    load_from: str | None = None
    store_to: str | None = None
    victims_to: str | None = None
    cores_per_group: int = 1  # more than one: the level is shared

    @property
    def size_bytes(self) -> int:
        return int(self.sets) * int(self.ways) * int(self.cl_size)


class TlbLevel(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Translations of one page size. `sets` is 1 when fully associative."""

    sets: Number
    ways: Number
    latency: Number | None = None  # cycles that a hit here costs beyond the level before; None for the first


class Tlb(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The TLBs for one page size."""

    page_bytes: Number
    dtlb: TlbLevel
    walk_latency: Number  # cycles that a walk of the cached page tables costs
    stlb: TlbLevel | None = None


class Tlbs(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    small: Tlb
    large: Tlb


class Machine(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A whole machine file."""

    name: str
    title: str
    page_kind: Literal["small", "large"]  # what maps the kernel's objects
    clock_hz: Number
    cpus: Number
    memory_ns: Number  # load of a line that no cache holds
    transfer_ns: Number  # load of a line that another CPU holds modified
    upgrade_ns: Number  # store to a line that is held, but not alone
    remote_ns: Number  # load from another socket's memory
    level: list[Level]
    tlb: Tlbs

    def pages(self) -> Tlb:
        """The TLBs of the page size that maps the kernel's objects."""
        return self.tlb.large if self.page_kind == "large" else self.tlb.small

    def cycles(self, ns: float) -> int:
        """Nanoseconds as cycles of this machine, in 1/1024."""
        return round(ns * int(self.clock_hz) * ONE / 1_000_000_000)

    def nanoseconds(self, cost: int) -> int:
        """A cost in 1/1024 cycle as whole nanoseconds, rounded to the nearest."""
        hz = int(self.clock_hz)
        return (cost * 1_000_000_000 + hz * ONE // 2) // (hz * ONE)


def _power_of_two(value: float) -> bool:
    return value == int(value) and value >= 1 and int(value) & (int(value) - 1) == 0


def _check(machine: Machine, place: str) -> None:
    """UserError for values that no machine can have."""

    def refuse(what: str) -> None:
        raise UserError(f"{place}: {what}")

    if int(machine.clock_hz) < 1:
        refuse(f"clock_hz must be positive, got {machine.clock_hz.value}")
    if not 1 <= int(machine.cpus) <= 64:
        refuse(f"cpus must be from 1 to 64, got {machine.cpus.value}")
    for name in ("memory_ns", "transfer_ns", "upgrade_ns", "remote_ns"):
        if getattr(machine, name).value < 0:
            refuse(f"{name} must not be negative, got {getattr(machine, name).value}")
        if not getattr(machine, name).value <= MOST_NS:
            refuse(f"{name} must be at most {MOST_NS:,} ns, got {getattr(machine, name).value}")
    if not machine.level:
        refuse("a machine needs at least one cache level")
    names = [level.level for level in machine.level]
    for level in machine.level:
        for key in ("load_from", "store_to", "victims_to"):
            target = getattr(level, key)
            if target is not None and target not in names:
                refuse(f"level {level.level}: {key} names {target!r}, but the levels are {', '.join(names)}")
        if not _power_of_two(level.sets.value):
            refuse(f"level {level.level}: sets must be a power of two, got {level.sets.value}")
        if not 1 <= int(level.ways) <= 64:
            refuse(f"level {level.level}: ways must be from 1 to 64, got {level.ways.value}")
        if int(level.cl_size) != LINE:
            refuse(f"level {level.level}: cl_size must be {LINE}, got {level.cl_size.value}")
    for kind in ("small", "large"):
        tlb: Tlb = getattr(machine.tlb, kind)
        if not _power_of_two(tlb.page_bytes.value) or int(tlb.page_bytes) < LINE:
            refuse(f"tlb.{kind}: page_bytes must be a power of two of at least {LINE}, got {tlb.page_bytes.value}")
        for part, one in (("dtlb", tlb.dtlb), ("stlb", tlb.stlb)):
            if one is not None and (not _power_of_two(one.sets.value) or not 1 <= int(one.ways) <= 64):
                refuse(
                    f"tlb.{kind}.{part}: sets must be a power of two and ways from 1 to 64, "
                    f"got {one.sets.value} and {one.ways.value}"
                )
        if tlb.stlb is not None and tlb.stlb.latency is None:
            refuse(f"tlb.{kind}.stlb: latency is missing")


def load_machine(name: str) -> Machine:
    """A machine of the project by name, or a user's own file. UserError for an unknown name or a bad file."""
    machine = load_named(Machine, name, MACHINES, "machine")
    _check(machine, name)
    return machine
