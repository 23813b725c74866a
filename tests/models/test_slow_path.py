from itertools import pairwise

import numpy as np
import pytest

from models.access import READ, WRITE, begin_batch, make_log, record_function, record_kind, record_line
from models.fib_trie import NO_ROUTE
from models.flow import make_batch, pack_ipv4
from models.functions import names, number
from models.interface import World
from models.kernel import NIL, compiled
from models.rcu import Rcu
from models.route_ranges import RouteRanges
from models.simulated_memory import SimulatedMemory
from models.slow_path import SLOW_PATH_RECORDS, SlowPath, slow_path
from traces.routes import default_routes

SENDER = 0xC0A80101
BOX = 0xC0A801FE


def make(prefixes=20, default=True):
    world = World(SimulatedMemory(), Rcu(), np.random.default_rng(1))
    table = default_routes(1, prefixes)
    rows = slice(None) if default else slice(0, -1)
    prefix, plen, nexthop = table.prefix[rows], table.plen[rows], table.nexthop[rows]
    return world, SlowPath(world, prefix, plen, np.arange(prefix.size), nexthop), RouteRanges(prefix, plen, np.arange(prefix.size))


def batch_of(destinations, source=SENDER, iif=1):
    batch = make_batch(len(destinations))
    for i, destination in enumerate(destinations):
        batch.key[i] = pack_ipv4(source, destination, iif=iif)
    batch.packets[0] = len(destinations)
    return batch


def run(path, batch, missed, first=0, stop=None, open_=0, first_done=0, cpu=0, room=None):
    """The slow log and the number of packets written; `missed` are packet numbers."""
    packets = int(batch.packets[0])
    log = make_log(1, packets)
    begin_batch(log, packets)
    log.miss[list(missed)] = 0
    slow = make_log(room or packets * SLOW_PATH_RECORDS, packets)
    written = slow_path(path.state, batch, log, slow, cpu, first, packets if stop is None else stop, open_, first_done)
    return slow, written


def steps(world, slow, start=0, stop=None):
    used = int(slow.head[0]) if stop is None else stop
    return [
        (names()[record_function(r)], world.memory.owner(record_line(r) << 6), record_kind(r))
        for r in slow.record[start:used].tolist()
    ]


def calls(slow):
    return {name: int(slow.calls[i]) for i, name in enumerate(names()) if slow.calls[i]}


def test_a_forwarded_packet_makes_the_calls_of_the_kernel():
    world, path, _ = make()
    slow, written = run(path, batch_of([0x0A000001]), [0])
    found = calls(slow)
    compared = found.pop("memcmp")
    assert written == 1
    assert compared >= 1
    assert found == {
        "ip_route_input_slow": 1,
        "fib_lookup": 2,
        "fib_rules_lookup": 2,
        "fib_get_table": 4,
        "fn_trie_lookup": 4,
        "fib_semantic_match": 2,
        "fib_validate_source": 1,
        "arp_bind_neighbour": 1,
        "neigh_lookup": 1,
        "other_slow_path": 1,
    }
    way = steps(world, slow)
    order = []
    for function, _, _ in way:
        if not order or order[-1] != function:
            order.append(function)
    lookup = ["fib_rules_lookup", "fib_get_table", "fn_trie_lookup", "fib_rules_lookup", "fib_get_table", "fn_trie_lookup"]
    lookup += ["fib_semantic_match", "fib_rules_lookup"]
    slow_name = "ip_route_input_slow"
    assert order[: 1 + len(lookup) + 1] == [slow_name, *lookup, slow_name]
    rest = order[1 + len(lookup) + 1 :]
    assert rest[: 1 + len(lookup) + 1] == ["fib_validate_source", *lookup, "fib_validate_source"]
    assert [name for name in rest[len(lookup) + 2 :] if name != "memcmp"] in (
        [slow_name, "neigh_lookup", "neigh_lookup", slow_name],
        [slow_name, *["neigh_lookup"] * (compared + 1), slow_name],
    )
    assert sum(function == "memcmp" for function, _, _ in way) == compared
    assert ("neigh_lookup", "neighbours", WRITE) in way
    tables = {owner.rsplit(" ", 1)[0] for function, owner, _ in way if function == "fn_trie_lookup"}
    assert tables == {"local table", "main table"}


def test_counted_references_balance():
    """What a packet takes hold of and lets go is written twice; the neighbour, both devices and the out in_device stay held."""
    world, path, _ = make()
    slow, _ = run(path, batch_of([0x0A000001]), [0])
    written = [record_line(r) for r in slow.record[: slow.head[0]].tolist() if record_kind(r) == WRITE]
    devices = [line for line in written if world.memory.owner(line << 6) == "network devices"]
    fib_infos = [line for line in written if "fib_info" in world.memory.owner(line << 6)]
    neighbours = [line for line in written if world.memory.owner(line << 6) == "neighbours"]
    assert all(fib_infos.count(line) % 2 == 0 for line in fib_infos)
    assert len(fib_infos) == 4
    assert sorted(devices.count(line) for line in set(devices)) == [1, 1, 2, 2]
    assert len(neighbours) == 1


