"""A generated full table in the FIB trie and as ranges, against pytricia."""

import numpy as np
import pytest
import pytricia

import models.fib_trie
from models.fib_trie import FibTrie
from models.flow import DST, make_batch
from models.route_ranges import RouteRanges
from models.simulated_memory import SimulatedMemory
from traces.routes import full_table


@pytest.mark.parametrize(
    ("prefixes", "lookups"),
    [(2000, 1500), pytest.param(270_000, 200_000, marks=[pytest.mark.slow, pytest.mark.compiled])],
)
@pytest.mark.parametrize("many", [1, 10**9])
def test_lookups_agree_with_pytricia(prefixes, lookups, many, monkeypatch):
    monkeypatch.setattr(models.fib_trie, "MANY", many)
    table = full_table(1, prefixes)
    rng = np.random.default_rng(2)
    row = rng.integers(0, prefixes, lookups)
    asked = table.prefix[row] + (rng.random(lookups) * (1 << (32 - table.plen[row]))).astype(np.int64)
    asked[::7] = rng.integers(0, 1 << 32, asked[::7].size)
    asked[:3] = 0, (1 << 32) - 1, 1 << 31
    tree = pytricia.PyTricia(32)
    for route, (network, plen) in enumerate(zip(table.prefix.tolist(), table.plen.tolist(), strict=True)):
        tree.insert(network.to_bytes(4, "big"), plen, route)
    expected = [tree.get(address.to_bytes(4, "big"), -1) for address in asked.tolist()]
    assert -1 in expected
    fib = FibTrie(SimulatedMemory(), nexthops=len(table.nexthops))
    fib.load(table.prefix, table.plen, np.arange(prefixes), table.nexthop)
    assert fib.lookup_batch(asked).tolist() == expected
    batch = make_batch(lookups)
    batch.key[:, DST] = asked
    batch.packets[0] = lookups
    RouteRanges(table.prefix, table.plen, np.arange(prefixes)).resolve(batch)
    assert batch.route.tolist() == expected
