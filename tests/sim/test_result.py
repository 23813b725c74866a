"""Results: figures and errors, and a folder that is written whole or not at all."""

import csv
import errno
import json
import math
import os
import stat

import msgspec
import pytest

import sim.result_folder as folder_module
from sim.compare import compare
from sim.errors import UserError
from sim.load import load_scenario, with_settings
from sim.result import Figure, Host, RowResult, RunResult, exchange_form, make_figure, mape, to_json
from sim.result_folder import prepare_folder, read_result, series_csv, write_file, write_result
from sim.run import run_scenario


def made_up(**changes):
    row = RowResult(
        row="a",
        figures={"total_kpps": make_figure(90.0, 100.0, "predicted")},
        series=[{"time_s": 1.0, "entries": 3}, {"time_s": math.inf, "entries": 4, "more": 2}],
        host=Host(wall_s=3.5, packets=7, packets_per_s=2.0),
    )
    return msgspec.structs.replace(RunResult(scenario="s", seed=1, rows=[row], host={"jobs": 2, "wall_s": 9.0}), **changes)


def test_a_figures_error_is_in_per_cent_of_the_published_value():
    assert make_figure(90.0, 100.0, "fitted") == Figure(simulated=90.0, published=100.0, error_percent=-10.0, role="fitted")
    assert make_figure(90.0, 100.0).role == "predicted"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_is_never_nan(value):
    assert make_figure(value, 100.0).simulated is None
    assert make_figure(value, 100.0).error_percent is None


def test_without_a_published_value_there_is_no_error_and_no_role():
    assert make_figure(3.0, None, "fitted") == Figure(simulated=3.0)
    assert make_figure(3.0, 0.0).error_percent is None


def test_mape_is_over_the_figures_of_one_role():
    rows = [
        RowResult(row=str(n), figures={"total_kpps": make_figure(value, 100.0, role)})
        for n, (value, role) in enumerate([(90.0, "predicted"), (120.0, "predicted"), (300.0, "fitted"), (None, "predicted")])
    ]
    assert mape(rows) == 15.0
    assert mape(rows, role="adjusted") is None
    assert mape([]) is None


def test_the_exchange_form_has_the_keys_of_schema_1_and_no_others():
    form = json.loads(to_json(exchange_form(made_up())))
    assert set(form) == {"schema", "scenario", "seed", "rows", "mape_predicted_percent"}
    assert set(form["rows"][0]) == {"row", "role", "parameters", "figures"}
    assert form["rows"][0]["figures"]["total_kpps"] == {
        "simulated": 90.0,
        "published": 100.0,
        "error_percent": -10.0,
        "role": "predicted",
    }
    assert form["mape_predicted_percent"] is None


def test_a_folder_gives_back_what_was_written(tmp_path):
    write_result(made_up(), tmp_path / "new" / "out")
    found = read_result(tmp_path / "new" / "out")
    expected = made_up()
    expected.rows[0].series[1]["time_s"] = None
    expected.rows[0].series[0]["more"] = None
    assert found == expected
    assert sorted(p.name for p in (tmp_path / "new").rglob("*")) == ["out", "result.json", "series.csv"]


def test_result_json_holds_no_nan_and_nothing_of_the_host_outside_its_block(tmp_path):
    write_result(made_up(mape_predicted_percent=math.nan), tmp_path / "a")
    write_result(made_up(host={"jobs": 1, "wall_s": 1.0}), tmp_path / "b")
    one, two = (json.loads((tmp_path / name / "result.json").read_text()) for name in "ab")
    assert one["mape_predicted_percent"] is None
    assert one.pop("host") == {"jobs": 2, "wall_s": 9.0, "rows": {"a": {"packets": 7, "packets_per_s": 2.0, "wall_s": 3.5}}}
    two.pop("host")
    assert one == two
    assert not {"host", "series"} & set(one["rows"][0])


def test_series_csv_has_the_columns_of_every_row():
    lines = list(csv.DictReader(series_csv(made_up().rows).splitlines()))
    assert lines == [
        {"row": "a", "time_s": "1.0", "entries": "3", "more": ""},
        {"row": "a", "time_s": "", "entries": "4", "more": "2"},
    ]