def test_packets_are_chosen_by_miss_open_and_first_done():
    _, path, _ = make()
    batch = batch_of([0x0A000000 + (i << 16) for i in range(6)])
    whole, written = run(path, batch, [0, 2, 3, 5])
    ends = [0, *whole.end[:written].tolist()]
    pieces = [whole.record[a:b].tolist() for a, b in pairwise(ends)]
    assert written == 4
    assert ends[-1] == whole.head[0]
    for arguments, packets in (
        ({"first": 1, "stop": 3}, [2]),
        ({"first": 1, "stop": 3, "open_": 1}, [2, 3]),
        ({"first": 2, "stop": 4, "first_done": 1}, [3]),
        ({"first": 2, "stop": 2, "open_": 1}, [2]),
        ({"first": 2, "stop": 2, "open_": 1, "first_done": 1}, []),
        ({"first": 0, "stop": 1, "open_": 1}, [0]),  # packet 1 hit
        ({"first": 4, "stop": 4}, []),
    ):
        part, count = run(path, batch, [0, 2, 3, 5], **arguments)
        expected = [pieces[[0, 2, 3, 5].index(i)] for i in packets]
        assert count == len(packets), arguments
        assert part.record[: part.head[0]].tolist() == [record for piece in expected for record in piece], arguments
        assert part.end[:count].tolist() == np.cumsum([len(piece) for piece in expected]).tolist(), arguments


def test_a_log_without_room_is_refused_and_never_overrun():
    _, path, _ = make()
    batch = batch_of([0x0A000001, 0x0A000002])
    slow, written = run(path, batch, [0, 1], room=SLOW_PATH_RECORDS)
    assert written == -1
    assert 0 < slow.head[0] <= SLOW_PATH_RECORDS
    assert run(path, batch, [0, 1], room=2 * SLOW_PATH_RECORDS)[1] == 2
    short = make_log(2 * SLOW_PATH_RECORDS, 1)
    log = make_log(1, 2)
    log.miss[:2] = 0
    assert slow_path(path.state, batch, log, short, 0, 0, 2, 0, 0) == -1


def test_a_packet_for_the_box_and_one_without_route_leave_the_forwarding_path():
    world, path, _ = make(default=False)
    slow, _ = run(path, batch_of([BOX]), [0])
    assert calls(slow)["fib_validate_source"] == 1
    assert "arp_bind_neighbour" not in calls(slow)
    slow, _ = run(path, batch_of([0x01020304]), [0])
    found = calls(slow)
    assert (found["fib_lookup"], found["fn_trie_lookup"], found["other_slow_path"]) == (1, 2, 1)
    assert "fib_validate_source" not in found
    assert not any(kind == WRITE and "fib_info" in owner for _, owner, kind in steps(world, slow))


def test_two_interfaces_share_no_device_line_but_one_rule():
    world, path, _ = make()
    one, _ = run(path, batch_of([0x0A000001], iif=1), [0], cpu=0)
    two, _ = run(path, batch_of([0x0A000001], iif=3), [0], cpu=1)

    def lines(slow, what):
        return {
            record_line(r)
            for r in slow.record[: slow.head[0]].tolist()
            if record_kind(r) == WRITE and what in world.memory.owner(record_line(r) << 6)
        }

    assert not lines(one, "network devices") & lines(two, "network devices")
    # the rule's, the neighbour table's lock; the statistics are each CPU's own
    assert len(lines(one, "routing data") & lines(two, "routing data")) == 2
    assert len(lines(one, "routing data") - lines(two, "routing data")) == 2


def test_the_neighbour_found_is_that_of_the_route():
    world, path, ranges = make(12)
    base = next(base for name, base, _ in world.memory.regions if name == "neighbours")
    for address in default_routes(1, 12).prefix.tolist():
        slow, _ = run(path, batch_of([address]), [0])
        held = [
            (record_line(r) << 6) - base
            for r in slow.record[: slow.head[0]].tolist()
            if record_kind(r) == WRITE and world.memory.owner(record_line(r) << 6) == "neighbours"
        ]
        # in the generated table each route has a next hop of its own, in the same order
        assert [at // 256 for at in held] == [ranges.lookup(address)]
    assert (path.state.next != NIL).any()  # some share a bucket


def test_routes_agree_with_route_ranges():
    _, path, ranges = make(1000 if compiled() else 50)
    asked = np.random.default_rng(4).integers(0, 1 << 32, 5000 if compiled() else 100)
    asked[::2] = 0x0A000000 | (asked[::2] & 0xFFFFFF)
    assert path.lookup_batch(asked).tolist() == [ranges.lookup(int(a)) for a in asked]
    assert path.route_of(SENDER) == ranges.lookup(SENDER)
    _, without, _ = make(default=False)
    assert without.route_of(0x01020304) == NO_ROUTE


def test_a_read_log_is_not_written():
    _, path, _ = make()
    batch = batch_of([0x0A000001])
    log = make_log(4, 1)
    log.miss[0] = 0
    slow = make_log(SLOW_PATH_RECORDS, 1)
    slow_path(path.state, batch, log, slow, 0, 0, 1, 0, 0)
    assert log.head[0] == 0
    assert not log.calls.any()
    assert slow.calls[number("fn_trie_lookup")] == 4
    assert record_kind(int(slow.record[0])) == READ


def test_a_table_that_is_none_is_refused():
    world = World(SimulatedMemory(), Rcu(), np.random.default_rng(1))
    one = np.ones(1, np.int64)
    with pytest.raises(ValueError, match="not a prefix"):
        SlowPath(world, one, 8 * one, one, one)
