"""Flushes: when a cache that has been asked runs them, and what every structure forgets."""

import numpy as np
import pytest

from models.access import make_log
from models.conformance import ConformanceError, check_flow_cache
from models.conformance_play import make_world
from models.drive import drive, drive_flush, drive_reclaim
from models.flow import make_batch
from models.flush import NS, FlushTimer
from models.interface import STRUCTURES, Context, make_params, structure_class
from models.lru import Lru, LruParams

FLOWS = 40


def test_a_flush_waits_for_further_changes():
    timer = FlushTimer(2, 10)
    assert timer.due is None
    assert timer.ask(100 * NS) == 102 * NS
    assert timer.ask(101 * NS) == 103 * NS  # nine seconds are left: put off
    assert timer.ask(102 * NS) == 104 * NS  # eight are left: still
    timer.done()
    assert timer.due is None
    assert timer.ask(200 * NS) == 202 * NS


def test_a_process_that_comes_late_is_not_made_to_wait():
    timer = FlushTimer(2, 10)
    timer.ask(0)
    assert timer.ask(2 * NS + 1) == 2 * NS + 1


def test_changes_from_the_kernel_itself_put_a_flush_off_to_max_delay_and_no_further():
    timer = FlushTimer(2, 10)
    timer.ask(0, by_process=False)
    assert [timer.ask(second * NS, by_process=False) // NS for second in range(1, 11)] == [3, 4, 5, 6, 7, 8, 9, 10, 10, 10]


def test_without_delay_a_flush_is_due_at_once():
    assert FlushTimer(0, 10).ask(5) == 5
    with pytest.raises(ValueError, match="-1 s in the past"):
        FlushTimer(-1, 10)


@pytest.fixture(params=STRUCTURES)
def filled(request):
    """A structure that holds FLOWS flows, its context, and a function that sends them again; gives how many missed."""
    cls = structure_class(request.param)
    world = make_world(1)
    structure = cls(make_params(cls, {}), world)
    log, batch = make_log(1 << 12, 64), make_batch(64)
    ctx = Context(now=NS, cpu=0, log=log, world=world)

    def send():
        batch.packets[0] = FLOWS
        batch.key[:FLOWS] = [(0x0A000001, 0x0A010000 + i, 7, 17 << 24 | 1) for i in range(FLOWS)]
        batch.route[:FLOWS] = np.arange(FLOWS)
        before = structure.counters()["in_slow_tot"]
        drive(structure, batch, ctx, lambda log, first, stop: None)
        return structure.counters()["in_slow_tot"] - before

    assert send() == FLOWS
    assert send() == (FLOWS if cls.cacheless else 0)
    return structure, ctx, send


def test_after_a_flush_every_flow_misses_once(filled):
    structure, ctx, send = filled
    drive_flush(structure, ctx, lambda log, first, stop: None)
    structure.check()
    ctx.now += 1 * NS
    while drive_reclaim(structure, ctx, lambda log, first, stop: None):  # ten callbacks a round
        ctx.now += NS
    assert len(structure) == 0
    assert send() == FLOWS
    assert send() == (FLOWS if structure.cacheless else 0)
    structure.check()


def test_a_flush_writes_what_it_touches(filled):
    """Structures of the kernel pay for their flush: at least the line of each entry."""
    structure, ctx, _ = filled
    seen = []
    drive_flush(structure, ctx, lambda log, first, stop: seen.append(int(log.head[0])))
    if structure.name in ("rt_hash", "unicache"):
        assert sum(seen) >= FLOWS
        assert (structure.counters()["flushes"], structure.counters()["flushed"]) == (1, FLOWS)


def test_the_kit_finds_a_structure_that_does_not_forget():
    class Keeps(Lru):
        def flush(self, ctx):
            return True

    with pytest.raises(ConformanceError, match=r"after flush\(\) it holds"):
        check_flow_cache(lambda world: Keeps(LruParams(64), world), steps=10)


def test_a_structure_need_not_be_able_to_flush():
    class Cannot(Lru):
        pass

    from models.interface import FlowCache

    Cannot.flush = FlowCache.flush
    assert Lru.can_flush()
    assert not Cannot.can_flush()
    check_flow_cache(lambda world: Cannot(LruParams(64), world), steps=10)
