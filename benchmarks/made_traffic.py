"""How fast made traffic comes, against the packet generator in the same run, and that it is what it says it is.

Prints millions of packets a second and the ratio to pktgen with 65,536 flows; asserts the packets and flows that were timed.
"""

import time

import numpy as np

from models.flow import make_batch
from traces.made import Bursts, Collisions, Mixture, PortScan, RandomDestinations, SpoofedFlood, Zipf, destinations_from
from traces.pktgen import Pktgen
from traces.routes import full_table
from traces.source import Source

ROOM, BATCHES = 4096, 400
SLOWEST_MPPS = 5.0


def rng(number: int) -> np.random.Generator:
    return np.random.default_rng([2026, number])


def speed(source: Source) -> tuple[float, int]:
    """Millions of packets a second of CPU time, and the distinct keys of the last batch."""
    batch = make_batch(ROOM, source.words)
    source.fill(batch)  # compiles
    best = 0.0
    for _ in range(4):
        packets, start = 0, time.process_time()
        for _ in range(BATCHES // 4):
            packets += source.fill(batch)
        assert packets == ROOM * BATCHES // 4
        best = max(best, packets / (time.process_time() - start) / 1e6)
    return best, len(np.unique(batch.key, axis=0))


def main() -> None:
    table = full_table(rng(0), 270_000)
    pktgen, _ = speed(Pktgen(rng=rng(1)))
    print(f"{'pktgen, 65,536 flows':40} {pktgen:7.1f} Mpps")
    sources: dict[str, tuple[Source, int]] = {
        "zipf 1.0, 65,536 flows": (Zipf(65536, rng=rng(2)), ROOM // 4),
        "zipf 1.0, 4,194,304 flows": (Zipf(1 << 22, rng=rng(3)), ROOM // 4),
        "zipf 1.0, 1,048,576 flows, IPv6": (Zipf(1 << 20, family=6, rng=rng(4)), ROOM // 4),
        "port scan": (PortScan(), ROOM),
        "random destinations of a /8": (RandomDestinations(rng=rng(5)), ROOM - 10),
        "random destinations of a full table": (RandomDestinations(destinations_from(table), rng=rng(6)), ROOM - 10),
        "random destinations, IPv6": (RandomDestinations(family=6, rng=rng(7)), ROOM),
        "spoofed sources of two prefixes": (SpoofedFlood(["10.0.0.0/8", "172.16.0.0/12"], rng=rng(8)), ROOM - 10),
        "500 flows in one bucket of 32,768": (Collisions(500, rng=rng(9)), 490),
        "bursts of a port scan": (Bursts(PortScan(), 1e-3, 1e-2, rng=rng(10)), ROOM),
        "mixture, 90 % zipf and 10 % scan": (Mixture([(9, Zipf(65536, rng=rng(11))), (1, PortScan())], rng=rng(12)), ROOM // 4),
    }
    for name, (source, least) in sources.items():
        mpps, distinct = speed(source)
        assert distinct >= least, f"{name}: {distinct} flows in {ROOM} packets"
        slow = "" if mpps >= SLOWEST_MPPS else f"  below {SLOWEST_MPPS:g}"
        print(f"{name:40} {mpps:7.1f} Mpps  {mpps / pktgen:5.2f} x pktgen  {distinct:5} flows a batch{slow}")


if __name__ == "__main__":
    main()
