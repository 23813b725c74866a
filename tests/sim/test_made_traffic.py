"""Generated traffic as scenarios ask for it: what each kind does to a structure, and options that a kind does not take."""

import numpy as np
import pytest

from models.flow import DST, PORTS, PROTO, SRC, make_batch
from models.kernel import compiled
from sim.assemble import assemble, make_sources, quick_sections
from sim.cli import execute
from sim.errors import UserError
from sim.experiments.replay import run_replay
from sim.load import SCENARIOS, check_scenario, load_scenario, sections
from sim.routing import make_table
from sim.scenario import Fib, Row, Scenario, Traffic
from sim.streams import stream
from sim.toml_input import names_in
from sim.traffic_kinds import KINDS, OPTIONS, check_made

PACKETS = 3000 if compiled() else 300
CSV = "start,duration,source,destination,protocol,packets,bytes,sport,dport\n0,1,10.0.0.1,10.0.0.2,17,5,500,1,2\n"


def keys(traffic, seed=1, packets=PACKETS, table=None):
    """The flow keys of each sender's first packets."""
    found = []
    for source in make_sources(traffic, seed, table=table):
        batch = make_batch(packets)
        assert source.fill(batch) == packets
        assert (np.diff(batch.time) >= 0).all()
        found.append(batch.key.copy())
    return found


def test_every_kind_that_is_allowed_can_be_made():
    assert set(KINDS) == {*OPTIONS, "mixture"}


@pytest.mark.parametrize("kind", [kind for kind in OPTIONS if kind != "collision"])
def test_each_sender_has_an_interface_and_a_stream_of_its_own(kind):
    traffic = Traffic(source=kind, flows=1000, offered_kpps=100.0)
    one, two = keys(traffic)
    assert set(one[:, PROTO] & 0xFFFF) == {1}
    assert set(two[:, PROTO] & 0xFFFF) == {3}
    assert (one[:, SRC] != two[:, SRC]).any()
    again, _ = keys(traffic)
    assert (one == again).all()
    if kind not in ("scan",):
        other, _ = keys(traffic, seed=2)
        assert (one != other).any()


def test_a_scan_is_one_flow_a_port():
    one, _ = keys(Traffic(source="scan", options={"hosts": "10.1.2.3", "first_port": 5, "last_port": 8}), packets=8)
    assert set(one[:, DST]) == {0x0A010203}
    assert (one[:, PORTS] & 0xFFFF).tolist() == [5, 6, 7, 8] * 2


def test_destinations_drawn_from_the_routes_have_routes():
    table = make_table(Fib(prefixes=50), 4, 1)
    table = table._replace(prefix=table.prefix[:50], plen=table.plen[:50], nexthop=table.nexthop[:50])
    for kind in ("zipf", "flood"):
        for found in keys(Traffic(source=kind, flows=100, options={"destinations": "routes"}), table=lambda: table):
            host = found[:, DST].astype(np.int64)
            inside = [(host >> (32 - plen)) == (net >> (32 - plen)) for net, plen in zip(table.prefix, table.plen, strict=True)]
            assert np.any(inside, axis=0).all()


def test_a_mixture_keeps_its_shares():
    parts = [{"share": 3.0, "source": "pktgen", "flows": 10}, {"share": 1.0, "source": "flood"}]
    one, _ = keys(Traffic(source="mixture", parts=parts, destination="10.9.0.0/16"))
    share = ((one[:, DST] >> 16) == 0x0A09).mean()
    assert share == pytest.approx(0.75, abs=4 * np.sqrt(0.19 / PACKETS))


def test_bursts_leave_silence():
    (source, _) = make_sources(Traffic(source="scan", offered_kpps=200.0, bursts={"on_s": 0.0001, "off_s": 1.0}), 1)
    batch = make_batch(40)
    source.fill(batch)
    assert np.diff(batch.time).max() >= 1_000_000_000


def test_drawn_bursts_have_random_numbers_of_their_own(monkeypatch):
    seen = []
    monkeypatch.setattr("sim.made_traffic.Bursts", lambda source, on_s, off_s, rng: seen.append(rng) or source)
    make_sources(Traffic(senders=1, flows=10, bursts={"on_s": 0.1, "off_s": 0.1, "drawn": True}), 1)
    of_packets = stream(1, "pktgen", "40", "10", "10.0.0.0/8", "0")
    assert seen[0].bit_generator.state != of_packets.bit_generator.state


def test_a_quick_run_has_as_many_buckets_as_the_attack_is_aimed_at():
    scenario = load_scenario("collision")
    row = scenario.row[0]
    found = quick_sections(sections(scenario, row))
    assert found.traffic.parts[1]["options"]["buckets"] == 2048
    assert assemble(scenario, row, 1, quick=True).parameters["rhash_entries"] == 2048


def scenario_of(**traffic):
    return Scenario(name="x", traffic=Traffic(**traffic), row=[Row(name="r", structure="none")])


