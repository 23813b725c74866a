"""Scenarios: what a file may say, and the sentence for what it may not."""

import re
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from sim.errors import UserError
from sim.load import EXPERIMENTS, SCENARIOS, check_rows, load_scenario, sections, with_settings
from sim.run import RUNNERS
from sim.toml_input import names_in

MINIMAL = """
name = "mine"
[traffic]
flows = 8
{traffic}
[[row]]
name = "a"
structure = "perfect"
{row}
[[row]]
name = "b"
structure = "lru"
parameters = {{ capacity = 64 }}
"""


@pytest.fixture
def write(tmp_path):
    def write(top="", traffic="", row=""):
        path = tmp_path / "mine.toml"
        path.write_text(top + MINIMAL.format(traffic=traffic, row=row))
        return str(path)

    return write


@pytest.mark.parametrize("name", ["olsson-2007", "flow-lengths"])
def test_the_projects_own_scenarios_load(name):
    scenario = load_scenario(name)
    assert scenario.name == name
    assert name in names_in(SCENARIOS)
    assert len({row.name for row in scenario.row}) == len(scenario.row)


def test_olsson_rows_stand_in_published_order_with_the_131k_rows_twice():
    rows = load_scenario("olsson-2007").row
    published = [row.published for row in rows if row.adjust is None]
    assert published == [
        "40/rt_hash/32768",
        "40/rt_hash/131072",
        "40/unicache",
        "4/rt_hash/32768",
        "4/rt_hash/131072",
        "4/unicache",
    ]
    assert [row.published for row in rows if row.adjust == "boot-131k"] == ["40/rt_hash/131072", "4/rt_hash/131072"]


def test_an_adjusted_row_differs_from_its_pure_row_in_name_roles_and_adjustment_only():
    rows = {row.name: row for row in load_scenario("olsson-2007").row}
    for name, row in rows.items():
        if row.adjust:
            pure = rows[name.removesuffix("-adjusted")]
            assert msgspec.structs.replace(row, name=pure.name, roles=pure.roles, adjust=None) == pure


def test_flow_lengths_has_five_structures_at_seven_lengths():
    scenario = load_scenario("flow-lengths")
    lengths = {}
    for row in scenario.row:
        traffic = sections(scenario, row).traffic
        lengths.setdefault(row.name.rpartition("-")[0], []).append(traffic.flow_length)
        assert traffic.offered_kpps == 2976.0
        assert traffic.end_mark == (row.structure == "unicache")
    assert set(lengths) == {"rt_hash-32k", "rt_hash-131k", "unicache", "perfect", "none"}
    assert all(found == [1, 2, 4, 10, 40, 100, 1000] for found in lengths.values())


def test_a_row_overrides_its_scenario_key_by_key(write):
    scenario = load_scenario(write(traffic="flow_length = 7", row="traffic = { flows = 3 }\nbox = { hz = 250 }"))
    first, second = (sections(scenario, row) for row in scenario.row)
    assert (first.traffic.flows, first.traffic.flow_length, first.box.hz) == (3, 7, 250)
    assert (second.traffic.flows, second.traffic.flow_length, second.box.hz) == (8, 7, 1000)


