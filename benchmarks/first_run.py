"""What compilation adds to the very first run: `dstlab run olsson-2007 --quick` with an empty cache folder, then with the full one.

    python benchmarks/first_run.py [--jobs N]

Asserted: both runs give the same bytes but for the host block.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def run(cache: Path, out: Path, jobs: int) -> tuple[float, dict]:
    """Seconds of one run, and its result without the host block."""
    command = [sys.executable, "-m", "sim.cli", "run", "olsson-2007", "--quick", "--quiet", "--jobs", str(jobs), "--out", str(out)]
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"NUMBA_CACHE_DIR": str(cache)})
    spent = time.perf_counter() - begun
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    del result["host"]
    return spent, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        cold, first = run(place / "cache", place / "cold", given.jobs)
        warm, second = run(place / "cache", place / "warm", given.jobs)
    assert first == second, "a cold and a warm run differ"
    print(f"cold {cold:.1f} s, warm {warm:.1f} s: compilation adds {cold - warm:.1f} s, {cold / warm:.1f} times, {given.jobs} jobs")


if __name__ == "__main__":
    main()
