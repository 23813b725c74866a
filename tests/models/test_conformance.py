"""The conformance kit accepts what keeps the contract, and says in a sentence what does not."""

import random
import time

import numpy as np
import pytest

from models.access import READ, make_log, touch
from models.conformance import ConformanceError, check_flow_cache
from models.drive import drive, drive_reclaim, drive_timer
from models.flow import make_batch
from models.functions import number
from models.interface import (
    MISS,
    NEED_COLLECT,
    NEED_LOG,
    NEED_NOTHING,
    NEED_POOL,
    STRUCTURES,
    Context,
    FlowCache,
    World,
    structure_class,
)
from models.lru import Lru, LruParams
from models.rcu import Rcu
from models.simulated_memory import SimulatedMemory

SMALL = {
    "perfect": [{}],
    "none": [{}],
    "lru": [{"capacity": 20}],
    "rt_hash": [{"rhash_entries": 1}, {"rhash_entries": 8}, {"rhash_entries": 64}],
    "unicache": [{"gc_thresh": 8, "gc_goal": 2}, {}],
}


@pytest.mark.parametrize(("name", "values"), [(name, values) for name in STRUCTURES for values in SMALL[name]])
def test_every_built_in_structure_conforms(name, values):
    try:
        cls = structure_class(name)
    except (ImportError, AttributeError):
        pytest.skip(f"{name} is not there")
    report = check_flow_cache(lambda world: cls(cls.Params(**values), world), steps=30)
    assert report.structure == name
    assert report.packets > 1000


class Fine(Lru):
    """An LRU cache to be broken."""

    name = "mine"


class NeverHits(Fine):
    def lookup(self, packet, ctx):
        return MISS


class NeverHitsLater(Fine):
    """Finds its first flow only."""

    def lookup(self, packet, ctx):
        return super().lookup(packet, ctx) if len(self) == 1 else MISS


class WrongRoute(Fine):
    def lookup(self, packet, ctx):
        route = super().lookup(packet, ctx)
        return route if route == MISS or self.uses < 50 else route + 1


class TooMany(Fine):
    """Evicts one entry too late."""

    capacity = 7

    def __init__(self, params, world):
        super().__init__(LruParams(8), world)

    def check(self):
        pass


class ReadsTheClock(Fine):
    def lookup(self, packet, ctx):
        return MISS if time.perf_counter() < 0 else super().lookup(packet, ctx)


class Unrepeatable(Fine):
    """Takes random numbers of the host's own, as unlike from run to run as a clock that no watch sees."""

    def lookup(self, packet, ctx):
        touch(ctx.log, READ, number("lru_lookup"), self.base + 64 * random.SystemRandom().randrange(self.capacity))
        return super().lookup(packet, ctx)


class Miscounts(Fine):
    def count(self, hit=0, slow=0, error=0):
        super().count(hit + (self.uses == 60), slow, error)


class MiscountsEntries(Fine):
    def counters(self):
        return super().counters() | {"entries": len(self) + (len(self) > 3)}


class ForeignMemory(Fine):
    def lookup(self, packet, ctx):
        touch(ctx.log, READ, number("lru_lookup"), self.base - 4096)
        return super().lookup(packet, ctx)


class ForeignFunction(Fine):
    functions = ("lru_lookup",)


class KeepsRemoved(Fine):
    def remove(self, key, ctx):
        return key in self.entries


class BatchDiffers(Fine):
    """A forward of its own that forgets to count one call in a batch."""

    def forward(self, batch, start, ctx):
        stop, need = super().forward(batch, start, ctx)
        if batch.packets[0] > 5 and need == NEED_NOTHING:
            ctx.log.calls[number("lru_lookup")] += 1
        return stop, need


class WantsMoreLog(Fine):
    def forward(self, batch, start, ctx):
        return start, NEED_LOG if batch.packets[0] else NEED_NOTHING


class Crashes(Fine):
    def insert(self, packet, route, ctx):
        raise KeyError("oops")


class BadInvariant(Fine):
    def check(self):
        assert self.uses < 30, "more uses than thirty"


