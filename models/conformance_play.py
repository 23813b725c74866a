"""Seeded sequences of operations, and what a structure makes of one: the conformance kit's stage.

A script is drawn once from a seed: batches of 0 to ROOM packets over a small set of flows (some differ in their ports only), on
either CPU, with pauses from microseconds to minutes, and removals. `play` sends it through a fresh structure as the box would
(models/drive.py: batches, timers that fall due, delayed frees after each round) and keeps all that the structure said. What can
be judged from one play is judged here; plays are compared with each other in models/conformance.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from models import functions
from models.access import DMA, DROPPED, LINE, AccessLog, empty, make_log, record_function, record_kind, record_line, record_lines
from models.drive import drive, drive_flush, drive_reclaim, drive_timer
from models.flow import END_MARK, PROTO_TCP, PROTO_UDP, PacketBatch, make_batch, pack_ipv4
from models.interface import Context, Factory, FlowCache, World
from models.kernel import NIL
from models.rcu import Rcu
from models.simulated_memory import SimulatedMemory

ROOM = 32
"""Most packets of a batch."""
FLUSH_EVERY = 17
"""Steps between two flushes of a structure that can."""
SLAB_FUNCTIONS = (
    "kmem_cache_alloc", "cache_alloc_refill", "kmem_cache_free", "cache_flusharray", "free_block", "slab_put_obj", "call_rcu_bh",
)  # fmt: skip
PAUSES_NS = (2_000, 50_000, 1_000_000, 20_000_000, 700_000_000, 60_000_000_000)
PAUSE_ODDS = (0.3, 0.3, 0.2, 0.1, 0.07, 0.03)

Key = tuple[int, int, int, int]


class ConformanceError(AssertionError):
    """What is wrong with a structure, in one sentence."""


class Step(NamedTuple):
    """One batch and what surrounds it."""

    now: int  # ns
    cpu: int
    keys: list[Key]
    flags: list[int]
    remove: Key | None  # a flow to take out afterwards


class Said(NamedTuple):
    """What a structure said of one step: records, then per packet how many were written when its lookup failed and at its end."""

    records: list[int]
    miss: list[int]
    end: list[int]
    answer: list[int]
    entry: list[int]
    calls: list[int]
    counters: dict[str, int]


@dataclass
class Play:
    """One play of a script, kept for comparison."""

    structure: FlowCache
    ctx: Context
    said: list[Said] = field(default_factory=list)
    packets: int = 0


def route_of(key: Key) -> int:
    """The route that the kit's FIB gives: it depends on the destination alone."""
    return (key[1] * 2654435761 >> 7) % 1000


def make_world(seed: int) -> World:
    """A world whose regions are surrounded by ones that belong to somebody else."""
    memory = SimulatedMemory()
    memory.region("somebody else's", LINE)
    return World(memory=memory, rcu=Rcu(), rng=np.random.default_rng(np.random.SeedSequence([seed, 1])))


