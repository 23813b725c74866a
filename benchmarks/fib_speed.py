"""Time of loading a routing table of full size and of unpriced longest-prefix lookups in it.

Run: `python benchmarks/fib_speed.py [prefixes]` (270,000 by default). Every answer that is timed is checked.
"""

import sys
import time

import numpy as np

from models.fib_trie import FibTrie
from models.route_ranges import RouteRanges, find_route
from models.simulated_memory import SimulatedMemory

LENGTHS, SHARES = [16, 17, 18, 19, 20, 21, 22, 23, 24], [0.06, 0.03, 0.05, 0.08, 0.08, 0.07, 0.1, 0.08, 0.45]
LOOKUPS = 1_000_000


def full_table(prefixes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Prefixes by length about as in a table of 2007, drawn evenly from unicast addresses."""
    plen = rng.choice(LENGTHS, 2 * prefixes, p=SHARES)
    prefix = rng.integers(1 << 24, 223 << 24, 2 * prefixes) >> (32 - plen) << (32 - plen)
    _, chosen = np.unique(prefix << 6 | plen, return_index=True)
    chosen = rng.permutation(chosen)[:prefixes]
    return prefix[chosen], plen[chosen]


def main() -> None:
    prefixes = int(sys.argv[1]) if len(sys.argv) > 1 else 270_000
    rng = np.random.default_rng(1)
    prefix, plen = full_table(prefixes, rng)
    route = np.arange(prefixes)
    warm = FibTrie(SimulatedMemory())
    warm.load(prefix[:1000], plen[:1000], route[:1000])
    warm.lookup_batch(prefix[:10])

    fib = FibTrie(SimulatedMemory())
    begin = time.perf_counter()
    fib.load(prefix, plen, route)
    loaded = time.perf_counter()
    assert len(fib) == prefixes
    asked = prefix[rng.integers(0, prefixes, LOOKUPS)] + rng.integers(0, 256, LOOKUPS)
    start = time.perf_counter()
    found = fib.lookup_batch(asked)
    end = time.perf_counter()
    ranges = RouteRanges(prefix, plen, route)
    assert found[:20_000].tolist() == [find_route(ranges.state, int(address)) for address in asked[:20_000]]
    stat = fib.trie.triestat()
    print(f"load {prefixes} prefixes: {loaded - begin:.2f} s; depth {stat['Aver depth']:.2f}, at most {stat['Max depth']}")
    print(f"lookups: {LOOKUPS / (end - start) / 1e6:.2f} million a second")


if __name__ == "__main__":
    main()