@pytest.mark.parametrize(
    ("cls", "sentence"),
    [
        (NeverHits, "mine: it never finds a flow again"),
        (NeverHitsLater, "misses although packet"),
        (WrongRoute, "was given route"),
        (TooMany, "it holds 8 entries, but its capacity is 7"),
        (ReadsTheClock, r"mine reads the host's clock \(time.perf_counter\)"),
        (Unrepeatable, "two runs with the same seed differ in"),
        (Miscounts, "it counts in_hit = .* says"),
        (MiscountsEntries, "it counts entries = 5, but its len.. says 4|it counts entries"),
        (ForeignMemory, "it touches address .* which belongs to somebody else|which nobody was given"),
        (ForeignFunction, "it charges .* to lru_insert, which its `functions` do not name"),
        (KeepsRemoved, "remove.. says that it removed a flow, but lookup still finds it"),
        (BatchDiffers, r"forward\(\) and the loop over lookup\(\) and insert\(\) differ in calls"),
        (WantsMoreLog, "gets no further with an empty log"),
        (Crashes, "fails with KeyError: 'oops'"),
        (BadInvariant, r"check\(\) fails: more uses than thirty"),
    ],
)
def test_a_broken_structure_is_refused_with_the_reason(cls, sentence):
    with pytest.raises(ConformanceError, match=sentence) as caught:
        check_flow_cache(lambda world: cls(LruParams(100), world))
    assert "\n" not in str(caught.value)


def test_the_structure_that_was_broken_is_accepted_whole():
    assert check_flow_cache(lambda world: Fine(LruParams(100), world)).smallest_log == 2


def test_clocks_are_put_back_after_the_check():
    before = time.perf_counter
    with pytest.raises(ConformanceError):
        check_flow_cache(lambda world: ReadsTheClock(LruParams(100), world))
    assert time.perf_counter is before


class Wants(FlowCache):
    """Always asks for the same thing."""

    name = "wants"
    need = NEED_POOL

    def forward(self, batch, start, ctx):
        return start, self.need

    def collect(self, ctx):
        return self.need == NEED_COLLECT


@pytest.mark.parametrize(
    ("need", "sentence"),
    [
        (NEED_POOL, "a larger pool again and again"),
        (NEED_COLLECT, "a collection again"),
        (NEED_LOG, "no further"),
        (9, "need 9"),
        (0, "stopped"),
    ],
)
def test_drive_ends_a_call_that_gets_no_further(need, sentence):
    world = World(SimulatedMemory(), Rcu(), np.random.default_rng(1))
    structure = Wants(None, world)
    structure.need = need
    batch = make_batch(4)
    batch.packets[0] = 4
    with pytest.raises(RuntimeError, match=sentence):
        drive(structure, batch, Context(0, 0, make_log(8, 4), world), lambda log, first, stop: None)


class Overruns(FlowCache):
    """Writes one record more than there is room for, wherever it is called."""

    name = "overruns"

    def _write(self, log):
        for line in range(log.record.size + 1):
            touch(log, READ, 1, 64 * line)

    def forward(self, batch, start, ctx):
        return start, NEED_COLLECT

    def collect(self, ctx):
        self._write(ctx.log)
        return True

    def run_timer(self, name, ctx):
        self._write(ctx.log)
        return True

    def reclaim(self, limit, ctx):
        self._write(ctx.log)
        return 1


@pytest.mark.parametrize("call", ["collect", "timer", "reclaim"])
def test_drive_refuses_a_log_that_ran_over_outside_lookups(call):
    world = World(SimulatedMemory(), Rcu(), np.random.default_rng(1))
    structure, ctx = Overruns(None, world), Context(0, 0, make_log(8, 4), world)
    batch = make_batch(4)
    batch.packets[0] = 4
    if call == "reclaim":
        world.rcu.allowance = lambda cpu, now: 3
    calls = {
        "collect": lambda: drive(structure, batch, ctx, lambda log, first, stop: None),
        "timer": lambda: drive_timer(structure, "sweep", ctx, lambda log, first, stop: None),
        "reclaim": lambda: drive_reclaim(structure, ctx, lambda log, first, stop: None),
    }
    with pytest.raises(RuntimeError, match="overruns wrote 9 records into a log with room for 8"):
        calls[call]()
