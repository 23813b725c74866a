"""The LC-trie against a plain recursive twin, a set, and what uniform keys are known to give."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.trie_oracle import TrieOracle

from models.access import AccessLog, empty, make_log, record_kind, record_line, record_lines
from models.functions import number
from models.interface import NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import NIL, compiled
from models.lc_trie import (
    BITS,
    BLOCK,
    POS,
    ROOT,
    TNODES,
    LcTrie,
    change_records,
    descend,
    equals,
    extract,
    find,
    header_address,
    insert,
    mismatch,
    remove,
    slot_address,
)
from models.lc_trie.nodes import NEXT_NODE, NEXT_SLOT, WANT_NODES, WANT_SLOTS
from models.simulated_memory import SimulatedMemory
from models.slab import slab_alloc, slab_free, slab_room

SLAB_ROOM = 64 * 6


class Driver:
    """An LcTrie with the calls that its user must make, keys as Python integers."""

    def __init__(self, words: int = 1, room: int = 4, log_room: int = 0, on: bool = True, **params: int) -> None:
        self.memory = SimulatedMemory()
        self.trie = LcTrie(self.memory, words, name="t", room=room, **params)
        self.words = words
        least = int(change_records(self.trie.state)) + SLAB_ROOM
        self.log = make_log(max(log_room, least), 1, on)
        self.leaf: dict[int, int] = {}
        self.records: list[int] = []
        self.returns = {NEED_LOG: 0, NEED_POOL: 0}
        self.probe = np.zeros((1, words), np.uint32)

    def drain(self) -> None:
        self.records += self.log.record[: self.log.head[0]].tolist()
        self.log.head[0] = 0

    def words_of(self, key: int) -> list[int]:
        return [(key >> (32 * (self.words - 1 - w))) & 0xFFFFFFFF for w in range(self.words)]

    def _until_done(self, change: "object", leaf: int) -> None:
        for _ in range(1_000_000):
            need = int(change(self.trie.state, self.log, 0, leaf))  # type: ignore[operator]
            if need == NEED_NOTHING:
                return
            self.returns[need] += 1
            if need == NEED_POOL:
                self.trie.grow()
            else:
                assert self.log.head[0] > 0, "asks for room in an empty log"
                self.drain()
        raise AssertionError("no progress")

    def insert(self, key: int) -> None:
        if slab_room(self.trie.leaves.state, 0) < 1:
            self.trie.leaves.grow()
            self.trie.grow()
        self.drain()
        leaf = int(slab_alloc(self.trie.leaves.state, self.log, 0))
        self.drain()
        self.trie.state.leaf[leaf, : self.words] = self.words_of(key)
        self.leaf[key] = leaf
        self._until_done(insert, leaf)

    def remove(self, key: int) -> None:
        leaf = self.leaf.pop(key)
        self._until_done(remove, leaf)
        self.drain()
        slab_free(self.trie.leaves.state, self.log, 0, leaf)

    def find(self, key: int) -> int:
        self.probe[0] = self.words_of(key)
        return int(find(self.trie.state, self.probe, 0))

    def shape(self) -> object:
        s = self.trie.state

        def walk(ref: int) -> object:
            if ref == 0:
                return None
            if ref & 1:
                key = 0
                for word in s.leaf[(ref >> 1) - 1, : self.words].tolist():
                    key = key << 32 | word
                return key
            n = (ref >> 1) - 1
            bits, block = int(s.node[n, BITS]), int(s.node[n, BLOCK])
            return (int(s.node[n, POS]), bits, tuple(walk(int(r)) for r in s.child[block : block + (1 << bits)]))

        return walk(int(s.var[ROOT]))


def spread(key: int, words: int) -> int:
    """A small number as a key whose interesting bits lie at both ends and across the word boundaries."""
    width = 32 * words
    value = (key & 0xF) << (width - 4) | ((key >> 4) & 0x3F)
    if words > 1:
        value |= ((key >> 10) & 0x3F) << (width - 35)
    return value


OPERATIONS = st.lists(st.tuples(st.booleans(), st.integers(0, 0xFFFF)), max_size=60 if compiled() else 25)


def play(operations: list[tuple[bool, int]], driver: Driver, oracle: TrieOracle, key_of: "object") -> None:
    for adding, number_ in operations:
        key = key_of(number_)  # type: ignore[operator]
        if adding and key not in oracle.keys:
            driver.insert(key)
            oracle.insert(key)
        elif not adding and oracle.keys:
            victim = sorted(oracle.keys)[number_ % len(oracle.keys)]
            driver.remove(victim)
            oracle.remove(victim)
        driver.trie.check()
        assert driver.shape() == oracle.shape()


@given(OPERATIONS)
@settings(max_examples=60 if compiled() else 8, deadline=None)
def test_same_trie_as_the_recursive_twin_dense_keys(operations: list[tuple[bool, int]]) -> None:
    play([(a, k & 0x7F) for a, k in operations], Driver(1), TrieOracle(32), lambda k: k << 25)


@pytest.mark.parametrize("words", [1, 2, 5])
@given(operations=OPERATIONS)
@settings(max_examples=40 if compiled() else 4, deadline=None)
def test_same_trie_as_the_recursive_twin_skipped_bits(words: int, operations: list[tuple[bool, int]]) -> None:
    play(operations, Driver(words), TrieOracle(32 * words), lambda k: spread(k, words))


@pytest.mark.parametrize(("inflate", "halve", "inflate_root", "halve_root"), [(50, 25, 50, 25), (30, 15, 20, 10), (80, 30, 40, 20)])
def test_thresholds_are_parameters(inflate: int, halve: int, inflate_root: int, halve_root: int) -> None:
    params = {
        "inflate_threshold": inflate,
        "halve_threshold": halve,
        "inflate_threshold_root": inflate_root,
        "halve_threshold_root": halve_root,
    }
    driver, oracle = Driver(1, **params), TrieOracle(32, inflate, halve, inflate_root, halve_root)
    fill_and_drain(driver, oracle, 300 if compiled() else 60, seed=3)


def fill_and_drain(driver: Driver, oracle: TrieOracle, count: int, seed: int) -> None:
    """Insert uniform keys, then remove them in another order; compare now and then."""
    rng = np.random.default_rng(seed)
    keys = [int(k) for k in np.unique(rng.integers(0, 1 << 32, count))]
    rng.shuffle(keys)
    for change in ("insert", "remove"):
        for i, key in enumerate(keys):
            getattr(driver, change)(key)
            getattr(oracle, change)(key)
            if i % 17 == 0:
                assert driver.shape() == oracle.shape()
                driver.trie.check()
        assert driver.shape() == oracle.shape()
        rng.shuffle(keys)
    assert driver.trie.state.var[ROOT] == 0


def test_large_tnodes_double_split_and_halve_in_slices() -> None:
    """Enough keys that roots of several slices inflate and halve, and that halves of full children are resized in turn."""
    driver, oracle = Driver(1), TrieOracle(32)
    fill_and_drain(driver, oracle, 1500 if compiled() else 150, seed=7)
    assert driver.returns[NEED_POOL] > 0


def test_consecutive_keys_make_full_children_that_split() -> None:
    driver, oracle = Driver(1), TrieOracle(32)
    order = list(range(512 if compiled() else 96))
    np.random.default_rng(5).shuffle(order)
    for k in order:
        driver.insert(k << 3)
        oracle.insert(k << 3)
    assert driver.shape() == oracle.shape()
    for k in order[::2]:
        driver.remove(k << 3)
        oracle.remove(k << 3)
    assert driver.shape() == oracle.shape()


def test_a_root_at_its_bound_stays_and_its_children_grow() -> None:
    driver, oracle = Driver(1, max_bits=3), TrieOracle(32, most=3)
    fill_and_drain(driver, oracle, 200 if compiled() else 60, seed=11)


@given(OPERATIONS)
@settings(max_examples=30 if compiled() else 4, deadline=None)
def test_find_agrees_with_a_set(operations: list[tuple[bool, int]]) -> None:
    driver = Driver(2, on=False)
    held: set[int] = set()
    for adding, k in operations:
        key = spread(k, 2)
        if adding and key not in held:
            driver.insert(key)
            held.add(key)
        elif not adding and key in held:
            driver.remove(key)
            held.remove(key)
        for probe in (key, key ^ 1, key ^ (1 << 63), key ^ (1 << 32)):
            assert (driver.find(probe) != NIL) == (probe in held)


def test_records_do_not_depend_on_the_room_of_the_log() -> None:
    small, large = Driver(1, room=4), Driver(1, room=1 << 12, log_room=1 << 14)
    rng = np.random.default_rng(2)
    keys = [int(k) for k in np.unique(rng.integers(0, 1 << 32, 1200 if compiled() else 200))]
    rng.shuffle(keys)
    for driver in (small, large):
        for key in keys:
            driver.insert(key)
        for key in keys[::2]:
            driver.remove(key)
        driver.drain()
    assert small.returns[NEED_POOL] > large.returns[NEED_POOL] == 0
    assert small.records == large.records
    assert np.array_equal(small.log.calls, large.log.calls)
    if compiled():
        assert small.returns[NEED_LOG] > 0


def test_touches_stay_in_the_memory_it_was_given() -> None:
    driver = Driver(1)
    rng = np.random.default_rng(4)
    for key in np.unique(rng.integers(0, 1 << 32, 300)).tolist():
        driver.insert(key)
    driver.drain()
    owners = {driver.memory.owner(int(record_line(r)) * 64) for r in driver.records}
    owners |= {driver.memory.owner((int(record_line(r)) + int(record_lines(r)) - 1) * 64) for r in driver.records}
    assert None not in owners
    assert {"t tnodes", "t leaves"} <= owners


def test_live_tnodes_never_share_a_byte() -> None:
    driver = Driver(1)
    rng = np.random.default_rng(6)
    for key in np.unique(rng.integers(0, 1 << 32, 400)).tolist():
        driver.insert(key)
    s = driver.trie.state
    spans = []
    for n in np.flatnonzero(s.node[: s.var[16], POS] >= 0).tolist():
        start = int(header_address(s, n))
        end = int(slot_address(s, n, 1 << int(s.node[n, BITS])))
        assert start // 64 == (start + 23) // 64, "a header straddles two lines"
        spans.append((start, end))
    spans.sort()
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def _descent(driver: Driver, key: int) -> tuple[int, AccessLog]:
    empty(driver.log)
    driver.probe[0] = driver.words_of(key)
    leaf = int(descend(driver.trie.state, driver.log, number("trie_lookup"), driver.probe, 0))
    return leaf, driver.log


def test_a_descent_touches_header_and_slot_of_each_tnode() -> None:
    driver = Driver(1)
    keys = [(k << 24) for k in range(64)]  # one root of 64 slots once it is full enough
    for key in keys:
        driver.insert(key)
    s = driver.trie.state
    root = (int(s.var[ROOT]) >> 1) - 1
    for key in keys:
        leaf, log = _descent(driver, key)
        assert bool(equals(s, driver.probe, 0, leaf))
        lines = [int(record_line(r)) for r in log.record[: log.head[0]]]
        assert all(record_kind(r) == 0 for r in log.record[: log.head[0]])
        slot = int(extract(driver.probe, 0, int(s.node[root, POS]), int(s.node[root, BITS])))
        expected = [int(header_address(s, root)) // 64]
        if slot_address(s, root, slot) // 64 != expected[0]:
            expected.append(int(slot_address(s, root, slot)) // 64)
        assert lines[: len(expected)] == expected
        assert log.calls[number("tkey_extract_bits")] >= 1


@given(st.integers(0, (1 << 96) - 1), st.integers(0, (1 << 96) - 1), st.integers(0, 95), st.integers(1, 32))
@settings(max_examples=200 if compiled() else 50, deadline=None)
def test_bits_of_long_keys(a: int, b: int, pos: int, bits: int) -> None:
    rows = np.array([[(k >> s) & 0xFFFFFFFF for s in (64, 32, 0)] for k in (a, b)], np.uint32)
    bits = min(bits, 96 - pos)
    assert extract(rows, 0, pos, bits) == (a >> (96 - pos - bits)) & ((1 << bits) - 1)
    differs = next((p for p in range(pos, pos + bits) if (a ^ b) >> (95 - p) & 1), pos + bits)
    assert mismatch(rows, 0, rows, 1, pos, pos + bits) == differs


def test_every_field_of_a_long_key() -> None:
    key = 0x9E3779B97F4A7C15F39CC060
    row = np.array([[(key >> s) & 0xFFFFFFFF for s in (64, 32, 0)]], np.uint32)
    for pos in range(96):
        for bits in range(1, min(24, 96 - pos) + 1):
            assert extract(row, 0, pos, bits) == (key >> (96 - pos - bits)) & ((1 << bits) - 1)


def test_halving_resizes_the_tnodes_it_makes() -> None:
    """Sparse leaves make the root wide; once they go, two crowded neighbours are left, and their new parent inflates at once."""
    for first in range(0, 16, 2):
        driver, oracle = Driver(1), TrieOracle(32)
        crowd = [(first + side) << 28 | k << 25 for side in (0, 1) for k in range(8)]
        others = [p << 28 | k << 27 for p in range(16) if p // 2 != first // 2 for k in (0, 1)]
        for key in others + crowd:
            driver.insert(key)
            oracle.insert(key)
        for key in others:
            driver.remove(key)
            oracle.remove(key)
            assert driver.shape() == oracle.shape()
        driver.trie.check()


def test_records_do_not_depend_on_when_the_pools_grow() -> None:
    """A pool that grows by what is asked for, no more, stops nearly every doubling in its middle."""
    stingy, large = Driver(1, room=4), Driver(1, room=1 << 12)

    def grow() -> None:
        s = stingy.trie.state
        nodes, slots = int(s.var[NEXT_NODE] + s.var[WANT_NODES]), int(s.var[NEXT_SLOT] + s.var[WANT_SLOTS])
        node, prefix, child = np.zeros((nodes, 8), np.int32), np.zeros((nodes, 1), np.uint32), np.zeros(slots, np.int32)
        for new, old in ((node, s.node), (prefix, s.prefix), (child, s.child)):
            kept = min(len(new), len(old))
            new[:kept] = old[:kept]
        leaf = np.zeros((stingy.trie.leaves.room(), 1), np.uint32)
        leaf[: len(s.leaf)] = s.leaf
        s.var[[WANT_NODES, WANT_SLOTS]] = 0
        stingy.trie.state = s._replace(node=node, prefix=prefix, child=child, leaf=leaf)

    stingy.trie.grow = grow  # type: ignore[method-assign]
    rng = np.random.default_rng(9)
    # Dense runs below each of 32 prefixes: full children that are split when the root doubles.
    keys = [p << 27 | k << 21 for p in range(32) for k in range(16 if compiled() else 8)]
    keys.sort(key=lambda k: (k >> 21) % 64)
    gone = [keys[i] for i in rng.permutation(len(keys))[: len(keys) * 3 // 4]]
    for driver in (stingy, large):
        for key in keys:
            driver.insert(key)
        for key in gone:
            driver.remove(key)
        driver.drain()
    assert stingy.records == large.records
    assert stingy.returns[NEED_POOL] > large.returns[NEED_POOL]


def test_triestat_of_a_trie_drawn_by_hand() -> None:
    """Keys 0, 1 and 2^31: a root of one bit over a tnode of one bit and a leaf."""
    driver = Driver(1)
    for key in (0, 1, 1 << 31):
        driver.insert(key)
    stat = driver.trie.triestat()
    assert stat == {
        "Aver depth": pytest.approx(5 / 3),
        "Max depth": 2,
        "Leaves": 3,
        "Internal nodes": {1: 2},
        "Pointers": 4,
        "Null ptrs": 0,
        "Total size": 0,
    }
    assert "Max depth:      2" in driver.trie.triestat_text()


def test_an_empty_trie_and_a_single_leaf() -> None:
    driver = Driver(1)
    driver.trie.check()
    assert driver.find(5) == NIL
    driver.insert(5)
    driver.trie.check()
    assert driver.find(5) != NIL
    assert driver.trie.triestat()["Aver depth"] == 0
    driver.remove(5)
    driver.trie.check()
    assert driver.find(5) == NIL


@pytest.mark.parametrize(
    ("params", "text"),
    [({"max_bits": 25}, "max_bits"), ({"halve_threshold": 60}, "halve_threshold"), ({"inflate_threshold_root": 0}, "_root")],
)
def test_wrong_parameters_are_refused(params: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        LcTrie(SimulatedMemory(), 1, name="t", **params)


@pytest.mark.skipif(not compiled(), reason="hundred thousands of insertions")
@pytest.mark.parametrize(
    ("leaves", "root_bits", "mean_depth", "tnodes"), [(131_072, 18, 1.43, 26_300), (260_000, 19, 1.43, 51_700)]
)
def test_uniform_keys_give_the_known_shape(leaves: int, root_bits: int, mean_depth: float, tnodes: int) -> None:
    """A Monte-Carlo model of the same rules gives these shapes; the TRASH paper says below 1.5 on average and 5 at most."""
    driver = Driver(1, room=1 << 16, on=False)
    while driver.trie.leaves.room() < leaves + 1000:
        driver.trie.leaves.grow()
    driver.trie.grow()
    keys = np.unique(np.random.default_rng(1).integers(0, 1 << 32, leaves + 1000, dtype=np.uint32))
    np.random.default_rng(2).shuffle(keys)
    for key in keys[:leaves].tolist():
        driver.insert(key)
    driver.trie.check()
    stat = driver.trie.triestat()
    assert driver.trie.root_bits() == root_bits
    assert stat["Aver depth"] == pytest.approx(mean_depth, abs=0.015)
    assert 3 <= int(stat["Max depth"]) <= 6  # type: ignore[arg-type]
    assert driver.trie.state.var[TNODES] == pytest.approx(tnodes, rel=0.02)
