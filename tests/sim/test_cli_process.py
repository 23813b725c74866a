"""The command line as a process of its own: exit status, signals, output that nobody can take."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim.result_folder import read_result

START = """
import signal
import sim.run
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts the tests in the background ignores it
sim.run.RUNNERS["forwarding"] = "fake_runner:{runner}"
if __name__ == "__main__":
    from sim.cli import main
    main()
"""

SCENARIO = """
name = "mine"
[[row]]
name = "a"
structure = "perfect"
[[row]]
name = "b"
structure = "none"
"""


@pytest.fixture
def start(tmp_path):
    """Start the command line with a stand-in for the simulator; gives the process."""
    (tmp_path / "mine.toml").write_text(SCENARIO)
    root = Path(__file__).parents[2]
    environment = dict(os.environ) | {"PYTHONPATH": f"{root}{os.pathsep}{Path(__file__).parent}"}

    def start(*arguments, runner="run_row", stdout=subprocess.PIPE):
        program = tmp_path / "program.py"
        program.write_text(START.format(runner=runner))
        return subprocess.Popen(
            [sys.executable, str(program), *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    return start


def test_help_imports_nothing_heavy():
    code = (
        "import sys, sim.cli; status = sim.cli.execute(['--help']); "
        "heavy = {'numpy', 'numba', 'rich', 'msgspec'} & set(sys.modules); sys.exit(str(heavy) if heavy else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stderr) == (0, "")
    assert "Commands:" in done.stdout


def test_exit_status_of_a_good_run_and_of_a_users_error(start):
    good, bad = start("run", "mine.toml", "--quiet", "--jobs", "1"), start("run", "min.toml")
    assert good.communicate()[1] == ""
    assert good.returncode == 0
    assert bad.communicate() == ("", "dstlab: min.toml: there is no such scenario\n")
    assert bad.returncode == 2


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_gives_130_and_keeps_what_was_finished(start, tmp_path, jobs):
    process = start("run", "mine.toml", "--jobs", jobs, "--out", "out", runner="run_waiting")
    seen = ""
    deadline = time.monotonic() + 60
    while not ("a: done" in seen and "b: waiting" in seen):
        assert time.monotonic() < deadline, seen
        line = process.stderr.readline()
        assert line, seen
        seen += line
    if jobs == "2":
        for worker in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(worker), signal.SIGINT)
    time.sleep(0.7)  # the result of the first row is on its way; workers leave Ctrl-C to their caller
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "dstlab: interrupted"
    assert "Traceback" not in err
    assert "INTERRUPTED: 1 of 2 rows were finished" in out
    found = read_result(tmp_path / "out")
    assert (found.complete, [row.row for row in found.rows]) == (False, ["a"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.toml", "out", "program.py"]


def test_workers_live_through_ctrl_c_from_their_first_moment(start):
    process = start("run", "mine.toml", "--jobs", "2", "--quiet")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    told: dict[str, int] = {}
    while process.poll() is None:
        for worker in children.read_text().split() if children.exists() else ():
            if told.setdefault(worker, 0) < 20:
                told[worker] += 1
                try:
                    os.kill(int(worker), signal.SIGINT)
                except ProcessLookupError:  # it has done its work
                    continue
        time.sleep(0.01)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert len(told) >= 2


def test_a_full_disk_behind_stdout_is_one_sentence(start):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        process = start("run", "mine.toml", "--quiet", "--jobs", "1", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert len(err.splitlines()) == 1
    assert "No space left on device" in err


def test_a_reader_that_has_seen_enough_is_told_nothing(start):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = start("run", "mine.toml", "--quiet", "--jobs", "1", stdout=write_end)
    os.close(write_end)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 1