@pytest.mark.parametrize(
    ("traffic", "said"),
    [
        ({"source": "zipf", "options": {"exponnt": 1.0}}, "did you mean exponent"),
        ({"source": "zipf", "options": {"exponent": "x"}}, "exponent"),
        ({"source": "mixture"}, "a mixture needs parts"),
        ({"source": "mixture", "parts": [{"share": 1.0, "source": "scn"}]}, "did you mean scan"),
        ({"source": "mixture", "parts": [{"share": 0.0, "source": "scan"}]}, "share must be more than 0"),
        ({"source": "mixture", "parts": [{"source": "scan"}]}, "share"),
        ({"source": "scan", "parts": [{"share": 1.0, "source": "scan"}]}, 'parts belong to source = "mixture"'),
        ({"source": "scan", "bursts": {"on_s": 1.0}}, "off_s"),
        ({"source": "flow-records"}, "traffic.files names none"),
        ({"source": "capture", "files": ["a"], "speed": 2.0}, "set traffic.as_captured"),
        ({"source": "capture", "files": ["a"], "repeat": 0}, "traffic.repeat must be at least 1"),
        ({"source": "capture", "files": ["a"], "options": {"x": 1}}, "a capture has none"),
        ({"family": 6, "source": "zipf"}, "no slow path forwards them yet"),
        ({"family": 5}, "traffic.family must be 4 or 6"),
    ],
)
def test_what_cannot_be_made_is_refused(traffic, said):
    with pytest.raises(UserError, match=said):
        check_scenario(scenario_of(**traffic), "mine.toml")


def test_pktgen_of_ipv6_is_refused():
    with pytest.raises(UserError, match="pktgen makes IPv4 packets"):
        check_made(Traffic(family=6), "x")


@pytest.mark.parametrize(
    ("fib", "said"),
    [
        ({"kind": "ful"}, "did you mean full"),
        ({"churn": -1.0}, "fib.churn must be 0 or more"),
        ({"churn": 1.0, "updates": "u"}, "give one of the two"),
    ],
)
def test_what_no_routing_table_is(fib, said):
    scenario = Scenario(name="x", fib=Fib(**fib), row=[Row(name="r", structure="none")])
    with pytest.raises(UserError, match=said):
        check_scenario(scenario, "mine.toml")


def test_the_scenarios_of_real_traffic_say_what_to_look_at():
    asked = {"scan", "rdos", "collision", "bgp-churn", "full-table"}
    assert asked <= set(names_in(SCENARIOS))
    for name in asked:
        assert load_scenario(name).look


# -- files ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.csv").write_text(CSV)
    return tmp_path


COLUMNS = {name: name for name in CSV.partition("\n")[0].split(",")}


def replayed(**traffic):
    row = Row(name="perfect", structure="perfect")
    made = Traffic(source="flow-records", files=["flows.csv"], offered_kpps=10.0, options={"columns": COLUMNS}, **traffic)
    return run_replay(Scenario(name="r", traffic=made, row=[row]), row, seed=1, progress=lambda progress: None)


def test_flow_records_are_replayed(folder):
    result = replayed(as_captured=True)
    assert (result.counters["box_slow"].window, result.counters["box_hits"].window) == (1, 4)
    assert 0.7 < result.windows.window.length_s < 1.1


def test_files_are_repeated_and_played_faster_and_gaps_shortened(folder):
    result = replayed(as_captured=True, repeat=3, speed=10.0)
    assert (result.counters["box_slow"].window, result.counters["box_hits"].window) == (1, 14)
    assert result.windows.window.length_s < 0.4
    result = replayed(as_captured=True, longest_gap_s=0.01)
    assert result.windows.window.length_s < 0.06
    assert any("4 gaps were shortened" in note for note in result.notes)


def test_the_command_replays_flow_records(folder, capsys):
    columns = ",".join(f"{name}={name}" for name in COLUMNS)
    arguments = ["--flow-records", "--columns", columns, "--structure", "none", "--quiet", "--jobs", "1"]
    assert execute(["replay", "flows.csv", "--as-captured", "--speed", "2", "--repeat", "2", *arguments]) == 0
    out = capsys.readouterr().out
    assert "2 times as fast, gaps of 600 s at most" in out
    assert "flows.csv, 2 times" in out
    assert "10 packets" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--speed", "2"], "add --as-captured"),
        (["--longest-gap", "2"], "add --as-captured"),
        (["--columns", "a=b"], "add --flow-records"),
        (["--flow-records", "--columns", "a"], "write FIELD=COLUMN"),
        (["--flow-records", "--columns", "strt=start"], "strt"),
        (["--flow-records", "--warm-up", "5", "--as-captured"], "warm-up takes 5 s"),
    ],
)
def test_what_the_command_refuses(folder, capsys, arguments, said):
    if "--warm-up" in arguments:
        arguments = [*arguments, "--columns", ",".join(f"{name}={name}" for name in COLUMNS)]
    assert execute(["replay", "flows.csv", "--structure", "none", "--quiet", "--jobs", "1", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
