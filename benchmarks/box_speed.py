"""Packets a second of the whole box: two CPUs simulated, everything priced, on one core of the host; and the same rows unpriced.

    python benchmarks/box_speed.py [ROW]... [--seconds S] [--fill S]

The six rows of olsson-2007. Printed: simulated packets a second of CPU time of the host, records a packet, ns a record, and how
many times faster the unpriced box is in the same run. Asserted: no packet is lost from sight, every answer is right.
"""

import argparse
import time

from sim.account import Totals
from sim.assemble import Assembly, assemble
from sim.load import load_scenario
from sim.streams import stream
from sim.warmup import SECOND, fill

REPEATS = 5


def measure(assembly: Assembly, run, seconds: float) -> tuple[float, Totals, int]:
    """Packets a second at the best of REPEATS pieces, what was added over all of them, and the records priced."""
    box = assembly.box
    records, before = box.pricer.priced_records, box.totals()
    best = 0.0
    for _ in range(REPEATS):
        begun, processed = time.process_time(), box.totals().processed
        run(box.now + round(seconds / REPEATS * SECOND))
        best = max(best, (box.totals().processed - processed) / (time.process_time() - begun))
    added = box.totals().minus(before)
    assert added.offered == added.processed + added.dropped + added.queued
    assert added.processed == added.hits + added.slow + added.errors
    assert added.wrong == added.errors == 0
    counters = box.structure.counters()
    assert counters["in_hit"] + counters["in_slow_tot"] == box.totals().processed
    return best, added, box.pricer.priced_records - records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("row", nargs="*", help="rows of olsson-2007; all six by default")
    parser.add_argument("--seconds", type=float, default=1.0, help="simulated seconds of each measurement")
    parser.add_argument("--fill", type=float, default=20.0, help="simulated seconds of filling")
    given = parser.parse_args()
    scenario = load_scenario("olsson-2007")
    rows = [row for row in scenario.row if (row.name in given.row if given.row else row.adjust is None)]
    print(f"{'row':18}{'priced':>9}{'unpriced':>10}{'ratio':>7}{'records':>9}{'ns each':>9}{'entries':>10}")
    for row in rows:
        assembly = assemble(scenario, row, scenario.seed)
        box, rng = assembly.box, stream(scenario.seed, row.name, "bench")
        box.run(box.now + SECOND // 50)  # compiles
        box.pace(box.now + SECOND // 50, 1.0, rng)
        found = assembly.found.measure
        filled = fill(box, type(found)(fill_s=given.fill, settle_s=found.settle_s), row.late, rng, lambda phase, done: None)
        priced, added, records = measure(assembly, box.run, given.seconds)
        unpriced, _, _ = measure(assembly, lambda until, b=box, k=filled.keep, r=rng: b.pace(until, k, r), given.seconds)
        each = records / added.processed
        print(
            f"{row.name:18}{priced / 1e6:7.2f} M{unpriced / 1e6:8.2f} M{unpriced / priced:7.1f}{each:9.1f}"
            f"{1e9 / priced / each:9.1f}{len(box.structure):>10}"
        )


if __name__ == "__main__":
    main()
