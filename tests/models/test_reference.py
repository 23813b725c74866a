from collections import OrderedDict

import numpy as np
import pytest

from models.access import DROPPED, READ, WRITE, make_log, record_function, record_kind, record_line
from models.drive import drive
from models.flow import make_batch
from models.functions import number
from models.interface import Context, World, make_params
from models.kernel import NIL, compiled
from models.lru import Lru, LruParams
from models.rcu import Rcu
from models.reference import MOST, NoCache, Perfect
from models.simulated_memory import SimulatedMemory

PACKETS = 20_000 if compiled() else 1_500
BATCH = 100


def world():
    return World(SimulatedMemory(), Rcu(), np.random.default_rng(1))


def traffic(flows, words=4, seed=3):
    """Batches of PACKETS packets over `flows` flows, some of which differ in one bit only; with the flow of each packet."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 1 << 32, (flows, words), dtype=np.uint32)
    keys[1::2] = keys[::2][: flows // 2]
    keys[1::2, flows % words] ^= np.uint32(1 << 31)
    for _ in range(PACKETS // BATCH):
        flow = rng.integers(0, flows, BATCH)
        batch = make_batch(BATCH, words)
        batch.packets[0] = BATCH
        batch.key[:], batch.route[:] = keys[flow], flow
        yield batch, flow.tolist()


def run(structure, batches):
    log = make_log(1 << 10, BATCH)
    ctx = Context(0, 0, log, structure.world)
    for batch, flow in batches:
        drive(structure, batch, ctx, lambda log, first, stop: None)
        assert log.answer.tolist() == flow
        yield log, flow


@pytest.mark.parametrize("words", [4, 10])
def test_perfect_misses_once_per_flow_and_grows(words):
    structure, seen = Perfect(None, world()), {}
    for log, flow in run(structure, traffic(PACKETS // 4, words)):
        for i, f in enumerate(flow):
            assert (log.miss[i] == NIL) == (f in seen)
            assert seen.setdefault(f, int(log.entry[i])) == log.entry[i]
    assert len(structure) == len(seen) == structure.counters()["in_slow_tot"]
    assert len(set(seen.values())) == len(seen)
    assert structure.counters()["in_hit"] == PACKETS - len(seen)
    assert structure.memory_bytes() == 64 * len(seen)
    structure.check()


def test_perfect_tells_flows_of_equal_hash_apart():
    """Two keys whose first words differ; the second word makes up for it in the hash."""

    def after_one_word(word):
        h = ((0x2545F491 ^ word) * 0x5BD1E995) & 0xFFFFFFFF
        return h ^ (h >> 15)

    structure, batch, log = Perfect(None, world()), make_batch(4), make_log(16, 4)
    batch.packets[0] = 4
    batch.key[0::2] = (1, 2, 3, 4)
    batch.key[1::2] = (9, 2 ^ after_one_word(1) ^ after_one_word(9), 3, 4)
    batch.route[:] = (0, 1, 0, 1)
    drive(structure, batch, Context(0, 0, log, structure.world), lambda log, first, stop: None)
    assert np.unique(structure.state.slot >> 32).size == 2, "one hash and the free slots"
    assert log.answer.tolist() == [0, 1, 0, 1]
    assert log.miss[2:].tolist() == [NIL, NIL]


def test_perfect_touches_one_line_per_lookup_and_one_per_insert():
    structure = Perfect(None, world())
    log = make_log(16, 2)
    batch = make_batch(2)
    batch.packets[0] = 2
    batch.key[:], batch.route[:] = 5, 9
    seen = []

    def price(log, first, stop):
        seen.extend(
            (int(record_kind(r)), int(record_function(r)), int(record_line(r)) * 64) for r in log.record[: log.head[0]].tolist()
        )

    drive(structure, batch, Context(0, 0, log, structure.world), price)
    lookup, insert, entry = number("perfect_lookup"), number("perfect_insert"), int(log.entry[0])
    assert seen == [(READ, lookup, entry), (WRITE, insert, entry), (READ, lookup, entry)]


def test_perfect_keeps_an_unknown_route_unknown():
    structure = Perfect(None, world())
    batch = make_batch(2)
    batch.packets[0] = 2
    log = make_log(16, 2)
    drive(structure, batch, Context(0, 0, log, structure.world), lambda log, first, stop: None)
    assert log.answer.tolist() == [DROPPED, DROPPED]
    assert log.miss.tolist() == [1, NIL]


def test_perfect_refuses_keys_of_another_length_and_too_many_flows():
    structure = Perfect(None, world())
    list(run(structure, list(traffic(4))[:1]))
    with pytest.raises(ValueError, match="holds keys of 4 words, got one of 10"):
        list(run(structure, list(traffic(4, 10))[:1]))
    structure.state = structure.state._replace(row=np.zeros((MOST, 0), np.uint32))
    with pytest.raises(MemoryError, match="no more than 16777216 flows"):
        structure.grow()


def test_none_sends_every_packet_to_the_slow_path_and_touches_nothing():
    structure = NoCache(None, world())
    for log, _ in run(structure, traffic(5)):
        assert (log.miss == 0).all()
        assert not log.entry.any()
        assert not log.end.any()
    assert structure.counters() == {"entries": 0, "in_hit": 0, "in_slow_tot": PACKETS, "errors": 0}


@pytest.mark.parametrize("capacity", [1, 2, 13])
def test_lru_agrees_with_an_ordered_dictionary(capacity):
    structure, oracle = Lru(LruParams(capacity), world()), OrderedDict()
    batches = list(traffic(16))[:15]
    for log, flow in run(structure, batches):
        for i, f in enumerate(flow):
            assert (log.miss[i] == NIL) == (f in oracle)
            oracle[f] = True
            oracle.move_to_end(f)
            if len(oracle) > capacity:
                oracle.popitem(last=False)
        structure.check()
        assert len(structure) == len(oracle)
        assert [structure.entries[key][2] for key in structure.order.values()] == list(oracle)


def test_lru_refuses_bad_parameters():
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        Lru(LruParams(0), world())
    with pytest.raises(ValueError, match="did you mean capacity"):
        make_params(Lru, {"capacty": 3})