def draw_script(seed: int, steps: int, flows: int, marks: bool = True) -> list[Step]:
    """A script over `flows` flows. With `marks`, some packets carry the end-of-flow mark."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    keys: list[Key] = []
    for n in range(flows):
        twin = keys[int(rng.integers(n))] if n and rng.random() < 0.15 else None
        source, destination = (twin[0], twin[1]) if twin else (int(rng.integers(1, 1 << 32)), int(rng.integers(1, 1 << 32)))
        ports = int(rng.integers(1, 1 << 16)), int(rng.integers(1, 1 << 16))
        keys.append(pack_ipv4(source, destination, *ports, PROTO_TCP if rng.random() < 0.5 else PROTO_UDP, iif=1 + n % 2))
    script, now = [], 1_000_000_000
    for _ in range(steps):
        now += int(rng.choice(PAUSES_NS, p=PAUSE_ODDS))
        packets = int(rng.integers(0, ROOM + 1))
        picked = rng.integers(0, flows, packets)
        again = rng.random(packets) < 0.25
        for i in range(1, packets):
            if again[i]:
                picked[i] = picked[i - 1]  # the lookup right after an insert
        flags = np.where(rng.random(packets) < 0.05, END_MARK, 0) if marks else np.zeros(packets, np.int64)
        gone = keys[int(rng.integers(flows))] if rng.random() < 0.3 else None
        script.append(Step(now, int(rng.integers(2)), [keys[j] for j in picked], [int(f) for f in flags], gone))
    return script


def fill(batch: PacketBatch, step: Step) -> None:
    """Put the packets of a step into a batch."""
    n = len(step.keys)
    batch.packets[0] = n
    batch.time[:n] = step.now
    batch.length[:n] = 60
    batch.flags[:n] = step.flags
    batch.key[:n] = np.array(step.keys, np.uint32).reshape(n, 4)
    batch.route[:n] = [route_of(key) for key in step.keys]


def play(factory: Factory, seed: int, script: list[Step], log_records: int, scalar: bool = False) -> Play:
    """Send a script through a fresh structure, with a log of `log_records`.

    `scalar` uses FlowCache's own loop over lookup and insert instead of the structure's forward.
    """
    world = make_world(seed)
    structure = factory(world)
    world.memory.region("somebody else's too", LINE)
    ctx = Context(now=0, cpu=0, log=make_log(log_records, ROOM), world=world)
    done = Play(structure, ctx)
    allowed = {functions.number(n) for n in (*structure.functions, *SLAB_FUNCTIONS)}
    due = {timer.name: timer for timer in structure.timers()}
    at = {timer.name: timer.first_ns for timer in structure.timers()}
    batch = make_batch(ROOM)
    loop: Callable[[PacketBatch, int, Context], tuple[int, int]] | None = None
    if scalar:

        def loop(batch: PacketBatch, start: int, ctx: Context) -> tuple[int, int]:
            return FlowCache.forward(structure, batch, start, ctx)

    for number, step in enumerate(script):
        tape = _Tape(world, allowed, structure, number)
        ctx.now, ctx.cpu = step.now, 0
        for name in [n for n in due if at[n] <= step.now]:
            drive_timer(structure, name, ctx, tape.note)
            while at[name] <= step.now:
                at[name] += due[name].period_ns
        if structure.can_flush() and number % FLUSH_EVERY == FLUSH_EVERY - 1:
            drive_flush(structure, ctx, tape.note)
        ctx.cpu = step.cpu
        fill(batch, step)
        before = len(structure)
        drive(structure, batch, ctx, tape.price, loop)
        done.packets += len(step.keys)
        said = tape.said(ctx.log, len(step.keys), structure)
        _judge_answers(structure, step, said, number, max(before, len(structure)))
        _judge_capacity(structure, number)
        drive_reclaim(structure, ctx, tape.note)
        if step.remove is not None:
            structure.remove(step.remove, ctx)
            tape.note(ctx.log)
            empty(ctx.log)
        done.said.append(tape.said(ctx.log, len(step.keys), structure))
        _judge_counters(structure, done, number)
    return done


class _Tape:
    """Joins the logs of one step: what a structure wrote, counted from the start of the step."""

    def __init__(self, world: World, allowed: set[int], structure: FlowCache, step: int) -> None:
        self.world, self.allowed, self.structure, self.step = world, allowed, structure, step
        self.records: list[int] = []
        self.calls = np.zeros(functions.MAX_FUNCTIONS, np.int64)
        self.miss, self.end = [NIL] * ROOM, [0] * ROOM

    def price(self, log: AccessLog, first: int, stop: int) -> None:
        """A log that belongs to the packets of the batch."""
        start, used = len(self.records), int(log.head[0])
        for i in range(first, min(stop + 1, ROOM)):
            if log.miss[i] != NIL and self.miss[i] == NIL:
                self.miss[i] = start + int(log.miss[i])
        for i in range(first, stop):
            if not 0 <= log.end[i] <= used:
                raise ConformanceError(f"{self._who()}: end of packet {i} is {log.end[i]}, but the log holds {used} records")
            self.end[i] = start + int(log.end[i])
        self.note(log)

    def note(self, log: AccessLog, first: int = 0, stop: int = 0) -> None:
        """A log of a timer, a removal or delayed frees."""
        self.calls += log.calls
        for record in log.record[: int(log.head[0])].tolist():
            self._judge(record)
            self.records.append(record)
        for function in np.flatnonzero(log.calls).tolist():
            self._judge_function(function, "calls")

    def said(self, log: AccessLog, packets: int, structure: FlowCache) -> Said:
        answer, entry = log.answer[:packets].tolist(), log.entry[:packets].tolist()
        for i, address in enumerate(entry):
            if address and self.world.memory.owner(address) in (None, "somebody else's", "somebody else's too"):
                raise ConformanceError(f"{self._who()}: packet {i} leaves with an entry at {address:#x}, memory it was not given")
        return Said(
            list(self.records), self.miss[:packets], self.end[:packets], answer, entry, self.calls.tolist(), structure.counters()
        )

    def _who(self) -> str:
        return f"{title(self.structure)}, step {self.step}"

    def _judge(self, record: int) -> None:
        line, lines = int(record_line(record)), int(record_lines(record))
        for byte in (line * LINE, (line + lines - 1) * LINE):
            owner = self.world.memory.owner(byte)
            if owner is None or owner.startswith("somebody else's"):
                belongs = "which belongs to somebody else" if owner else "which nobody was given"
                raise ConformanceError(f"{self._who()}: it touches address {byte:#x}, {belongs}; take a region from world.memory")
        if record_kind(record) >= DMA:
            raise ConformanceError(f"{self._who()}: a structure can read and write, but a record is of kind {record_kind(record)}")
        self._judge_function(int(record_function(record)), "touches")

    def _judge_function(self, function: int, what: str) -> None:
        if function not in self.allowed:
            name = functions.names()[function] if function < len(functions.names()) else f"number {function}"
            raise ConformanceError(f"{self._who()}: it charges {what} to {name}, which its `functions` do not name")


def title(structure: FlowCache) -> str:
    """How a structure is called in a sentence."""
    return structure.name or type(structure).__name__


def _judge_answers(s: FlowCache, step: Step, said: Said, number: int, most: int) -> None:
    who = f"{title(s)}, step {number}"
    for i, (key, answer) in enumerate(zip(step.keys, said.answer, strict=True)):
        if answer not in (DROPPED, route_of(key)):
            raise ConformanceError(f"{who}: packet {i} was given route {answer}, but the route of its flow is {route_of(key)}")
        below = s.capacity is None or most < s.capacity
        if i and key == step.keys[i - 1] and not s.cacheless and below and said.answer[i - 1] != DROPPED:
            if said.miss[i] != NIL and not (step.flags[i - 1] or step.flags[i]):
                raise ConformanceError(
                    f"{who}: packet {i} misses although packet {i - 1} of the same flow had just been inserted, below capacity; "
                    "a structure that keeps nothing must say cacheless = True"
                )
    if any(said.end[i] > said.end[i + 1] for i in range(len(said.end) - 1)):
        raise ConformanceError(f"{who}: log.end goes backwards, it is {said.end}")


def _judge_capacity(s: FlowCache, number: int) -> None:
    """Entries that only wait for their grace period are counted by len(), but no structure can get rid of them sooner."""
    waiting = s.world.rcu.waiting()
    if s.capacity is not None and len(s) - waiting > s.capacity:
        but = f" and {waiting} that wait to be freed" if waiting else ""
        raise ConformanceError(
            f"{title(s)}, step {number}: it holds {len(s) - waiting} entries{but}, but its capacity is {s.capacity}"
        )


def _judge_counters(s: FlowCache, done: Play, number: int) -> None:
    who = f"{title(s)}, step {number}"
    _judge_capacity(s, number)
    counters = s.counters()
    lacking = [n for n in ("entries", "in_hit", "in_slow_tot", "errors") if n not in counters]
    if lacking:
        raise ConformanceError(f"{who}: counters() lacks {', '.join(lacking)}")
    hits = errors = slow = 0
    for said in done.said:
        for answer, miss in zip(said.answer, said.miss, strict=True):
            errors += answer == DROPPED
            hits += answer != DROPPED and miss == NIL
            slow += answer != DROPPED and miss != NIL
    for name, true in (("entries", len(s)), ("in_hit", hits), ("in_slow_tot", slow), ("errors", errors)):
        if counters[name] != true:
            source = "its len()" if name == "entries" else f"the log of {done.packets} packets"
            raise ConformanceError(f"{who}: it counts {name} = {counters[name]}, but {source} says {true}")
    try:
        s.check()
    except AssertionError as error:
        reason = str(error).partition("\n")[0] or "an assertion without a text"
        raise ConformanceError(f"{who}: check() fails: {reason}") from error
