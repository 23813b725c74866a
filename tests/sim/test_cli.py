"""The command line: what it prints, where it writes, and one sentence with exit status 2 for whatever a user can get wrong."""

import errno
import json

import pytest
from oracles import frames

import sim.result_folder as folder_module
import sim.run
from sim.cli import execute
from sim.load import COSTS, MACHINES
from sim.result_folder import read_result

SCENARIO = """
name = "mine"
title = "Two small caches"
[traffic]
flows = 8
[[row]]
name = "a"
structure = "perfect"
[[row]]
name = "b"
structure = "lru"
parameters = { capacity = 64 }
"""

PLUGIN = """
from models.interface import FlowCache

class Mine(FlowCache):
    summary = "mine"
    def lookup(self, packet, ctx):
        return undefined_name

class Raises(FlowCache):
    def lookup(self, packet, ctx):
        raise ValueError("seven is too many")
"""

ONE_PACKET = frames.pcap([(0, frames.ethernet(frames.ipv4(frames.udp(1, 2), 3, 4)))])


@pytest.fixture
def runner(monkeypatch):
    """Put a stand-in in the simulator's place."""

    def choose(name="run_row"):
        monkeypatch.setitem(sim.run.RUNNERS, "forwarding", f"fake_runner:{name}")
        monkeypatch.setitem(sim.run.RUNNERS, "replay", f"fake_runner:{name}")

    choose()
    return choose


@pytest.fixture
def dstlab(tmp_path, monkeypatch, capsys, runner):
    """Run a command line in an empty folder that holds `mine.toml`; gives status, stdout, stderr."""
    (tmp_path / "mine.toml").write_text(SCENARIO)
    (tmp_path / "my_cache.py").write_text(PLUGIN)
    (tmp_path / "one.pcap").write_bytes(ONE_PACKET)
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        status = execute(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def refused(outcome, wanted):
    """The outcome is exit status 2 with nothing on stdout and one line on stderr that holds `wanted`."""
    status, out, err = outcome
    assert status == 2, (status, out, err)
    assert out == ""
    said = [line for line in err.splitlines() if line.startswith("dstlab: ")]
    assert len(said) == 1
    assert err.splitlines()[-1] == said[0]
    assert wanted in said[0]
    assert "Traceback" not in err


def test_run_prints_the_table_and_progress(dstlab):
    status, out, err = dstlab("run", "mine.toml", "--jobs", "1")
    assert status == 0
    assert out.startswith("Two small caches\n")
    assert "simulated" in out
    assert "a: measuring, 2.00 M packets/s, 0:02 left" in err
    assert err.splitlines()[0].startswith(("a: compiling", "a: loading"))


def test_quiet_says_nothing_on_stderr(dstlab):
    assert dstlab("run", "mine.toml", "--quiet", "--jobs", "1")[2] == ""


def test_rows_run_side_by_side_give_the_same_output(dstlab):
    one = dstlab("run", "mine.toml", "--quiet", "--jobs", "1", "--profile", "--series", "--seeds", "2")
    two = dstlab("run", "mine.toml", "--quiet", "--jobs", "2", "--profile", "--series", "--seeds", "2")
    assert one == two
    assert one[0] == 0


def test_json_to_stdout_is_the_exchange_form_and_nothing_else(dstlab):
    status, out, _ = dstlab("run", "mine.toml", "--jobs", "1", "--json", "-", "--seed", "5", "--set", "structure.capacity=128")
    found = json.loads(out)
    assert status == 0
    assert list(found) == ["schema", "scenario", "seed", "rows", "mape_predicted_percent"]
    assert (found["schema"], found["scenario"], found["seed"], found["mape_predicted_percent"]) == (1, "mine", 5, None)
    assert found["rows"][1]["parameters"]["capacity"] == 128
    assert found["rows"][0]["figures"]["entries"] == {
        "simulated": 250005.0,
        "published": None,
        "error_percent": None,
        "role": "unpublished",
    }


def test_json_and_out_are_written_beside_the_table(dstlab, tmp_path):
    status, out, _ = dstlab("run", "mine.toml", "--jobs", "1", "--json", "f.json", "--out", "results/one", "--quiet")
    assert status == 0
    assert "total kpps" in out
    assert json.loads((tmp_path / "f.json").read_text())["rows"][0]["row"] == "a"
    found = read_result("results/one")
    assert (found.complete, found.quick, len(found.rows)) == (True, False, 2)
    assert found.rows[0].host.packets == 1000


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--format", "csv"], "row,role,figure,simulated"),
        (["--format", "rtstat"], "| entries|"),
        (["--series"], "row,time_s,total_kpps,entries"),
        (["--profile"], "a: cycles per packet"),
        (["--residuals"], "a: no published profile to compare with"),
        (["--quick"], "QUICK RUN"),
        (["--seeds", "3"], "seeds 1 to 3"),
    ],
)
def test_options_of_run(dstlab, options, wanted):
    status, out, _ = dstlab("run", "mine.toml", "--jobs", "1", "--quiet", *options)
    assert status == 0
    assert wanted in out


