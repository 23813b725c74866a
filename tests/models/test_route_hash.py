"""RouteHash against a linear scan over a dictionary, and against the flattened ranges."""

import random

import numpy as np
import pytest

from models.flow import make_batch
from models.kernel import compiled
from models.route_hash import EMPTY, RouteHash
from models.route_ranges import NO_ROUTE, RouteRanges

STEPS = 4000 if compiled() else 400


def scan(table, address, bits):
    """The longest prefix that holds an address, by looking at all of them."""
    best, found = -1, NO_ROUTE
    for (prefix, plen), route in table.items():
        if plen > best and (address ^ prefix) >> (bits - plen) == 0:
            best, found = plen, route
    return found


def make(family, table=()):
    words = 1 if family == 4 else 4
    prefix = [int(p).to_bytes(4 * words, "big") for p, _ in table]
    rows = np.frombuffer(b"".join(prefix), ">u4").astype(np.uint32).reshape(-1, words)
    return RouteHash(rows, np.array([n for _, n in table], np.int64), np.arange(len(rows), dtype=np.int64), family)


@pytest.mark.parametrize("family", [4, 6])
def test_a_random_history_of_changes(family):
    bits = 32 if family == 4 else 128
    draw = random.Random(family)
    table, found = {}, make(family)
    nets = [draw.getrandbits(bits) for _ in range(6)]
    for step in range(STEPS):
        plen = draw.choice((0, 1, 8, 15, 16, 17, 24, 31, 32, bits // 2, bits - 1, bits))
        address = draw.choice(nets) ^ draw.getrandbits(draw.choice((1, 8, bits // 2, bits)))
        prefix = address >> (bits - plen) << (bits - plen)
        if draw.random() < 0.4:
            assert found.remove(prefix, plen) == ((prefix, plen) in table)
            table.pop((prefix, plen), None)
        else:
            found.insert(prefix, plen, step)
            table[prefix, plen] = step
        assert len(found) == len(table)
        for near in (address, address ^ 1, draw.getrandbits(bits)):
            assert found.lookup(near) == scan(table, near, bits)
    assert int((found.state.plen >= 0).sum()) == len(table)
    assert int((found.state.plen != EMPTY).sum()) == int(found.state.var[1])


def test_many_removals_do_not_make_the_table_grow():
    found = make(4)
    for i in range(STEPS):
        found.insert(i << 8, 24, i)
        assert found.remove(i << 8, 24)
    assert found.state.plen.size == 1024
    assert len(found) == 0


def test_a_whole_table_agrees_with_ranges():
    rng = np.random.default_rng(1)
    plen = rng.integers(0, 33, 3000)
    prefix = rng.integers(0, 1 << 32, 3000) >> (32 - plen) << (32 - plen)
    _, first = np.unique(prefix * 64 + plen, return_index=True)
    prefix, plen = prefix[first], plen[first]
    route = np.arange(plen.size)
    near = np.concatenate([prefix, rng.integers(0, 1 << 32, 1000), (prefix - 1) % (1 << 32)])
    ranges, found = RouteRanges(prefix, plen, route), RouteHash(prefix, plen, route)
    assert found.lookup_batch(near).tolist() == [ranges.lookup(int(address)) for address in near]


@pytest.mark.parametrize("family", [4, 6])
def test_a_batch_is_resolved_by_its_destinations(family):
    bits = 32 if family == 4 else 128
    one, two = 0x20010DB8 << (bits - 32), 0x20020000 << (bits - 32)
    found = make(family, [(one, 32), (two, 16)])
    batch = make_batch(8, 4 if family == 4 else 10)
    batch.packets[0] = 3
    batch.route[:] = -7
    at = 1 if family == 4 else 4
    for row, address in enumerate((one + 1 if family == 6 else one, two + 5, 0)):
        for word in range(bits // 32):
            batch.key[row, at + word] = (address >> (bits - 32 - 32 * word)) & 0xFFFFFFFF
    found.resolve(batch)
    assert batch.route.tolist() == [0, 1, NO_ROUTE, -7, -7, -7, -7, -7]
    with pytest.raises(ValueError, match="cannot resolve flow keys of"):
        found.resolve(make_batch(8, 10 if family == 4 else 4))


def test_what_is_no_prefix_is_refused():
    with pytest.raises(ValueError, match=r"address 0xa000001 with length 8, in row 0"):
        make(4, [(0x0A000001, 8)])
    with pytest.raises(ValueError, match="length 33"):
        make(4, [(0, 33)])
    with pytest.raises(ValueError, match=r"0x1 with length 127"):
        make(6, [(1, 127)])
    with pytest.raises(ValueError, match="differ in length"):
        RouteHash(np.zeros(2, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="route is a number"):
        RouteHash(np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, -1))
