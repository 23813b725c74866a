"""Replaying captures: counts against a dictionary and a linear scan, bad input as one sentence, equal routes everywhere."""

import json
import random

import pytest
from oracles import frames

from models.kernel import compiled
from sim.cli import execute
from sim.experiments.replay import WHY_NOT_STEADY, run_replay
from sim.run import run_scenario
from sim.scenario import Fib, Row, Scenario, Traffic

PACKETS = 600 if compiled() else 60
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
YEAR = 31_557_600 * SECOND
FIB = "10.0.0.0/28 192.0.2.1\n10.0.0.0/27 192.0.2.2\n10.0.0.64/26\n"

PLUGIN = """
from models.interface import MISS, NEED_NOTHING, FlowCache

class Mine(FlowCache):
    name, summary = "mine", "a dictionary"
    def __init__(self, params, world):
        super().__init__(params, world)
        self.known = {}
    def lookup(self, packet, ctx):
        return self.known.get(packet.key, MISS)
    def insert(self, packet, route, ctx):
        self.known[packet.key] = route
        return NEED_NOTHING
    def __len__(self):
        return len(self.known)

class Liar(Mine):
    def lookup(self, packet, ctx):
        return 0
"""


def flows(count, seed=1):
    """Seeded (source port, destination) pairs, many of them equal."""
    draw = random.Random(seed)
    return [(draw.randrange(1, 9), 0x0A000000 + draw.randrange(0, 130)) for _ in range(count)]


