"""What every flow-lookup structure must do, checked on any structure that a user brings.

`check_flow_cache(factory)` plays seeded random scripts (models/conformance_play.py) and compares the plays: with the same seed
again, with the smallest log that works and with a huge one, the whole batch with the loop over lookup and insert. It
stops at the first thing that is wrong and says it in one sentence. A dictionary is the oracle: the route of a flow never
changes here, so every answer is known.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from models.access import DROPPED, empty, make_log
from models.conformance_play import ROOM, ConformanceError, Key, Play, Step, draw_script, make_world, play, route_of, title
from models.drive import drive_flush
from models.interface import MISS, NEED_COLLECT, NEED_LOG, NEED_NOTHING, NEED_POOL, Context, Factory, FlowCache, Packet, World

__all__ = ["ConformanceError", "Report", "check_flow_cache"]

HUGE_LOG = 1 << 20
LARGEST_STEP = 1 << 16
"""A step that needs more records than this in one piece is refused."""
CLOCKS = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "process_time", "process_time_ns")


class Report(NamedTuple):
    """What was checked, of a structure that passed."""

    structure: str
    packets: int  # sent through it, over all plays
    smallest_log: int  # records of the smallest log it worked with
    checks: tuple[str, ...]  # one line each


def check_flow_cache(factory: Factory, *, seed: int = 1, steps: int = 40, flows: int = 48) -> Report:
    """Check a structure; `factory(world)` makes a fresh one, shrunk if that helps to meet its limits.

    Raises ConformanceError with a sentence that says what is wrong. Takes about `6 * steps` batches of up to 32 packets.
    """
    checks, packets, smallest = [], 0, LARGEST_STEP
    cases = [("as given", factory)]
    for capacity in (1, 7):
        smaller = _with_capacity(factory, capacity)
        if smaller is not None:
            cases.append((f"capacity {capacity}", smaller))
    for case, make in cases:
        first = _guard(partial(_check_empty, make, seed))
        name = title(first)
        for marks in (True, False):
            script = draw_script(seed + marks, steps, flows, marks)
            with _clocks_watched(first) as read:
                one = _play(make, seed, script, HUGE_LOG)
            if read:
                raise ConformanceError(
                    f"{name} reads the host's clock (time.{read[0]}); the only time it may use is ctx.now, which is simulated"
                )
            _compare(name, one, _play(make, seed, script, HUGE_LOG), "two runs with the same seed")
            _compare(
                name, one, _play(make, seed, script, HUGE_LOG, scalar=True), "forward() and the loop over lookup() and insert()"
            )
            records, small = _smallest(make, seed, script, first.records_per_packet)
            smallest = min(smallest, records) if case != "as given" else records
            _compare(name, one, small, f"a log of {HUGE_LOG} records and one of {records}")
            packets += 4 * one.packets
            _guard(partial(_check_contents, one, script))
            if first.can_flush():
                _guard(partial(_check_flush, one, script))
        checks.append(f"{case}: empty, one flow, {steps} batches of up to {ROOM} packets over {flows} flows, four ways each, equal")
    return Report(title(first), packets, smallest, tuple(checks))


def _with_capacity(factory: Factory, capacity: int) -> Factory | None:
    """The same structure with another capacity, if it has a parameter of that name."""
    params = _guard(partial(factory, make_world(0))).params
    if not is_dataclass(params) or isinstance(params, type) or "capacity" not in {f.name for f in fields(params)}:
        return None
    changed = replace(params, capacity=capacity)

    def make(world: World) -> FlowCache:
        return type(factory(make_world(0)))(changed, world)

    return make


def _guard(run: Callable[[], Any]) -> Any:
    """Run something of the user's; whatever it raises becomes one sentence."""
    try:
        return run()
    except ConformanceError:
        raise
    except Exception as error:
        frames, last = error.__traceback__, ""
        while frames is not None:
            last = f"{frames.tb_frame.f_code.co_filename}:{frames.tb_lineno}"
            frames = frames.tb_next
        raise ConformanceError(f"the structure fails with {type(error).__name__}: {error} ({last})") from error


def _play(factory: Factory, seed: int, script: list[Step], records: int, scalar: bool = False) -> Play:
    done: Play = _guard(partial(play, factory, seed, script, records, scalar))
    return done


def _smallest(factory: Factory, seed: int, script: list[Step], records: int) -> tuple[int, Play]:
    """The smallest power-of-two multiple of `records` with which a script can be played, and that play."""
    records = max(1, records)
    while True:
        try:
            return records, play(factory, seed, script, records)
        except RuntimeError as error:
            records *= 2
            if "no further" not in str(error) or records > LARGEST_STEP:
                raise ConformanceError(str(error)) from error
        except Exception:
            return records, _play(factory, seed, script, records)  # again, for the sentence


def _compare(name: str, a: Play, b: Play, what: str) -> None:
    for number, (one, two) in enumerate(zip(a.said, b.said, strict=True)):
        for part in one._fields:
            x, y = getattr(one, part), getattr(two, part)
            if x != y:
                raise ConformanceError(f"{name}: {what} differ in {part} at step {number}: {_difference(x, y)}")


def _difference(x: Any, y: Any) -> str:
    if isinstance(x, dict):
        return ", ".join(f"{k}: {x.get(k)} and {y.get(k)}" for k in sorted({*x, *y}) if x.get(k) != y.get(k))
    if len(x) != len(y):
        return f"{len(x)} and {len(y)} of them"
    at = next(i for i in range(len(x)) if x[i] != y[i])
    return f"{x[at]} and {y[at]} at index {at}"