def test_paths_in_a_file_are_meant_from_where_it_lies(write, tmp_path):
    path = Path(write())
    path.write_text(path.read_text() + '[fib]\nfile = "routes.txt"\n')
    assert load_scenario(str(path)).fib.file == str(tmp_path / "routes.txt")


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ({"traffic": "flowz = 3"}, "mine.toml: traffic.flowz is not a known key; did you mean flows?"),
        ({"top": "tittle = 'x'\n"}, "tittle is not a known key; did you mean title?"),
        ({"row": "box = { hertz = 3 }"}, "row a: box: hertz is not a known key; did you mean hz?"),
        ({"row": "structur = 'x'"}, "row[1: a].structur is not a known key; did you mean structure?"),
        (
            {"traffic": "offered_kpps = '1080 kpps'"},
            "traffic.offered_kpps must be a number (thousand packets per second), got '1080 kpps'",
        ),
        ({"traffic": "offered_kpps = 0"}, "offered_kpps must be more than 0 thousand packets per second, got 0"),
        ({"traffic": "offered_kpps = nan"}, "offered_kpps must be more than 0"),
        ({"traffic": "offered_kpps = 1_488_096_000"}, "so write 1.4881e+06 for 1.4881e+09 packets per second"),
        ({"row": "traffic = { flows = 0 }"}, "row a: traffic.flows must be at least 1, got 0"),
        ({"traffic": "flow_length = 0"}, "traffic.flow_length must be at least 1, got 0"),
        ({"traffic": "flow_length = 2.5"}, "traffic.flow_length must be a whole number, got 2.5"),
        ({"traffic": "start = 'synchronus'"}, "did you mean synchronous?"),
        ({"traffic": "destination = '10.0.0.1/8'"}, "traffic.destination must be an IPv4 prefix such as 10.0.0.0/8"),
        ({"traffic": "source = 'capture'"}, "traffic.source is capture, but traffic.files names none"),
        ({"row": "measure = { window_s = 0 }"}, "measure.window_s must be more than 0 seconds, got 0"),
        ({"row": "roles = { totl_kpps = 'fitted' }"}, "roles.totl_kpps is no figure; did you mean total_kpps?"),
        ({"row": "roles = { total_kpps = 'fited' }"}, "is no role; did you mean fitted?"),
        ({"row": "published = '40/unicache'"}, "needs the scenario to name its table"),
        ({"row": "published = '40/unicash'", "top": "published = 'olsson-2007'\n"}, "did you mean 40/unicache?"),
        ({"row": "published = '40/unicache'", "top": "published = 'olson-2007'\n"}, "did you mean olsson-2007?"),
        ({"top": "published = 'nope'\n"}, "mine.toml: unknown published table 'nope'"),
        ({"top": "machine = 'opteron-2281'\n"}, "unknown machine 'opteron-2281'; did you mean opteron-2218?"),
        ({"top": "costs = 'linux-2.6.02'\n"}, "unknown cost sheet"),
        ({"top": "experiment = 'forwardin'\n"}, "did you mean forwarding?"),
        ({"top": "schema = 2\n"}, "schema 2 is unknown; this version reads schema 1"),
        ({"top": "seed = -1\n"}, "seed must not be negative, got -1"),
        ({"top": "name == 3\n"}, "is not valid TOML"),
        ({"row": "[[row]]\nname = 'a'\nstructure = 'none'"}, "row a stands twice"),
        ({"row": "[[row]]\nname = 'c'"}, "row[2: c].structure is missing"),
    ],
)
def test_a_bad_scenario_is_refused_in_one_sentence(write, parts, wanted):
    with pytest.raises(UserError, match=re.escape(wanted)) as refused:
        load_scenario(write(**parts))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ("parameters = { size = 3 }", "row a: perfect has no parameter 'size'"),
        ("[[row]]\nname = 'c'\nstructure = 'rt_hsh'", "row c: unknown structure 'rt_hsh'; did you mean rt_hash?"),
        ("[[row]]\nname = 'c'\nstructure = 'lru'\nparameters = { capacity = 'big' }", "row c: lru.capacity must be int, got 'big'"),
    ],
)
def test_structures_and_their_parameters_are_checked_before_anything_runs(write, row, wanted):
    scenario = load_scenario(write(row=row))
    with pytest.raises(UserError, match=re.escape(wanted)):
        check_rows(scenario)


def test_a_scenario_without_rows_is_refused(tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text('name = "empty"\n')
    with pytest.raises(UserError, match="nothing to run"):
        load_scenario(str(path))


def test_an_empty_file_a_directory_and_a_binary_file_are_refused(tmp_path):
    empty, binary = tmp_path / "empty.toml", tmp_path / "binary.toml"
    empty.write_text("")
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="name is missing"):
        load_scenario(str(empty))
    with pytest.raises(UserError, match="not a text file"):
        load_scenario(str(binary))
    with pytest.raises(UserError, match="is a directory"):
        load_scenario(f"{tmp_path}/")
    with pytest.raises(UserError, match="there is no such scenario"):
        load_scenario(str(tmp_path / "none.toml"))


def test_settings_reach_the_scenario_and_every_row_that_overrides(write):
    scenario = load_scenario(write(row="traffic = { flows = 3 }"))
    changed = with_settings(
        scenario, ("traffic.flows=5", "box.hz=250", "fib.prefixes=7", "structure.capacity=128", "measure.window_s=2")
    )
    assert [sections(changed, row).traffic.flows for row in changed.row] == [5, 5]
    assert [row.parameters for row in changed.row] == [{}, {"capacity": 128}]
    assert (changed.box.hz, changed.fib.prefixes, changed.measure.window_s) == (250, 7, 2)
    assert with_settings(scenario, ()) is scenario


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("traffic.flows", "write SECTION.KEY=VALUE"),
        ("trafic.flows=3", "unknown section 'trafic'; did you mean traffic?"),
        ("traffic.flowz=3", "--set traffic: flowz is not a known key; did you mean flows?"),
        ("traffic.flows=many", "--set traffic: flows must be a whole number, got 'many'"),
        ("traffic.flows=0", "traffic.flows must be at least 1, got 0"),
        ("structure.capasity=3", "no structure of this scenario has the parameter 'capasity'; did you mean capacity?"),
        ("machine=nosuch", "unknown machine 'nosuch'"),
    ],
)
def test_a_bad_setting_is_refused(write, setting, wanted):
    with pytest.raises(UserError, match=re.escape(wanted)):
        with_settings(load_scenario(write()), (setting,))


def test_a_setting_that_means_nothing_for_a_capture_is_refused(write):
    replay = load_scenario(write(traffic='source = "capture"\nfiles = ["a.pcap"]'))
    assert with_settings(replay, ("traffic.offered_kpps=5",)).traffic.offered_kpps == 5
    with pytest.raises(UserError, match=r"traffic.flows has no effect on files.*traffic.offered_kpps"):
        with_settings(replay, ("traffic.flows=5",))


def test_every_experiment_has_a_runner():
    for experiment in EXPERIMENTS:
        module, _, function = RUNNERS[experiment].partition(":")
        assert callable(getattr(import_module(module), function))