def test_replay_is_a_table_of_structures(dstlab):
    status, out, _ = dstlab(
        "replay", "one.pcap", "--structure", "lru,capacity=64", "--structure", "none", "--quiet", "--jobs", "1", "--json", "-"
    )
    assert status == 0
    rows = json.loads(out)["rows"]
    assert [row["row"] for row in rows] == ["lru,capacity=64", "none"]
    assert rows[0]["parameters"] == {"capacity": 64, "structure": "lru", "offered_kpps": 1000.0}


def test_replay_as_captured(dstlab):
    status, out, _ = dstlab("replay", "one.pcap", "--structure", "none", "--as-captured", "--quiet", "--json", "-")
    assert status == 0
    assert json.loads(out)["rows"][0]["parameters"] == {"structure": "none"}


def test_replay_at_a_rate(dstlab):
    status, out, _ = dstlab("replay", "one.pcap", "--structure", "none", "--rate", "250", "--quiet", "--json", "-")
    assert status == 0
    assert json.loads(out)["rows"][0]["parameters"]["offered_kpps"] == 250


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["run", "olson-2007"], "unknown scenario 'olson-2007'; did you mean olsson-2007?"),
        (["run", "nothing-like-it"], "unknown scenario 'nothing-like-it'; known: bgp-churn, collision, fixed-rate-2007"),
        (["run", "none.toml"], "none.toml: there is no such scenario"),
        (["run", "."], "is a directory"),
        (["run"], "Missing argument"),
        (["rum", "x"], "No such command 'rum'"),
        (["run", "mine.toml", "--quik"], "--quik"),
        (["run", "mine.toml", "--seeds", "0"], "0 is not in the range"),
        (["run", "mine.toml", "--seeds", "few"], "'few' is not a valid integer"),
        (["run", "mine.toml", "--format", "xml"], "'xml' is not one of 'table', 'csv', 'rtstat'"),
        (["run", "mine.toml", "--set", "traffic.flows=0"], "traffic.flows must be at least 1, got 0"),
        (
            ["run", "mine.toml", "--set", "traffic.offered_kpps=0"],
            "offered_kpps must be more than 0 thousand packets per second, got 0",
        ),
        (["run", "mine.toml", "--set", "traffic.flwos=3"], "flwos is not a known key; did you mean flows?"),
        (["run", "mine.toml", "--set", "structure.capacity=lots"], "row b: lru.capacity must be int, got 'lots'"),
        (["run", "mine.toml", "--set", "machine=opteron"], "unknown machine 'opteron'; did you mean opteron-2218?"),
        (["run", "mine.toml", "--out", "mine.toml"], "--out mine.toml is a file; name a folder"),
        (["run", "mine.toml", "--json", "."], "--json . is a directory; name a file, or - for stdout"),
        (["run", "mine.toml", "--json", "nowhere/f.json"], "there is no folder nowhere"),
        (["replay", "none.pcap"], "none.pcap"),
        (["replay", "."], "directory"),
        (["replay", "mine.toml"], "mine.toml"),
        (["replay"], "Missing argument"),
        (["replay", "one.pcap", "--rate", "0"], "offered_kpps must be more than 0"),
        (["replay", "one.pcap", "--rate", "fast"], "'fast' is not a valid float"),
        (["replay", "one.pcap", "--rate", "5", "--as-captured"], "--rate and --as-captured exclude each other"),
        (["replay", "one.pcap", "--structure", "lru,64"], "'64' is not KEY=VALUE"),
        (["replay", "one.pcap", "--structure", "lruu"], "unknown structure 'lruu'; did you mean lru?"),
        (["replay", "one.pcap", "--structure", "lru,capacty=3"], "did you mean capacity?"),
        (["replay", "one.pcap", "--structure", "gone.py:Mine"], "gone.py does not exist"),
        (["replay", "one.pcap", "--structure", "my_cache.py:Mien"], "did you mean Mine?"),
        (["replay", "one.pcap", "--machine", "opteron"], "did you mean opteron-2218?"),
        (["replay", "one.pcap", "--fib", "none.txt"], "none.txt"),
        (["show", "rt_hsh"], "unknown name 'rt_hsh'; did you mean rt_hash?"),
        (["check", "lruu"], "unknown structure 'lruu'; did you mean lru?"),
        (["check", "my_cache.py:Mien"], "did you mean Mine?"),
        (["calibrate", "olson-2007"], "did you mean olsson-2007?"),
        (["calibrate", "mine.toml"], "it lacks the published rows rt_hash-32k-L40, rt_hash-32k-L4, unicache-L40; try olsson-2007"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(dstlab, arguments, wanted):
    refused(dstlab(*arguments), wanted)


def test_buckets_must_be_a_power_of_two(dstlab, tmp_path):
    (tmp_path / "odd.toml").write_text(
        'name = "odd"\n[[row]]\nname = "r"\nstructure = "rt_hash"\nparameters = { rhash_entries = 30000 }\n'
    )
    refused(dstlab("run", "odd.toml"), "row r: buckets must be a power of two")


def test_a_file_without_permission(dstlab, monkeypatch):
    def read_text(self, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.read_text", read_text)
    refused(dstlab("run", "mine.toml"), "cannot read the scenario: mine.toml: Permission denied")


def test_a_full_disk_is_said_after_the_table_and_leaves_nothing(dstlab, monkeypatch, tmp_path):
    def write(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder_module, "_write", write)
    before = sorted(tmp_path.iterdir())
    status, out, err = dstlab("run", "mine.toml", "--quiet", "--jobs", "1", "--out", "out")
    assert status == 2
    assert "total kpps" in out
    assert err == "dstlab: cannot write the result to out: No space left on device; nothing was written\n"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_a_row_cannot_do_is_one_sentence(dstlab, runner, jobs):
    runner("run_user_error")
    status, out, err = dstlab("run", "mine.toml", "--quiet", "--jobs", jobs)
    assert (status, out) == (2, "")
    assert err.splitlines()[0].endswith("cannot serve this traffic; take another")
    assert err.startswith("dstlab: row ")
    assert len(err.splitlines()) == 1


def test_too_little_memory_is_one_sentence(dstlab, runner):
    runner("run_out_of_memory")
    refused(
        dstlab("run", "mine.toml", "--jobs", "1"), "row a: not enough memory; run fewer rows at a time (--jobs 1) or fewer flows"
    )


def test_a_bug_keeps_its_traceback(dstlab, runner):
    runner("run_bug")
    with pytest.raises(AssertionError, match="an invariant is broken"):
        dstlab("run", "mine.toml", "--jobs", "1")


def test_debug_keeps_the_traceback_of_a_users_error(dstlab):
    with pytest.raises(ValueError, match="did you mean olsson-2007"):
        dstlab("--debug", "run", "olson-2007")


def test_a_plugin_that_fails_while_it_runs_is_named_with_its_line(dstlab, runner):
    runner("run_plugin_fault")
    outcome = dstlab("replay", "one.pcap", "--structure", "my_cache.py:Mine", "--jobs", "1")
    refused(outcome, "row my_cache.py:Mine: my_cache.py: line 7: NameError: name 'undefined_name' is not defined")
    assert "`dstlab check my_cache.py:Mine`" in outcome[2]


def test_a_valueerror_of_a_plugin_is_named_with_its_line_too(dstlab, runner):
    runner("run_plugin_fault")
    outcome = dstlab("replay", "one.pcap", "--structure", "my_cache.py:Raises", "--jobs", "1")
    refused(outcome, "row my_cache.py:Raises: my_cache.py: line 11: ValueError: seven is too many")


def test_check_refuses_a_plugin_that_breaks_the_contract(dstlab):
    status, out, err = dstlab("check", "my_cache.py:Mine")
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "undefined_name" in err


def test_check_passes_a_good_structure(dstlab):
    status, out, _ = dstlab("check", "lru")
    assert status == 0
    assert "does what a structure must do" in out


def test_ctrl_c_keeps_the_finished_rows(dstlab, runner):
    runner("run_interrupted")
    status, out, err = dstlab("run", "mine.toml", "--quiet", "--jobs", "1", "--out", "out")
    assert status == 130
    assert "INTERRUPTED: 1 of 2 rows were finished" in out
    assert err.strip() == "dstlab: interrupted"
    found = read_result("out")
    assert (found.complete, [row.row for row in found.rows]) == (False, ["a"])


def test_list_names_everything(dstlab):
    status, out, _ = dstlab("list")
    assert status == 0
    for name in ("olsson-2007", "flow-lengths", "rt_hash", "unicache", "perfect", "none", "lru", "opteron-2218", "linux-2.6.20"):
        assert f"\n  {name} " in out or f"\n  {name}\n" in out


def test_show_a_structure_gives_parameters_key_and_memory_layout(dstlab):
    status, out, _ = dstlab("show", "rt_hash")
    assert status == 0
    assert "rhash_entries = 32768" in out
    assert "key: " in out
    assert "memory:" in out


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("lru", "capacity = 65536"),
        ("my_cache.py:Mine", "Mine: mine"),
        ("opteron-2218", "clock_hz = "),
        ("linux-2.6.20", "cost sheet linux-2.6.20"),
        ("olsson-2007", "packet path adjusted: boot-131k"),
        ("mine.toml", "2 x 8 flows of length 40"),
        (str(MACHINES / "opteron-2218.toml"), "clock_hz = "),
        (str(COSTS / "linux-2.6.20.toml"), "cost sheet /"),
    ],
)
def test_show_anything_else(dstlab, name, wanted):
    status, out, _ = dstlab("show", name)
    assert status == 0
    assert wanted in out


def test_calibrate_says_how_many_constants_were_fitted_to_how_many_figures(dstlab, monkeypatch):
    from sim.calibrate import Fit

    def fit(scenario, seed, rounds, report):
        report(f"{scenario.name} {seed} {rounds}")
        return Fit(cycles={"ip_rcv": 80.0}, memory_ns=61.5, constants=4, figures=9, notes=["held at 0"])

    monkeypatch.setattr("sim.calibrate.calibrate", fit)
    status, out, err = dstlab("calibrate", "olsson-2007", "--seed", "3", "--rounds", "1")
    assert (status, err) == (0, "olsson-2007 3 1\n")
    assert out.splitlines()[0] == "cost sheet linux-2.6.20: 4 constants fitted to 9 figures"
    assert out.splitlines()[-1] == "held at 0"
    assert dstlab("calibrate", "olsson-2007", "--quiet")[2] == ""
