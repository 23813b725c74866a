"""Short runs of golden rows as the command line makes them, down to the bytes that are written."""

import msgspec
from golden import exact

from sim.result_folder import RESULT_FILE, SERIES_FILE, write_result
from sim.run import run_scenario

NAMES = ("rt_hash", "perfect")


def run_short(scenario, row, *, seed, quick, progress):
    """The forwarding experiment with a short loss-free replay; workers import it by name."""
    return exact.run_row(msgspec.structs.replace(scenario, seed=seed), row)


def written(folder, names=NAMES, jobs=1, seed=7):
    """Bytes of result.json without its host block, and of series.csv."""
    whole = exact.small()
    rows = {row.name: row for row in whole.row}
    measure = msgspec.structs.replace(whole.measure, window_s=0.004, series_s=0.001)
    scenario = msgspec.structs.replace(whole, row=[rows[name] for name in names], measure=measure)
    result = run_scenario(
        scenario, seeds=[seed], quick=False, jobs=jobs, on_progress=lambda *progress: None, runner="golden.runner:run_short"
    )
    write_result(result, folder)
    stored = msgspec.json.decode((folder / RESULT_FILE).read_bytes())
    del stored["host"]
    return msgspec.json.encode(stored), (folder / SERIES_FILE).read_bytes()
