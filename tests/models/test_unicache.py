"""unicache: what a lookup touches, how flows leave, and the conformance kit with parameters that make everything happen."""

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from oracles.jenkins import lookup2

from models.access import DROPPED, USED, empty, make_log, record_function, record_kind, record_line
from models.conformance import check_flow_cache
from models.drive import drive, drive_reclaim, drive_timer
from models.flow import END_MARK, FIN, RST, make_batch, pack_ipv4
from models.functions import names, number
from models.interface import MISS, Context, World
from models.kernel import NIL, compiled
from models.lc_trie import child_at, header_address, index_of, leaf_address, slot_address
from models.lc_trie.nodes import BITS, POS, ROOT
from models.rcu import Rcu
from models.simulated_memory import SimulatedMemory
from models.unicache import Unicache, UnicacheParams
from models.unicache.key import hash_code, header_of
from models.unicache.state import ENTRY, entry_address

Key = tuple[int, int, int, int]
SECOND = 1_000_000_000


class Rig:
    """A structure in a world of its own, driven batch by batch."""

    def __init__(self, params: UnicacheParams | None = None, room: int = 4096, seed: int = 1) -> None:
        self.world = World(SimulatedMemory(), Rcu(), np.random.default_rng(seed))
        self.cache = Unicache(params or UnicacheParams(), self.world)
        self.ctx = Context(now=SECOND, cpu=0, log=make_log(room, 64), world=self.world)
        self.records: list[int] = []
        self.calls = np.zeros(256, np.int64)
        self.batch = make_batch(64)

    def price(self, log: object, first: int, stop: int) -> None:
        self.records += self.ctx.log.record[: self.ctx.log.head[USED]].tolist()
        self.calls += self.ctx.log.calls

    def send(self, *keys: Key, flags: int = 0) -> list[str]:
        """Send a packet of each flow; says hit, miss or drop for each."""
        said = []
        for at in range(0, len(keys), 64):
            part = keys[at : at + 64]
            self.batch.packets[0] = len(part)
            self.batch.key[: len(part)] = part
            self.batch.flags[: len(part)] = flags
            self.batch.route[: len(part)] = [k[1] % 1000 for k in part]
            self.records, self.calls[:] = [], 0
            drive(self.cache, self.batch, self.ctx, self.price)
            for i, key in enumerate(part):
                if self.ctx.log.answer[i] == DROPPED:
                    said.append("drop")
                else:
                    assert self.ctx.log.answer[i] == key[1] % 1000
                    said.append("hit" if self.ctx.log.miss[i] == NIL else "miss")
        self.cache.check()
        return said

    def pass_time(self, seconds: float) -> None:
        self.ctx.now += round(seconds * SECOND)

    def leaves(self) -> int:
        return self.cache.counters()["leaves"]


def flow(n: int, port: int = 9) -> Key:
    return pack_ipv4(0xC0A80001, 0x0A000000 + n, 9, port)


@pytest.fixture
def rig() -> Iterator[Rig]:
    return Rig()


SMALL = {"steps": 40, "flows": 48} if compiled() else {"steps": 8, "flows": 24}


@pytest.mark.parametrize(
    "params",
    [
        UnicacheParams(),
        UnicacheParams(gc_thresh=12, gc_goal=4, gc_scan=3),
        UnicacheParams(gc_thresh=1, gc_goal=1),
        UnicacheParams(gc_thresh=10, gc_goal=2, max_size=12),
        UnicacheParams(active_gc=False, gc_timeout_s=1.0),
    ],
)
def test_conformance(params: UnicacheParams) -> None:
    check_flow_cache(lambda world: Unicache(params, world), **SMALL)


def test_header_is_lookup2_of_the_whole_key() -> None:
    rng = np.random.default_rng(1)
    for words in rng.integers(0, 1 << 32, (50, 5)).tolist():
        assert hash_code(*words[:4], words[4]) == lookup2(struct.pack("<4I", *words[:4]), words[4])


def test_a_flow_misses_once_then_hits(rig: Rig) -> None:
    keys = [flow(n) for n in range(40)]
    assert rig.send(*keys) == ["miss"] * 40
    assert rig.send(*keys) == ["hit"] * 40
    assert len(rig.cache) == rig.leaves() == 40


