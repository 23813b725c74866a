import numpy as np
import pytest
import pytricia
from hypothesis import given
from hypothesis import strategies as st
from oracles.lpm_oracle import LinearTable

from models.access import READ, WRITE, make_log, record_function, record_kind, record_line
from models.fib_trie import NO_ROUTE, FibTrie
from models.fib_trie_lookup import LOOKUP_RECORDS, ROUTE, fib_find
from models.functions import names, number
from models.kernel import NIL, compiled
from models.lc_trie import BITS, LEAVES, PARENT, POS, ROOT, child_at, find, index_of, is_leaf, is_tnode, leaf_address
from models.route_ranges import RouteRanges
from models.simulated_memory import SimulatedMemory
from traces.routes import default_routes

LAST = (1 << 32) - 1
LOOKUP = number("fn_trie_lookup")

# Few distinct bits, so that prefixes nest, share their address and skip bits.
addresses = st.one_of(
    st.integers(0, LAST),
    st.builds(lambda a, m: a & m, st.integers(0, LAST), st.sampled_from([0xC0000003, 0x0A0000FF, 0x80808080, 0xFFFF0000, 0xF0])),
)


@st.composite
def prefixes(draw):
    plen = draw(st.one_of(st.integers(0, 32), st.sampled_from([0, 8, 31, 32])))
    return draw(addresses) >> (32 - plen) << (32 - plen), plen


changes = st.lists(st.tuples(st.sampled_from("iiiir"), prefixes(), st.integers(0, 99)), max_size=24)


def table(rows):
    fib = FibTrie(SimulatedMemory(), room=4)
    for route, (prefix, plen) in enumerate(rows):
        fib.insert(prefix, plen, route)
    return fib


def edges(rows):
    """Addresses on both sides of every prefix's ends, and with its lowest set bit flipped."""
    found = {0, LAST}
    for prefix, plen in rows:
        size = 1 << (32 - plen)
        found |= {prefix, prefix + size - 1, prefix - 1, prefix + size, prefix ^ size, prefix | (size >> 1)}
    return sorted(a for a in found if 0 <= a <= LAST)


@given(changes, st.lists(addresses, max_size=8))
def test_agrees_with_a_linear_scan_and_a_patricia_trie_through_inserts_and_removals(steps, others):
    fib, scan, patricia = FibTrie(SimulatedMemory(), room=4), LinearTable(), pytricia.PyTricia(32)
    used = [prefix for _, prefix, _ in steps]
    for i, (what, (prefix, plen), route) in enumerate(steps):
        if what == "r" and scan.routes:
            prefix, plen = sorted(scan.routes)[route % len(scan.routes)]  # one that is there
            scan.remove(prefix, plen)
            assert fib.remove(prefix, plen)
            del patricia[prefix.to_bytes(4, "big"), plen]
        elif what == "r":
            assert not fib.remove(prefix, plen)
        else:
            scan.insert(prefix, plen, route)
            fib.insert(prefix, plen, route)
            patricia.insert(prefix.to_bytes(4, "big"), plen, route)
        assert len(fib) == len(scan.routes)
        if i % 6 == 0 or i == len(steps) - 1:
            fib.check()
            asked = np.array([*edges(used), *others], np.int64)
            expected = [scan.lookup(int(a)) for a in asked]
            assert fib.lookup_batch(asked).tolist() == expected
            # pytricia raises for an address without route
            assert [patricia.get(int(a).to_bytes(4, "big"), NO_ROUTE) for a in asked] == expected


@pytest.mark.parametrize("above", [0, 13, 26])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_every_address_of_a_dense_nested_table(above, share):
    """A share of all prefixes of a 6-bit space `above` bits down: tnodes of many bits, and a way back through most slots."""
    base, shift = 0xA5A5A5A5 >> (32 - above) << (32 - above) if above else 0, 26 - above
    rng = np.random.default_rng(above)
    everything = [(base | (high << (32 - above - bits)), above + bits) for bits in range(7) for high in range(1 << bits)]
    for _ in range(4):
        rows = [row for row in everything if rng.random() < share]
        fib, scan = table(rows), LinearTable()
        for route, (prefix, plen) in enumerate(rows):
            scan.insert(prefix, plen, route)
        asked = [base | (high << shift) | low for high in range(64) for low in {0, (1 << shift) - 1}]
        assert fib.lookup_batch(np.array(asked)).tolist() == [scan.lookup(address) for address in asked]


def test_an_empty_table_has_no_route():
    assert table([]).lookup(5) == NO_ROUTE
    assert not table([]).remove(0, 0)


