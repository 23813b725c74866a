"""Speed of cache pricing: ns per touch, and the ratio to pycachesim's bulk call on the same addresses and hierarchy.

The touches are a routing cache's: pairs of cold lines of random entries among the packet path's own. Both sides simulate a
64 KB two-way L1 and a 1 MB 16-way L2 that is not exclusive (pycachesim knows no other), one CPU, LRU. Their hits and misses
must be equal. Then the Opteron as it is: exclusive L2, large-page DTLB, one CPU and two coherent ones.

Run: python -m benchmarks.pricing_speed
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import numpy as np

from models.access import AccessLog, make_log
from models.simulated_memory import SimulatedMemory
from sim.machine import Machine, Number, load_machine
from sim.memory import counts_by_plane, make_memory
from sim.packet_path import make_path
from sim.pricing import Pricing

PACKETS = 20_000
SLOT, SHARED, COLD = 5, 4, 10  # lines of a packet; with the slot's twice 24 touches
ENTRIES = 250_000
CHUNKS = 40
ROUNDS = 8


def addresses(rng: np.random.Generator) -> np.ndarray:
    """Lines touched by PACKETS packets, in order: a slot's lines, shared ones, entries' key and head lines, the slot's again."""
    slot = (1 << 14) + np.arange(PACKETS)[:, None] % 256 * 16 + np.arange(SLOT)
    shared = np.broadcast_to((1 << 13) + np.arange(SHARED), (PACKETS, SHARED))
    entry = rng.integers(0, ENTRIES, (PACKETS, COLD // 2))
    cold = np.stack([(1 << 20) + entry * 4 + 2, (1 << 20) + entry * 4], 2).reshape(PACKETS, COLD)
    return np.concatenate([slot, shared, cold, slot], 1).reshape(-1)


def log_of(lines: np.ndarray) -> AccessLog:
    """A log of loads of whole lines by twenty functions."""
    log = make_log(lines.size, 1)
    log.record[:] = (lines << 28) | (np.arange(lines.size) % 20 << 3)
    log.head[0] = lines.size
    return log


def without_exclusion(machine: Machine) -> Machine:
    """The same sizes, but a load fills both levels; and one page, as pycachesim has none."""
    first = msgspec.structs.replace(machine.level[0], victims_to=None)
    large = msgspec.structs.replace(machine.tlb.large, page_bytes=Number(1 << 36, "one page"))
    return msgspec.structs.replace(machine, level=[first, machine.level[1]], tlb=msgspec.structs.replace(machine.tlb, large=large))


def ours(machine: Machine, lines: np.ndarray, cpus: int) -> tuple[float, np.ndarray]:
    """Seconds of one pass (see `best_pass`), and the counts by class of the first pass on empty caches."""
    logs = [log_of(part) for part in np.split(lines, CHUNKS)]
    path = make_path(SimulatedMemory(), cpus)
    Pricing(make_memory(machine, cpus), path).records(logs[0], 0)  # compiles
    prices = Pricing(make_memory(machine, cpus), path)
    counts: list[np.ndarray] = []

    def one(chunk: int) -> None:
        prices.records(logs[chunk], chunk % cpus)
        if chunk == CHUNKS - 1:
            counts.append(counts_by_plane(prices.memory).sum((0, 1)))

    return best_pass(one), counts[0]


def best_pass(run: Callable[[int], None]) -> float:
    """Seconds for all chunks, each at the best of ROUNDS passes: short pieces are seldom interrupted on a busy host."""
    best = np.full(CHUNKS, np.inf)
    for _ in range(ROUNDS):
        for chunk in range(CHUNKS):
            started = time.perf_counter()
            run(chunk)
            best[chunk] = min(best[chunk], time.perf_counter() - started)
    return float(best.sum())


def pycachesim(lines: np.ndarray) -> tuple[float, dict[str, int], dict[str, int]]:
    """Seconds of one pass of bulk calls, and the statistics of L1 and L2 after the first pass."""
    import cachesim

    parts = [part.tolist() for part in np.split(lines * 64, CHUNKS)]
    main = cachesim.MainMemory()
    second = cachesim.Cache("L2", 1024, 16, 64, "LRU")
    first = cachesim.Cache("L1", 512, 2, 64, "LRU", store_to=second, load_from=second)
    main.load_to(second)
    main.store_from(second)
    simulator = cachesim.CacheSimulator(first, main)
    stats: list[dict[str, int]] = []

    def one(chunk: int) -> None:
        simulator.load(parts[chunk], length=1)
        if chunk == CHUNKS - 1:
            stats.extend((first.stats(), second.stats()))

    return best_pass(one), stats[0], stats[1]


def main() -> None:
    lines = addresses(np.random.default_rng(1))
    opteron = load_machine("opteron-2218")
    theirs, l1, l2 = pycachesim(lines)
    seconds, classes = ours(without_exclusion(opteron), lines, 1)
    assert int(classes[0:2].sum()) == l1["HIT_count"]
    assert int(classes[2:8].sum()) == l1["MISS_count"]
    assert int(classes[2:4].sum()) == l2["HIT_count"]
    assert int(classes[4:8].sum()) == l2["MISS_count"]
    shares = [f"{classes[a:b].sum() / lines.size:.0%} {place}" for a, b, place in ((0, 2, "L1"), (2, 4, "L2"), (4, 8, "memory"))]
    print(f"{lines.size:,} touches, {', '.join(shares)}")
    print(f"pycachesim, bulk load      {theirs / lines.size * 1e9:6.1f} ns per touch")
    print(f"same hierarchy, dstlab     {seconds / lines.size * 1e9:6.1f} ns per touch, {theirs / seconds:.1f} times faster")
    for cpus in (1, 2):
        seconds, _ = ours(opteron, lines, cpus)
        print(f"opteron-2218, {cpus} CPU{'s' if cpus > 1 else ' '}       {seconds / lines.size * 1e9:6.1f} ns per touch")


if __name__ == "__main__":
    main()
