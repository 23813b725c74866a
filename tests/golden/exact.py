"""The exact counts of small.toml, as small.json keeps them. To accept new ones after a wanted change of the model, run

    python tests/golden/exact.py

and look at what changed: every figure there is an integer or a sum of integers, the same compiled and interpreted.
"""

import json
from functools import partial
from pathlib import Path

from sim.experiments import forwarding
from sim.load import load_scenario
from sim.scenario import Row, Scenario

FOLDER = Path(__file__).parent
COMMITTED = FOLDER / "small.json"
CHECKED = 2048
"""Packets of the loss-free replay; the command line's 65,536 take minutes when interpreted."""


def small() -> Scenario:
    """The golden scenario."""
    return load_scenario(str(FOLDER / "small.toml"))


def counts(scenario: Scenario, row: Row) -> dict:
    """What one row gave, in integers: packets, the structure's counters, latency in ns, cycles and touches by function."""
    result = run_row(scenario, row)
    calls = {name: list(counted.values()) for name, counted in result.profile_counts.items()}
    processed = result.counters["box_processed"].window
    return {
        "counters": {
            name: [phases.warm_up, phases.window] for name, phases in result.counters.items() if phases.warm_up or phases.window
        },
        "latency_ns": [round(1000 * value) for value in (result.latency_us.p50, result.latency_us.p99, result.latency_us.max)],
        "longest_stall_ns": round(1000 * result.longest_stall_us),
        "checksum": result.checksum,
        "cycles": {name: round(1024 * cycles * processed) for name, cycles in sorted(result.profile.items())},  # 1/1024 cycle
        "calls_and_touches": dict(sorted(calls.items())),
    }


def run_row(scenario: Scenario, row: Row):
    """A row as the forwarding experiment runs it, but for a shorter replay."""
    whole = forwarding.lossfree_checksum
    forwarding.lossfree_checksum = partial(whole, packets=CHECKED)
    try:
        return forwarding.run_row(scenario, row, seed=scenario.seed, progress=lambda progress: None)
    finally:
        forwarding.lossfree_checksum = whole


def main() -> None:
    scenario = small()
    found = {row.name: counts(scenario, row) for row in scenario.row}
    lines = []
    for name, parts in found.items():
        inner = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in parts.items())
        lines.append(f"  {json.dumps(name)}: {{\n{inner}\n  }}")
    COMMITTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"wrote {COMMITTED}")


if __name__ == "__main__":
    main()