def test_a_default_route_alone_and_a_host_route():
    fib = table([(0, 0)])
    assert fib.lookup(0) == fib.lookup(LAST) == 0
    fib.insert(LAST, 32, 7)
    assert (fib.lookup(LAST), fib.lookup(LAST - 1)) == (7, 0)
    assert fib.remove(0, 0)
    assert fib.lookup(LAST - 1) == NO_ROUTE
    assert fib.remove(LAST, 32)
    assert fib.lookup(LAST) == NO_ROUTE
    fib.check()


def test_every_length_of_one_address_is_one_leaf_with_33_leaf_infos():
    fib = table([(0, plen) for plen in range(33)])
    assert fib.trie.state.var[LEAVES] == 1
    for plen in range(33):
        outside_longer = 0 if plen == 32 else 1 << (31 - plen)
        assert fib.lookup(outside_longer) == plen
    fib.check()


def test_a_prefix_inserted_twice_changes_its_route():
    fib = table([(0x0A000000, 8), (0x0A000000, 8)])
    assert (fib.lookup(0x0A000001), len(fib)) == (1, 1)


def test_a_loaded_table_agrees_with_route_ranges():
    routes = default_routes(1, 1000 if compiled() else 60)
    n = routes.prefix.size
    fib = FibTrie(SimulatedMemory(), nexthops=len(routes.nexthops), room=16)
    fib.load(routes.prefix, routes.plen, np.arange(n), routes.nexthop)
    ranges = RouteRanges(routes.prefix, routes.plen, np.arange(n))
    rng = np.random.default_rng(2)
    count = 20_000 if compiled() else 300
    asked = np.concatenate([rng.integers(0, 1 << 32, count), 0x0A000000 | rng.integers(0, 1 << 24, count), edges_of(routes)])
    expected = [ranges.lookup(int(a)) for a in asked]
    assert fib.lookup_batch(asked).tolist() == expected
    assert len(fib) == n
    fib.check()


def edges_of(routes):
    rows = list(zip(routes.prefix.tolist(), routes.plen.tolist(), strict=True))
    return np.array(edges(rows[: len(rows) if compiled() else 20]), np.int64)


def recorded(fib, address):
    log = make_log(LOOKUP_RECORDS, 1)
    info = fib_find(fib.table, log, LOOKUP, address)
    return log, info


def test_a_lookup_records_the_way_to_the_leaf_and_the_route():
    memory = SimulatedMemory()
    fib = FibTrie(memory, "t", nexthops=3)
    fib.insert(0x0A000000, 8, 5, 1)
    fib.insert(0x0A000000, 16, 6, 2)
    fib.insert(0x80000000, 1, 7, 0)
    log, info = recorded(fib, 0x0A010000)
    assert fib.state.info[info, ROUTE] == 5
    steps = [
        (names()[record_function(r)], memory.owner(record_line(r) << 6), record_kind(r)) for r in log.record[: log.head[0]].tolist()
    ]
    walk, semantic = "fn_trie_lookup", "fib_semantic_match"
    objects = "t fib_infos, fib_aliases"
    assert steps == [
        (walk, "t tnodes", READ),  # header and slots of a small tnode are one line
        (walk, "t leaves", READ),
        (walk, "t leaf_infos", READ),  # the /16 does not hold the address
        (walk, "t leaf_infos", READ),
        (semantic, objects, READ),
        (semantic, objects, READ),
        (semantic, objects, READ),
        (semantic, objects, WRITE),
    ]
    assert log.calls[LOOKUP] == log.calls[number(semantic)] == 1


def leaves_visited(trie, address):
    """Keys of the leaves that a walk without a match comes to, by the published rules, on plain Python numbers."""

    def cut(value, length):
        return value >> (32 - length) << (32 - length)

    def slot_of(value, n):
        return (value >> (32 - int(trie.node[n, POS]) - int(trie.node[n, BITS]))) & ((1 << int(trie.node[n, BITS])) - 1)

    visited, n, wanted = [], index_of(int(trie.var[ROOT])), 32
    while True:
        pos, bits = int(trie.node[n, POS]), int(trie.node[n, BITS])
        if wanted == 32 and cut(int(trie.prefix[n, 0]) ^ address, pos) != 0:
            wanted = 32 - (cut(int(trie.prefix[n, 0]) ^ address, pos)).bit_length()
            if int(trie.prefix[n, 0]) != cut(int(trie.prefix[n, 0]), wanted):
                return visited
        slot, chopped, down = slot_of(cut(address, wanted), n), 0, None
        while down is None:
            ref = int(child_at(trie, n, slot))
            if ref and is_leaf(ref):
                visited.append(int(trie.leaf[index_of(ref), 0]))
            elif ref and is_tnode(ref):
                c = index_of(ref)
                key, start = int(trie.prefix[c, 0]), int(trie.node[c, POS])
                differ = cut(key ^ address, start)
                first = 32 - differ.bit_length() if differ else 32
                shorter = min(wanted, first)
                fits = key == cut(key, shorter) if shorter < start else True
                if fits and not (wanted < pos + bits and int(child_at(trie, c, 0)) == 0):
                    down, wanted = c, shorter
                    break
            while True:
                chopped += 1
                if chopped > bits:
                    parent = int(trie.node[n, PARENT])
                    if parent == NIL:
                        return visited
                    slot, n, chopped = slot_of(int(trie.prefix[n, 0]), parent), parent, 0
                    pos, bits = int(trie.node[n, POS]), int(trie.node[n, BITS])
                elif slot >> (chopped - 1) & 1:
                    slot ^= 1 << (chopped - 1)
                    wanted = min(wanted, pos + bits - chopped)
                    break
        n = down