def test_flows_that_differ_in_one_part_are_leaves_of_their_own(rig: Rig) -> None:
    """A port scan is one dst entry for rt_hash and a leaf a port here."""
    base = pack_ipv4(1, 2, 3, 4, 6, 0, 1)
    others = [
        pack_ipv4(*part) for part in [(9, 2, 3, 4, 6, 0, 1), (1, 9, 3, 4, 6, 0, 1), (1, 2, 9, 4, 6, 0, 1), (1, 2, 3, 9, 6, 0, 1)]
    ]
    others += [pack_ipv4(1, 2, 3, 4, 17, 0, 1), pack_ipv4(1, 2, 3, 4, 6, 4, 1), pack_ipv4(1, 2, 3, 4, 6, 0, 2)]
    assert rig.send(base, *others) == ["miss"] * 8
    assert rig.send(base, *others) == ["hit"] * 8
    assert rig.send(*(flow(7, port) for port in range(100, 130))) == ["miss"] * 30
    assert rig.leaves() == 38


@pytest.mark.skipif(not compiled(), reason="needs a birthday search over 2^18 headers")
def test_flows_whose_headers_collide_are_told_apart(rig: Rig) -> None:
    u = rig.cache._state
    seen: dict[int, int] = {}
    pairs = []
    key = np.zeros((1, 4), np.uint32)
    for n in range(1 << 18):
        key[0] = flow(n)
        header = int(header_of(u, key, 0))
        if header in seen:
            pairs.append((flow(seen[header]), flow(n)))
        seen[header] = n
    assert pairs, "no two of 2^18 headers are equal: the header is not a 32-bit hash"
    for one, other in pairs:
        assert rig.send(one, other) == ["miss", "miss"]
        assert rig.send(one, other) == ["hit", "hit"]
    assert rig.cache.metrics()["max_depth"] >= 1


