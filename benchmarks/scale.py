"""Memory and time from ten thousand to four million entries.

    python benchmarks/scale.py [--structure rt_hash|unicache|perfect] [--most N]

Unpriced, generated flows; each point in a process of its own. Printed: resident memory, entries, ns a packet at that size, and for
twice as many packets the ratio of the times. Asserted: one million entries take less than 600 MB, twice the packets take about
twice the time, every packet is answered rightly and counted once.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

POINTS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000, 4_000_000)
PACKETS = 300_000
KPPS = 1000.0
MEGABYTE = 1 << 20
MOST_MB = 600
LARGE = 1_000_000


def point(structure: str, entries: int) -> tuple[int, int, float, float]:
    """(entries, resident bytes, ns a packet over PACKETS packets, ns a packet over twice as many) of a table of this size."""
    from sim.assemble import assemble
    from sim.scenario import Row, Scenario, Traffic
    from sim.streams import stream
    from sim.warmup import SECOND

    buckets = 1 << max(4, (entries // 4 - 1).bit_length())
    parameters = {
        "rt_hash": {"rhash_entries": buckets, "gc_thresh": 4 * entries, "max_size": 16 * entries},
        "unicache": {"gc_thresh": 4 * entries, "max_size": 16 * entries, "max_root_bits": 0},
    }.get(structure, {})
    traffic = Traffic(flows=entries // 2, flow_length=1000, offered_kpps=KPPS)
    scenario = Scenario(name="scale", traffic=traffic, row=[Row(name="row", structure=structure, parameters=parameters)])
    box = assemble(scenario, scenario.row[0], 1).box
    rng = stream(1, "scale")
    while len(box.structure) < 0.95 * entries:
        box.pace(box.now + SECOND // 10, 1.0, rng)
    spent = []
    for packets in (PACKETS, 2 * PACKETS):
        best = float("inf")
        for _ in range(3):
            before, begun = box.totals(), time.process_time()
            box.pace(box.now + round(packets / KPPS * 1e6), 1.0, rng)
            added = box.totals().minus(before)
            assert added.hits + added.slow == added.processed == added.offered
            assert added.wrong == added.errors == 0
            best = min(best, (time.process_time() - begun) / added.processed)
        spent.append(best * 1e9)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return len(box.structure), max(resident, peak), spent[0], spent[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--structure", nargs="+", default=["rt_hash", "unicache"])
    parser.add_argument("--most", type=int, default=POINTS[-1], help="largest table")
    parser.add_argument("--point", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point is not None:
        print(*point(given.structure[0], given.point))
        return
    for structure in given.structure:
        print(f"{structure}: {'entries':>10}{'peak MB':>9}{'ns a packet':>13}{'twice the packets':>19}")
        for entries in (n for n in POINTS if n <= given.most):
            command = [sys.executable, __file__, "--structure", structure, "--point", str(entries)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            held, peak, one, two = int(out[0]), int(out[1]), float(out[2]), float(out[3])
            print(f"{'':{len(structure) + 2}}{held:>10}{peak / MEGABYTE:>9.0f}{one:>13.0f}{2 * two / one:>18.2f}x", flush=True)
            assert held >= 0.95 * entries
            assert entries > LARGE or peak < MOST_MB * MEGABYTE, f"{held} entries take {peak / MEGABYTE:.0f} MB"
            assert 1.4 < 2 * two / one < 2.8, f"time is not linear in packets: {one:.0f} and {two:.0f} ns a packet"


if __name__ == "__main__":
    main()