def test_an_older_result_is_replaced_and_other_files_are_left_alone(tmp_path):
    write_result(made_up(), tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    write_result(made_up(seed=2), tmp_path / "out")
    assert read_result(tmp_path / "out").seed == 2
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("there_before", [False, True])
def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch, there_before):
    out = tmp_path / "out"
    if there_before:
        write_result(made_up(), out)
    whole = folder_module._write

    def write(path, data):
        if path.name == "result.json":
            path.write_bytes(data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(path, data)

    monkeypatch.setattr(folder_module, "_write", write)
    with pytest.raises(UserError, match=r"cannot write the result to .*out: No space left on device; nothing was written"):
        write_result(made_up(seed=5), out)
    assert [p.name for p in tmp_path.iterdir()] == (["out"] if there_before else [])
    if there_before:
        assert read_result(out).seed == 1


def test_one_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "x.json"
    write_file(target, b"old")

    def write(path, data):
        path.write_bytes(b"ha")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder_module, "_write", write)
    with pytest.raises(UserError, match="No space left on device"):
        write_file(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_where_a_result_cannot_go_is_said_before_the_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file; name a folder"):
        prepare_folder(tmp_path / "file")
    with pytest.raises(UserError, match="is a file, not a folder"):
        prepare_folder(tmp_path / "file" / "out")
    monkeypatch.setattr(folder_module.os, "access", lambda *_: False)
    with pytest.raises(UserError, match="no permission to write in"):
        prepare_folder(tmp_path / "a" / "b")


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (None, "does not exist"),
        (b"{", "is not a result of dstlab"),
        (b'{"schema": 9, "scenario": "", "seed": 1, "rows": []}', "schema 9"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, content, wanted):
    (tmp_path / "series.csv").write_text("row\n")
    if content is not None:
        (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(UserError, match=wanted):
        read_result(tmp_path)


def test_a_row_is_compared_only_while_it_is_what_was_published():
    scenario = load_scenario("olsson-2007")
    result = RowResult(row="rt_hash-32k-L40", figures={"total_kpps": make_figure(1000.0)})
    found = compare(scenario, scenario.row[0], result)
    assert (found.role, found.figures["total_kpps"].published) == ("fitted", 1041.0)
    for setting in ("structure.rhash_entries=65536", "traffic.flow_length=5"):
        other = with_settings(scenario, (setting,))
        found = compare(other, other.row[0], result)
        assert (found.role, found.figures["total_kpps"].published) == ("unpublished", None)
        assert "not compared" in found.notes[0]
    same = with_settings(scenario, ("measure.window_s=3",))
    assert compare(same, same.row[0], result).role == "fitted"
    assert compare(scenario, scenario.row[0], result, quick=True).role == "unpublished"


def run(scenario, tmp_path, name, **options):
    wanted = {"seeds": [1], "quick": False, "jobs": 1, "on_progress": lambda _: None, "runner": "fake_runner:run_row"} | options
    write_result(run_scenario(scenario, **wanted), tmp_path / name)
    result = json.loads((tmp_path / name / "result.json").read_text())
    return result.pop("host"), result, (tmp_path / name / "series.csv").read_bytes()


def test_one_worker_and_two_give_the_same_bytes(tmp_path):
    scenario = load_scenario("flow-lengths")
    scenario = msgspec.structs.replace(scenario, row=[row for row in scenario.row if row.structure == "perfect"][:3])
    host, one, series = run(scenario, tmp_path, "one")
    other, two, again = run(scenario, tmp_path, "two", jobs=2)
    assert json.dumps(one) == json.dumps(two)
    assert series == again
    assert (host["jobs"], other["jobs"]) == (1, 2)


def test_a_result_names_scenario_machine_costs_and_versions(tmp_path):
    _, found, _ = run(load_scenario("olsson-2007"), tmp_path, "x")
    assert found["effective"]["traffic"]["flows"] == 65536
    assert found["machine"]["name"] == "opteron-2218"
    assert found["costs"]["name"] == "linux-2.6.20"
    assert set(found["versions"]) == {"dstlab", "python", "numpy", "numba", "simpy"}
    assert [row["row"] for row in found["rows"]] == [row["name"] for row in found["effective"]["row"]]


def test_several_seeds_give_mean_and_interval(tmp_path):
    scenario = load_scenario("olsson-2007")
    _, found, _ = run(scenario, tmp_path, "x", seeds=[1, 2, 3])
    total = found["rows"][0]["figures"]["total_kpps"]
    assert total["simulated"] == 1045.0 + 2
    # t(0.975, 2 degrees of freedom) = 4.303; the standard deviation of 1, 2, 3 is 1.
    assert total["interval"] == pytest.approx([1047 - 4.303 / math.sqrt(3), 1047 + 4.303 / math.sqrt(3)])
    assert total["error_percent"] == pytest.approx(100 * (1047 - 1041) / 1041)
    assert [seed["seed"] for seed in found["seeds"]] == [1, 2, 3]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, b"some bytes")
    assert os.read(reader, 100) == b"some bytes"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_file(tmp_path / "link", b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"
