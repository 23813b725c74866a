"""A full BGP table: is every answer right, how long does it take to load, how fast are lookups, and what does the trie look like?

Run: `python benchmarks/full_table.py [prefixes to load]` (900,000 by default). Answers of the FIB trie and of the ranges that
every answer is checked against are compared with pytricia's; answers that are timed are compared with others'.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytricia

from models.fib_trie import FibTrie
from models.flow import DST, make_batch
from models.route_ranges import RouteRanges
from models.simulated_memory import SimulatedMemory
from traces.routes import RouteTable, full_table, read_routes

CHECKED = 200_000
TIMED = 1_000_000


def load(table: RouteTable) -> FibTrie:
    """The FIB trie of a table; route i is row i."""
    fib = FibTrie(SimulatedMemory(), nexthops=len(table.nexthops))
    fib.load(table.prefix, table.plen, np.arange(table.plen.size), table.nexthop)
    assert len(fib) == table.plen.size
    return fib


def patricia(table: RouteTable) -> pytricia.PyTricia:
    """The independent table."""
    tree = pytricia.PyTricia(32)
    for route, (network, plen) in enumerate(zip(table.prefix.tolist(), table.plen.tolist(), strict=True)):
        tree.insert(network.to_bytes(4, "big"), plen, route)
    return tree


def addresses(table: RouteTable, count: int, rng: np.random.Generator) -> np.ndarray:
    """Nine in ten inside a prefix drawn from the table, the others anywhere."""
    row = rng.integers(0, table.plen.size, count)
    inside = table.prefix[row] + (rng.random(count) * (1 << (32 - table.plen[row]))).astype(np.int64)
    return np.where(rng.random(count) < 0.9, inside, rng.integers(0, 1 << 32, count))


def check(table: RouteTable, rng: np.random.Generator) -> None:
    """CHECKED lookups in the trie and in the ranges agree with pytricia's; then all are timed on the same addresses."""
    fib, tree = load(table), patricia(table)
    ranges = RouteRanges(table.prefix, table.plen, np.arange(table.plen.size))
    asked = addresses(table, CHECKED, rng)
    packed = [address.to_bytes(4, "big") for address in asked.tolist()]
    expected = [tree.get(address, -1) for address in packed]
    batch = make_batch(CHECKED)
    batch.key[:, DST] = asked
    batch.packets[0] = CHECKED
    ranges.resolve(batch)
    assert fib.lookup_batch(asked).tolist() == expected == batch.route.tolist()
    unreachable = expected.count(-1)
    print(f"{CHECKED:,} lookups in {table.plen.size:,} prefixes agree with pytricia ({unreachable:,} without a route)")

    start = time.perf_counter()
    again = [tree.get(address, -1) for address in packed]
    theirs = CHECKED / (time.perf_counter() - start)
    assert again == expected
    asked = addresses(table, TIMED, rng)
    ours = 0.0
    for _ in range(3):
        start = time.perf_counter()
        found = fib.lookup_batch(asked)
        ours = max(ours, TIMED / (time.perf_counter() - start))
    assert found.size == TIMED
    assert (found[:1000] == [tree.get(int(address).to_bytes(4, "big"), -1) for address in asked[:1000]]).all()
    start = time.perf_counter()
    pieces = [fib.lookup_batch(asked[at : at + 500]) for at in range(0, CHECKED, 500)]
    few = CHECKED / (time.perf_counter() - start)
    assert (np.concatenate(pieces) == found[:CHECKED]).all()
    print(
        f"unpriced FIB lookups, million a second: {ours / 1e6:.2f} many at once (sorted), {few / 1e6:.2f} as they come; "
        f"{ours / theirs:.1f} and {few / theirs:.1f} times pytricia called from Python"
    )
    print(fib.trie.triestat_text())


def main() -> None:
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 900_000
    rng = np.random.default_rng(1)
    load(full_table(1, 1000)).lookup(0)  # compiles
    check(full_table(1, 270_000), rng)

    table = full_table(1, many)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.txt")
        path.write_text("".join(f"{table.text(i)}\n" for i in range(many)))
        start = time.perf_counter()
        found = read_routes(path)
        read = time.perf_counter()
        fib = load(found)
        loaded = time.perf_counter()
        ranges = RouteRanges(found.prefix, found.plen, np.arange(many))
        end = time.perf_counter()
    assert (found.prefix == table.prefix).all()
    assert (found.plen == table.plen).all()
    assert [found.nexthops[hop] for hop in found.nexthop[:1000]] == [table.nexthops[hop] for hop in table.nexthop[:1000]]
    asked = addresses(table, 20_000, rng)
    assert fib.lookup_batch(asked).tolist() == [ranges.lookup(int(address)) for address in asked]
    print(
        f"{many:,} prefixes: read in {read - start:.2f} s, into the FIB in {loaded - read:.2f} s, "
        f"as ranges in {end - loaded:.2f} s; together {end - start:.2f} s"
    )
    check(table, rng)


if __name__ == "__main__":
    main()
