import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.flow import FIN, make_batch, pack_ipv4
from traces.expand import FlowRecordSource, open_flow_records
from traces.flow_records import FlowRecords
from traces.retime import RetimedSource


def records(flows):
    """FlowRecords of (start, duration, packets, bytes, protocol)."""
    flows = sorted(flows, key=lambda flow: flow[0])
    column = lambda i: np.array([flow[i] for flow in flows], np.int64)  # noqa: E731
    key = np.array([pack_ipv4(i, 2 * i, 3, 4, flow[4]) for i, flow in enumerate(flows)], np.uint32).reshape(-1, 4)
    return FlowRecords(column(0), column(1), key, column(2), column(3))


def oracle(found):
    """Every packet by the definition, sorted."""
    packets = []
    for i in range(found.start.size):
        start, duration, n, total = (int(column[i]) for column in (found.start, found.duration, found.packets, found.bytes))
        for j in range(n):
            length = total // n + (1 if j < total % n else 0)
            flags = FIN if j == n - 1 and int(found.key[i, 3]) >> 24 == 6 else 0
            time = start + (j * duration // (n - 1) if n > 1 else 0)
            packets.append((time, i, j, max(60, length + 14), flags))
    return [(time, i, length, flags) for time, i, _, length, flags in sorted(packets)]


def packets(source, room):
    batch = make_batch(room, source.words)
    found = []
    while count := source.fill(batch):
        assert count == batch.packets[0] <= room
        rows = zip(*(column[:count].tolist() for column in (batch.time, batch.key[:, 0], batch.length, batch.flags)), strict=True)
        found += rows
    return found


flow = st.tuples(st.integers(0, 30), st.integers(0, 40), st.integers(1, 6), st.integers(0, 400), st.sampled_from([6, 17]))


@given(st.lists(flow, max_size=12), st.integers(1, 9))
def test_agrees_with_the_definition(flows, room):
    found = records(flows)
    assert packets(FlowRecordSource(found), room) == oracle(found)


def test_agrees_for_many_flows_at_once():
    """More than the heap has room for at first."""
    rng = np.random.default_rng(7)
    flows = [(int(rng.integers(10**6)), 10**12 + i, 3, 1000 + i, 6) for i in range(2500)]
    found = records(flows)
    source = FlowRecordSource(found)
    assert packets(source, 512) == oracle(found)
    described = source.describe()
    assert described["most_active"] == 2500
    assert described["packets"] == described["packets_recorded"] == 7500


def test_the_longest_times_do_not_overflow():
    found = records([(1 << 61, (1 << 62) - 1, 1 << 13, 1 << 29, 17)])
    batch = make_batch(1 << 13)
    assert FlowRecordSource(found).fill(batch) == 1 << 13
    assert int(batch.time[-1]) == (1 << 61) + (1 << 62) - 1
    assert int(batch.time[1234]) == (1 << 61) + 1234 * ((1 << 62) - 1) // ((1 << 13) - 1)


def test_files_are_played_together_each_on_its_interface(tmp_path):
    head = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n"
    (tmp_path / "a.csv").write_text(head + "1970-01-01 00:00:02.000,1.000,TCP,10.0.0.1,1,10.0.0.2,2,2,100,1\n")
    (tmp_path / "b.csv").write_text(head + "1970-01-01 00:00:01.500,1.000,UDP,10.0.0.3,3,10.0.0.4,4,2,100,1\n")
    source = RetimedSource(lambda: open_flow_records([tmp_path / "a.csv", tmp_path / "b.csv"]), repeat=2)
    batch = make_batch(20)
    assert source.fill(batch) == 8
    assert batch.time[:4].tolist() == [0, 500_000_000, 1_000_000_000, 1_500_000_000]
    assert (batch.key[:4, 3] & 0xFFFF).tolist() == [2, 1, 2, 1]
    assert batch.time[4] == 2_000_000_000
    assert source.describe()["of"]["format"] == "nfdump"


def test_what_cannot_be_expanded_is_refused():
    found = records([(5, 1, 1, 60, 6), (7, 1, 1, 60, 6)])
    with pytest.raises(ValueError, match="in order of their start"):
        FlowRecordSource(found._replace(start=found.start[::-1]))
    with pytest.raises(ValueError, match="without packets"):
        FlowRecordSource(found._replace(packets=found.packets - 1))
    with pytest.raises(ValueError, match="give at least one file"):
        open_flow_records([])