def compare_walks(rows, asked):
    """Leaves in the order of the record against the rules; a walk that finds its route ends early."""
    fib = table(rows)
    trie = fib.trie.state
    if fib.trie.root_bits() == 0:
        return
    line = {prefix: leaf_address(trie, find(trie, np.array([[prefix]], np.uint32), 0)) >> 6 for prefix, _ in rows}
    lines = set(line.values())
    for address in asked:
        log, info = recorded(fib, address)
        seen = [record_line(r) for r in log.record[: log.head[0]].tolist() if record_line(r) in lines]
        expected = [line[key] for key in leaves_visited(trie, address)]
        assert seen == (expected if info == NIL else expected[: len(seen)])


@given(st.lists(prefixes(), min_size=2, max_size=40, unique=True), st.lists(addresses, max_size=8))
def test_the_walk_comes_to_the_leaves_that_the_rules_say(rows, others):
    compare_walks(rows, [*edges(rows)[:12], *others])


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_the_walk_in_dense_tables_comes_to_the_leaves_that_the_rules_say(share):
    rng = np.random.default_rng(3)
    everything = [(high << (32 - bits), bits) for bits in range(1, 9) for high in range(1 << bits)]
    for _ in range(4):
        compare_walks([row for row in everything if rng.random() < share], [high << 24 | 0xFFFFFF for high in range(256)])


@given(st.lists(prefixes(), min_size=1, max_size=40), st.lists(addresses, max_size=8))
def test_no_lookup_writes_more_than_its_bound_and_unpriced_ones_write_nothing(rows, others):
    fib = table(rows)
    for address in [*edges(rows)[: 60 if compiled() else 12], *others]:
        log, info = recorded(fib, address)
        assert 0 <= log.head[0] <= LOOKUP_RECORDS
        off = make_log(1, 1, on=False)
        assert fib_find(fib.table, off, LOOKUP, address) == info
        assert off.head[0] == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((1, 24, 0, 0), "not a prefix: address 0x1 with length 24"),
        ((0, 33, 0, 0), "not a prefix"),
        ((1 << 32, 32, 0, 0), "not a prefix"),
        ((0, 0, -1, 0), "a route is a number from 0"),
        ((0, 0, 0, 1), "a next hop is a number below 1, got 1"),
    ],
)
def test_what_is_no_prefix_route_or_next_hop_is_refused(row, message):
    with pytest.raises(ValueError, match=message):
        table([]).insert(*row)


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="differ in length: 2, 1, 2, 2"):
        table([]).load(np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(2, np.int64))


def test_a_large_table_grows_its_pools():
    """Prefixes of a full table's lengths, drawn with removals of a tenth."""
    rng = np.random.default_rng(5)
    n = 20_000 if compiled() else 250
    plen = rng.choice([16, 19, 20, 22, 24], n, p=[0.1, 0.1, 0.1, 0.15, 0.55])
    prefix = rng.integers(0, 1 << 32, n) >> (32 - plen) << (32 - plen)
    rows = {(int(a), int(length)): i for i, (a, length) in enumerate(zip(prefix, plen, strict=True))}
    fib = FibTrie(SimulatedMemory(), room=16)
    fib.load(prefix, plen, np.arange(n))
    assert len(fib) == len(rows)
    for gone in list(rows)[::10]:
        assert fib.remove(*gone)
        del rows[gone]
    kept = [np.array(column, np.int64) for column in (*zip(*rows, strict=True), list(rows.values()))]
    ranges = RouteRanges(kept[0], kept[1], kept[2])
    asked = np.concatenate([prefix, rng.integers(0, 1 << 32, n)])
    assert fib.lookup_batch(asked).tolist() == [ranges.lookup(int(a)) for a in asked]
    fib.check()