def test_what_a_hit_touches_and_calls(rig: Rig) -> None:
    keys = [flow(n) for n in range(60)]
    rig.send(*keys)
    trie = rig.cache._trie.state
    expected_calls = {
        "ip_route_input": 1, "unicache_hash_code": 1, "trie_lookup": 1, "tkey_equals": 1, "unicache_tcp_establish": 1,
        "match_pktgen": 1, "unicache_garbage_collect_active": 1,
    }  # fmt: skip
    for key in keys[::7]:
        assert rig.send(key) == ["hit"]
        expected = []
        probe = np.array([[0, *key]], np.uint32)
        header = int(header_of(rig.cache._state, probe[:, 1:], 0))
        ref, depth = int(trie.var[ROOT]), 0
        while ref & 1 == 0:
            n = int(index_of(ref))
            bits = int(trie.node[n, BITS])
            slot = header >> (32 - int(trie.node[n, POS]) - bits) & ((1 << bits) - 1)
            expected.append(("trie_lookup", 0, int(header_address(trie, n)) // 64))
            line = int(slot_address(trie, n, slot)) // 64
            if line != expected[-1][2]:
                expected.append(("trie_lookup", 0, line))
            ref, depth = int(child_at(trie, n, slot)), depth + 1
        leaf = int(index_of(ref))
        entry = int(entry_address(trie, leaf))
        expected.append(("tkey_equals", 0, int(leaf_address(trie, leaf)) // 64))
        expected.append(("ip_route_input", 0, entry // 64 + 2))
        expected.append(("ip_route_input", 1, entry // 64))
        expected.append(("unicache_tcp_establish", 0, entry // 64 + 1))
        got = [(names()[int(record_function(r))], int(record_kind(r)), int(record_line(r))) for r in rig.records]
        assert got == expected
        calls = {names()[f]: int(rig.calls[f]) for f in np.flatnonzero(rig.calls)}
        assert calls == {**expected_calls, "tkey_extract_bits": 1 + depth}
        assert rig.ctx.log.entry[0] == entry
        assert rig.world.memory.owner(entry) == "ip_dst_cache"


def test_a_miss_zeroes_an_entry_and_changes_the_trie(rig: Rig) -> None:
    rig.send(*(flow(n) for n in range(20)))
    assert rig.send(flow(99)) == ["miss"]
    for name in ("dst_alloc", "trie_insert", "trie_rebalance"):
        assert rig.calls[number(name)] == 1, name
    assert rig.calls[number("unicache_hash_code")] == 2
    assert rig.calls[number("unicache_tcp_establish")] == 0
    assert rig.calls[number("kmem_cache_alloc")] == 2
    written = [int(record_line(r)) for r in rig.records if record_function(r) == number("dst_alloc")]
    assert int(rig.ctx.log.entry[0]) // 64 in written


@pytest.mark.parametrize("flags", [FIN, RST, END_MARK, FIN | RST])
def test_the_last_packet_of_a_flow_hits_and_takes_it_out(rig: Rig, flags: int) -> None:
    rig.send(flow(1), flow(2))
    assert rig.send(flow(1), flags=flags) == ["hit"]
    assert rig.leaves() == 1
    assert len(rig.cache) == 2, "an entry counts until its grace period is over"
    assert rig.send(flow(1), flow(2)) == ["miss", "hit"]
    assert rig.cache.counters()["gc_active"] == 1


def test_active_collection_can_be_switched_off() -> None:
    rig = Rig(UnicacheParams(active_gc=False))
    rig.send(flow(1))
    assert rig.send(flow(1), flags=FIN) == ["hit"]
    assert rig.send(flow(1)) == ["hit"]


def test_entries_fall_when_their_grace_period_is_over(rig: Rig) -> None:
    rig.send(*(flow(n) for n in range(30)))
    rig.send(*(flow(n) for n in range(30)), flags=END_MARK)
    assert (rig.leaves(), len(rig.cache)) == (0, 30)
    assert drive_reclaim(rig.cache, rig.ctx, rig.price) == 0
    rig.pass_time(0.01)
    rig.records = []
    assert drive_reclaim(rig.cache, rig.ctx, rig.price) == 10
    assert len(rig.cache) == 20
    touched = {names()[int(record_function(r))] for r in rig.records}
    assert {"rcu_do_batch", "dst_destroy", "ipv4_dst_destroy", "kmem_cache_free"} <= touched
    while drive_reclaim(rig.cache, rig.ctx, rig.price):
        pass
    assert len(rig.cache) == 0
    rig.cache.check()


def test_an_insertion_at_gc_thresh_removes_the_longest_unused() -> None:
    """With gc_scan above the number of leaves, the choice is exact."""
    rig = Rig(UnicacheParams(gc_thresh=20, gc_goal=5, gc_scan=100))
    for n in range(20):
        rig.send(flow(n))
        rig.pass_time(0.01)
    for n in (0, 3, 4):
        rig.send(flow(n))
    assert rig.cache.cycles() == 0
    assert rig.send(flow(50)) == ["miss"]
    assert rig.cache.cycles() == 1
    assert rig.leaves() == 16
    gone = {1, 2, 5, 6, 7}
    leaf = rig.cache._trie.state.leaf
    left = {int(row[2]) - 0x0A000000 for row in leaf[np.flatnonzero(leaf[:, ENTRY])]}
    assert left == set(range(20)) - gone | {50}


def test_passive_collection_looks_at_gc_scan_leaves_for_each_removed() -> None:
    rig = Rig(UnicacheParams(gc_thresh=40, gc_goal=6, gc_scan=4))
    rig.send(*(flow(n) for n in range(41)))
    counters = rig.cache.counters()
    assert (counters["gc_total"], counters["gc_passive"], counters["gc_scanned"]) == (1, 6, 24)
    assert rig.cache.cycle_progress() == pytest.approx(1 / 6)


def test_live_flows_survive_passive_collection() -> None:
    """Half of the leaves are stale: of eight looked at, the longest unused is nearly always stale."""
    rig = Rig(UnicacheParams(gc_thresh=64, gc_goal=4))
    live = [flow(n) for n in range(16)]
    rig.send(*(key for n in range(16) for key in (flow(n), flow(500 + n), flow(600 + n))))
    rounds, misses = (30 if compiled() else 8), 0
    for n in range(rounds):
        rig.pass_time(0.1)
        misses += rig.send(*live).count("miss")
        rig.pass_time(0.1)
        rig.send(*(flow(1000 + 8 * n + k) for k in range(8)))
    assert rig.cache.counters()["gc_passive"] > 6 * (rounds - 6)
    assert misses < 0.05 * rounds * len(live)


def test_the_timer_removes_what_was_idle_for_gc_timeout() -> None:
    rig = Rig(UnicacheParams(gc_interval_s=1.0, gc_timeout_s=1.0))
    rig.send(*(flow(n) for n in range(20)))
    rig.pass_time(0.6)
    rig.send(*(flow(n) for n in range(5)))
    rig.pass_time(0.6)
    timer = rig.cache.timers()[0]
    drive_timer(rig.cache, timer.name, rig.ctx, rig.price)
    assert rig.leaves() == 5
    assert rig.send(*(flow(n) for n in range(5))) == ["hit"] * 5
    assert rig.cache.counters()["gc_timer"] == 15


def test_one_run_of_the_timer_visits_its_share() -> None:
    rig = Rig(UnicacheParams(gc_interval_s=1.0, gc_timeout_s=4.0))
    rig.send(*(flow(n) for n in range(59)))  # one slab of leaves
    ids = 59
    rig.pass_time(10)
    for run in range(1, 5):
        drive_timer(rig.cache, "unicache_timer_gc", rig.ctx, rig.price)
        assert rig.leaves() == max(0, ids - 15 * run)


def test_packets_are_refused_at_max_size() -> None:
    rig = Rig(UnicacheParams(gc_thresh=10, gc_goal=3, max_size=12))
    said = rig.send(*(flow(n) for n in range(30)))
    assert said[:12] == ["miss"] * 12
    assert set(said[12:]) == {"drop"}
    assert len(rig.cache) == 12
    counters = rig.cache.counters()
    assert counters["errors"] == 18


def test_remove_and_find_again(rig: Rig) -> None:
    rig.send(flow(1), flow(2))
    assert rig.cache.remove(flow(1), rig.ctx)
    assert not rig.cache.remove(flow(1), rig.ctx)
    empty(rig.ctx.log)
    assert rig.send(flow(1), flow(2)) == ["miss", "hit"]


def test_two_logs_and_a_loop_over_packets_give_the_same_records() -> None:
    """Enough flows for roots that double and for passive collections, ends of flows among them."""
    rng = np.random.default_rng(3)
    count, flows = (60, 500) if compiled() else (6, 60)
    steps = [[flow(int(n)) for n in rng.integers(0, flows, 64)] for _ in range(count)]
    flags = rng.choice([0, 0, 0, END_MARK], (count, 64))
    params = UnicacheParams(gc_thresh=flows // 2, gc_goal=flows // 10)

    def run(room: int) -> tuple[list[int], list[int], dict[str, int]]:
        rig = Rig(params, room)
        records: list[int] = []
        for i, keys in enumerate(steps):
            rig.batch.packets[0] = 64
            rig.batch.key[:] = keys
            rig.batch.flags[:] = flags[i]
            rig.batch.route[:] = [k[1] % 1000 for k in keys]
            rig.records = []
            rig.pass_time(0.001)
            drive(rig.cache, rig.batch, rig.ctx, rig.price)
            drive_reclaim(rig.cache, rig.ctx, rig.price)
            records += rig.records
        rig.cache.check()
        return records, rig.calls.tolist(), rig.cache.counters()

    small, large = run(1024), run(1 << 18)
    assert small == large
    assert small[2]["gc_total"] > 0
    assert small[2]["gc_active"] > 0


def test_metrics_are_those_of_the_trie(rig: Rig) -> None:
    assert rig.cache.lookup(_packet(flow(1)), rig.ctx) == MISS
    rig.send(*(flow(n) for n in range(100)))
    metrics = rig.cache.metrics()
    assert metrics["leaves"] == 100
    assert 1 <= metrics["mean_depth"] <= metrics["max_depth"]
    assert metrics["root_bits"] >= 6
    assert "Leaves:         100" in rig.cache.triestat()
    assert rig.cache.memory_bytes() > 100 * (256 + 64)


def _packet(key: Key):  # type: ignore[no-untyped-def]
    from models.interface import Packet

    return Packet(key=key, time=0, length=60, flags=0, route=0)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"gc_thresh": 0}, "gc_thresh must be at least 1, got 0"),
        ({"gc_thresh": 10, "gc_goal": 11}, "gc_goal must not be above gc_thresh"),
        ({"gc_scan": 0}, "gc_scan"),
        ({"gc_interval_s": 0.0}, "gc_interval_s"),
        ({"gc_thresh": 100, "gc_goal": 1, "max_size": 50}, "max_size"),
    ],
)
def test_parameters_that_cannot_work_are_refused(values: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        UnicacheParams(**values)  # type: ignore[arg-type]