@contextmanager
def _clocks_watched(structure: FlowCache) -> Iterator[list[str]]:
    """Notes the calls that the structure's own modules make to the host's clock."""
    modules = {c.__module__ for c in type(structure).__mro__ if c not in (FlowCache, object)}
    read: list[str] = []
    originals = {name: getattr(time, name) for name in CLOCKS}

    def watch(name: str) -> Any:
        def watched() -> Any:
            if sys._getframe(1).f_globals.get("__name__") in modules:
                read.append(name)
            return originals[name]()

        return watched

    watched = {id(originals[name]): watch(name) for name in CLOCKS}
    spaces = [vars(time), *(vars(sys.modules[m]) for m in modules if m in sys.modules)]
    replaced = [(space, key, value) for space in spaces for key, value in space.items() if id(value) in watched]
    for space, key, value in replaced:
        space[key] = watched[id(value)]
    try:
        yield read
    finally:
        for space, key, value in replaced:
            space[key] = value


def _packet(key: Key) -> Packet:
    return Packet(key=key, time=0, length=60, flags=0, route=route_of(key))


def _lookup(s: FlowCache, key: Key, ctx: Context) -> int:
    ctx.entry = 0
    empty(ctx.log)
    return s.lookup(_packet(key), ctx)


def _insert(s: FlowCache, key: Key, ctx: Context) -> None:
    """Insert to the end, whatever is needed on the way."""
    ctx.entry = 0
    for _ in range(100):
        empty(ctx.log)
        need = s.insert(_packet(key), route_of(key), ctx)
        if need == NEED_NOTHING:
            return
        if need == NEED_POOL:
            s.grow()
        elif need == NEED_COLLECT:
            while not s.collect(ctx):
                empty(ctx.log)
        elif need != NEED_LOG:
            break
    raise ConformanceError(f"{title(s)}: insert() into an empty structure asks for need {need} and never ends")


def _check_empty(factory: Factory, seed: int) -> FlowCache:
    """A fresh structure holds nothing; its first flow is found, and is gone once removed. Returns a fresh one."""
    world = make_world(seed)
    s = factory(world)
    ctx = Context(now=1_000_000_000, cpu=0, log=make_log(LARGEST_STEP, ROOM), world=world)
    if not isinstance(s, FlowCache):
        raise ConformanceError(f"the factory made a {type(s).__name__}, not a FlowCache")
    key = (0x0A000001, 0x0A000002, 7, 17 << 24 | 1)
    who = title(s)
    if len(s) != 0 or s.counters().get("entries") != 0:
        raise ConformanceError(f"{who}: a fresh one holds {len(s)} entries and counts {s.counters().get('entries')}")
    if _lookup(s, key, ctx) != MISS:
        raise ConformanceError(f"{who}: lookup in an empty structure must return MISS ({MISS})")
    if s.remove(key, ctx):
        raise ConformanceError(f"{who}: remove() from an empty structure says that it removed something")
    s.check()
    _insert(s, key, ctx)
    if ctx.entry == DROPPED:
        raise ConformanceError(f"{who}: it refuses the first flow")
    if not s.cacheless:
        inserted = ctx.entry
        if len(s) != 1:
            raise ConformanceError(f"{who}: after one insert len() is {len(s)}, not 1")
        found = _lookup(s, key, ctx)
        if found == MISS:
            raise ConformanceError(f"{who}: it never finds a flow again: a lookup right after the first insert misses")
        if found != route_of(key):
            raise ConformanceError(f"{who}: lookup returns route {found}, but {route_of(key)} was inserted")
        if ctx.entry != inserted:
            raise ConformanceError(f"{who}: ctx.entry was {inserted:#x} after the insert and {ctx.entry:#x} after the lookup")
    if s.remove(key, ctx) and _lookup(s, key, ctx) != MISS:
        raise ConformanceError(f"{who}: remove() says that it removed a flow, but lookup still finds it")
    s.check()
    return factory(make_world(seed))


def _check_contents(done: Play, script: list[Step]) -> None:
    """What is found at the end is right, and no more than len()."""
    s, found = done.structure, set()
    for key in {key for step in script for key in step.keys}:
        entries = len(s)
        route = _lookup(s, key, done.ctx)
        if route not in (MISS, route_of(key)):
            raise ConformanceError(f"{title(s)}: lookup returns route {route} at the end, but {route_of(key)} was inserted")
        if route != MISS:
            found.add(done.ctx.entry)
        if len(found) > entries:
            raise ConformanceError(f"{title(s)}: {len(found)} entries are found at the end, but len() is {entries}")


def _check_flush(done: Play, script: list[Step]) -> None:
    """After a flush nothing is found, and nothing is held but what waits for its grace period."""
    s = done.structure
    empty(done.ctx.log)
    drive_flush(s, done.ctx, lambda log, first, stop: None)
    s.check()
    waiting = s.world.rcu.waiting()
    if len(s) > waiting:
        raise ConformanceError(f"{title(s)}: after flush() it holds {len(s)} entries, of which {waiting} wait to be freed")
    for key in {key for step in script for key in step.keys}:
        if _lookup(s, key, done.ctx) != MISS:
            raise ConformanceError(f"{title(s)}: a flow is still found after flush()")
    empty(done.ctx.log)