def capture(path, pairs, gap_ns=1_000_000):
    made = [(START + i * gap_ns, frames.ethernet(frames.ipv4(frames.udp(s, 53), 0x0A010101, d))) for i, (s, d) in enumerate(pairs)]
    path.write_bytes(frames.pcap(made, nano=True))
    return str(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fib.txt").write_text(FIB)
    (tmp_path / "my.py").write_text(PLUGIN)
    return tmp_path


def replayed(files, structure="perfect", fib=None, parameters=None, quick=False, measure=None, **traffic):
    row = Row(name=structure, structure=structure, parameters=parameters or {}, measure=measure or {})
    traffic = {"source": "capture", "files": files, "offered_kpps": 100.0, **traffic}
    scenario = Scenario(name="replay", traffic=Traffic(**traffic), fib=Fib(file=fib), row=[row])
    return run_replay(scenario, row, seed=1, quick=quick, progress=lambda progress: None)


def window(result, name):
    return result.counters[name].window


def test_perfect_misses_once_for_each_flow(folder):
    pairs = flows(PACKETS)
    result = replayed([capture(folder / "a.pcap", pairs)])
    assert window(result, "box_slow") == len(set(pairs))
    assert window(result, "box_hits") == PACKETS - len(set(pairs))
    assert window(result, "box_processed") == window(result, "box_offered") == PACKETS
    assert result.loss.dropped == 0
    assert result.windows.window.length_s == pytest.approx((PACKETS - 1) / 100e3, rel=0.2)
    assert (result.windows.steady, result.windows.reason) == (False, WHY_NOT_STEADY)
    assert result.figures["total_kpps"].simulated == pytest.approx(PACKETS / result.windows.window.length_s / 1000)


def test_entries_are_the_mean_over_packets(folder):
    """One packet a round, each of a new flow: 1, 2, ... entries."""
    pairs = [(1, 0x0A000000 + i) for i in range(20)]
    result = replayed([capture(folder / "a.pcap", pairs, SECOND)], as_captured=True)
    assert result.figures["entries"].simulated == pytest.approx(10.5)
    assert window(result, "entries") == 20


def test_a_warm_up_is_run_and_not_counted(folder):
    """The same ten flows twice: the second round alone is all hits."""
    pairs = [(1, 0x0A000000 + i) for i in range(10)] * 2
    path = capture(folder / "a.pcap", pairs, SECOND)
    whole = replayed([path], as_captured=True)
    warm = replayed([path], as_captured=True, measure={"warm_up_s": 9.5})
    assert (window(whole, "box_slow"), window(whole, "box_hits")) == (10, 10)
    assert (window(warm, "box_slow"), window(warm, "box_hits")) == (0, 10)
    assert warm.windows.window.start_s == 9.5
    assert warm.windows.window.length_s == pytest.approx(9.5, abs=0.001)
    assert warm.counters["box_slow"].warm_up == 10
    assert warm.figures["entries"].simulated == 10
    assert warm.checksum == whole.checksum


def test_a_trace_shorter_than_its_warm_up_is_refused_with_both_figures(folder):
    path = capture(folder / "a.pcap", [(1, 0x0A000001)] * 3, SECOND)
    with pytest.raises(ValueError, match=r"lasts 2 s .* warm-up takes 2 s"):
        replayed([path], as_captured=True, measure={"warm_up_s": 2.0})


def test_a_damaged_capture_is_replayed_up_to_the_damage(folder):
    path = capture(folder / "a.pcap", flows(20))
    (folder / "a.pcap").write_bytes((folder / "a.pcap").read_bytes()[:-3])
    result = replayed([path])
    assert window(result, "box_processed") == 19
    assert any(note.startswith(f"read up to damage: {path}: record 20, at byte ") for note in result.notes)


def test_a_round_of_many_packets_weighs_as_many(folder):
    """Nine packets that meet in one round, then one alone, a second later: 9 entries for nine of them, 10 for the last."""
    made = [(START + (i == 9) * SECOND, frames.ethernet(frames.ipv4(frames.udp(1, 53), 1, 0x0A000000 + i))) for i in range(10)]
    (folder / "burst.pcap").write_bytes(frames.pcap(made))
    result = replayed(["burst.pcap"], as_captured=True)
    assert result.figures["entries"].simulated == pytest.approx((9 * 9 + 10) / 10)


def test_every_packet_of_a_small_capture_counts(folder):
    result = replayed([capture(folder / "one.pcap", [(1, 0x0A000001)])], as_captured=True)
    assert window(result, "box_slow") == 1
    assert window(result, "box_hits") == 0
    assert result.figures["slow_share"].simulated == 1.0
    assert result.figures["total_open_kpps"].simulated > 0
    assert result.windows.window.length_s > 0


def test_as_captured_takes_the_time_of_the_capture(folder):
    pairs = flows(10)
    result = replayed([capture(folder / "a.pcap", pairs, SECOND)], as_captured=True)
    assert result.windows.window.length_s == pytest.approx(9, abs=0.001)
    assert result.latency_us.max < 50
    assert result.longest_stall_us < 50


@pytest.mark.parametrize("structure", ["rt_hash", "unicache"])
def test_gaps_of_years_are_slept_through(folder, structure):
    """Timers run in the gaps, but not for ever, and an entry that nobody uses for a year is not there any more."""
    parameters = {"rhash_entries": 64} if structure == "rt_hash" else {}
    result = replayed([capture(folder / "a.pcap", [(1, 0x0A000001)] * 4, YEAR)], structure, as_captured=True, parameters=parameters)
    assert window(result, "box_slow") == 4
    assert result.windows.window.length_s == pytest.approx(3 * YEAR / SECOND)
    assert len(result.series) <= 1000


def test_idle_timers_are_on_no_packets_bill(folder):
    pairs = [(1, 0x0A000001)] * 4
    parameters = {"rhash_entries": 1024}
    near = replayed([capture(folder / "near.pcap", pairs[:1])], "rt_hash", as_captured=True, parameters=parameters)
    far = replayed([capture(folder / "far.pcap", pairs, 3600 * SECOND)], "rt_hash", as_captured=True, parameters=parameters)
    assert window(far, "box_slow") == 4
    assert sum(far.profile.values()) < 1.2 * sum(near.profile.values())


def test_captures_are_merged_by_time_and_have_interfaces_of_their_own(folder):
    """The same flow on two interfaces is two flows."""
    pairs = flows(PACKETS // 2)
    files = [capture(folder / f"{name}.pcap", pairs) for name in "ab"]
    result = replayed(files)
    assert window(result, "box_processed") == 2 * (PACKETS // 2)
    assert window(result, "box_slow") == 2 * len(set(pairs))


def test_destinations_without_route_are_unreachable_and_cached(folder):
    pairs = flows(PACKETS)
    without = sum(not (d < 0x0A000020 or 0x0A000040 <= d < 0x0A000080) for _, d in pairs)
    assert 0 < without < PACKETS
    result = replayed([capture(folder / "a.pcap", pairs)], fib="fib.txt")
    assert f"{without:,} packets have no route in fib.txt: unreachable" in result.notes
    assert window(result, "box_slow") == len(set(pairs))
    assert window(result, "box_errors") == 0


def test_routes_are_equal_for_all_structures_and_differ_between_tables(folder):
    files = [capture(folder / "a.pcap", flows(PACKETS))]
    specs = {"rt_hash": {"rhash_entries": 64}, "unicache": {}, "none": {}, "lru": {"capacity": 3}, "perfect": {}, "my.py:Mine": {}}
    sums = {replayed(files, spec, "fib.txt", parameters).checksum for spec, parameters in specs.items()}
    assert len(sums) == 1
    assert replayed(files).checksum not in sums


def test_loss_at_a_rate_beyond_the_box_is_told_with_what_it_hides(folder):
    pairs = [(i % 250, 0x0A000001 + i // 250) for i in range(1200)] if compiled() else [(i, 0x0A000001) for i in range(330)]
    result = replayed([capture(folder / "a.pcap", pairs)], "none", offered_kpps=20000.0)
    dropped = result.loss.dropped
    assert 0 < dropped == window(result, "box_offered") - window(result, "box_processed")
    assert "without loss 100.00% of the packets take the slow path" in result.notes


def test_quick_takes_the_first_tenth(folder):
    files = [capture(folder / "a.pcap", flows(50))]
    assert window(replayed(files, quick=True), "box_processed") == 5
    assert window(replayed([capture(folder / "b.pcap", flows(3))], quick=True), "box_processed") == 1


def test_what_was_skipped_is_counted_by_reason(folder):
    mixed = [
        (START, frames.ethernet(b"\0" * 28, 0x0806)),
        (START, frames.ethernet(frames.ipv4(frames.udp(1, 2), 1, 2))),
        (START, frames.ethernet(b"\x60" + b"\0" * 60, 0x86DD)),
        (START - SECOND, frames.ethernet(frames.ipv4(frames.udp(1, 2), 1, 2))),
    ]
    (folder / "mixed.pcap").write_bytes(frames.pcap(mixed))
    result = replayed(["mixed.pcap"])
    assert result.skipped == {"arp": 1, "ipv6": 1}
    assert "2 packets, the last 1e-05 s after the first" in result.notes
    assert "the time of 1 packets was before that of the one before them; it was held" in result.notes


def test_the_series_covers_the_run(folder):
    result = replayed([capture(folder / "a.pcap", flows(20), SECOND)], as_captured=True, measure={"series_s": 2.0})
    assert 8 <= len(result.series) <= 10
    assert all(point["total_kpps"] == pytest.approx(0.001, rel=0.01) for point in result.series[1:])


def test_a_scenario_file_may_bring_captures(folder, capsys):
    capture(folder / "a.pcap", flows(20))
    (folder / "mine.toml").write_text(
        'name = "mine"\n[traffic]\nsource = "capture"\nfiles = ["a.pcap"]\n[[row]]\nname = "p"\nstructure = "perfect"\n'
    )
    assert execute(["run", "mine.toml", "--quiet", "--jobs", "1"]) == 0
    assert WHY_NOT_STEADY in capsys.readouterr().out


def test_workers_find_a_users_structure_and_change_nothing(folder):
    rows = [Row(name=name, structure=name) for name in ("my.py:Mine", "none")]
    traffic = Traffic(source="capture", files=[capture(folder / "a.pcap", flows(30))])
    scenario = Scenario(name="replay", traffic=traffic, row=rows)
    alone, pool = (run_scenario(scenario, seeds=[1], quick=False, jobs=jobs, on_progress=lambda p: None) for jobs in (1, 2))
    assert [row.figures for row in alone.rows] == [row.figures for row in pool.rows]
    assert len({row.checksum for row in pool.rows}) == 1


def test_the_command_says_pace_routes_and_sum(folder, capsys):
    capture(folder / "a.pcap", flows(20))
    arguments = ["replay", "a.pcap", "--structure", "my.py:Mine", "--structure", "lru,capacity=4", "--quiet", "--jobs", "1"]
    assert execute(arguments) == 0
    out = capsys.readouterr().out
    assert "sent evenly at 1,000 kpps (--rate KPPS or --as-captured sets the pace)" in out
    assert "1,000 generated routes inside 10.0.0.0/8 and a default route (--fib FILE gives your own)" in out
    assert "routes of a loss-free replay: equal for my.py:Mine, lru,capacity=4" in out
    assert execute([*arguments, "--as-captured", "--fib", "fib.txt", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["row"] for row in found["rows"]] == ["my.py:Mine", "lru,capacity=4"]
    assert found["mape_predicted_percent"] is None


BAD = [
    (["empty.pcap"], "empty.pcap holds no IPv4 packet that could be replayed; give a capture of IPv4 traffic"),
    (["arp.pcap"], "arp.pcap holds no IPv4 packet that could be replayed (left out: 1 arp)"),
    (["cut.pcap", "--strict"], "cut.pcap: record 20, at byte"),
    (["nothing.pcap"], "nothing.pcap is empty; capture again"),
    (["pipe"], "pipe is a pipe, and a capture is read several times; save it to a file first"),
    (["a.pcap", "cut.pcap", "--strict"], "cut.pcap: record 20, at byte"),
    (["a.pcap", "--fib", "bits.txt"], "bits.txt, line 1"),
    (["a.pcap", "--fib", "."], ". is a directory; give the routing table itself"),
    (["a.pcap", "--rate", "1e-300"], "the rate must be from 1e-06 to 1e+09 packets per second"),
    (["a.pcap", "--rate", "nan"], "offered_kpps must be more than 0"),
    (["a.pcap", "--structure", "my.py:Liar"], "wrong routes; `dstlab check my.py:Liar` says what a structure must do"),
]


@pytest.mark.parametrize(("arguments", "wanted"), BAD, ids=[wanted[:30] for _, wanted in BAD])
def test_bad_input_is_one_sentence(folder, capsys, arguments, wanted):
    import os

    whole = capture(folder / "a.pcap", flows(20))
    (folder / "empty.pcap").write_bytes(frames.pcap([]))
    (folder / "nothing.pcap").write_bytes(b"")
    (folder / "arp.pcap").write_bytes(frames.pcap([(START, frames.ethernet(b"\0" * 28, 0x0806))]))
    (folder / "cut.pcap").write_bytes((folder / whole).read_bytes()[:-3])
    (folder / "bits.txt").write_text("10.0.0.1/33\n")
    os.mkfifo(folder / "pipe")
    structure = [] if "--structure" in arguments else ["--structure", "none"]
    status = execute(["replay", *arguments, *structure, "--quiet", "--jobs", "1", "--json", "out.json", "--out", "out"])
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert wanted in captured.err
    assert not (folder / "out.json").exists()
    assert not (folder / "out" / "result.json").exists()
