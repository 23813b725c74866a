import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.flow import make_batch
from traces.pktgen import Pktgen
from traces.retime import RetimedSource
from traces.source import Source


class Listed(Source):
    """Packets at given times; the key is the packet's index."""

    def __init__(self, times):
        self.times, self.given = list(times), 0

    def fill(self, batch):
        now = self.times[self.given : self.given + batch.time.size]
        batch.time[: len(now)] = now
        batch.key[: len(now), 0] = np.arange(self.given, self.given + len(now))
        batch.packets[0] = len(now)
        self.given += len(now)
        return len(now)

    def skipped(self):
        return {"arp": 3}

    def describe(self):
        return {"source": "listed"}


def packets(source, room):
    batch = make_batch(room)
    found = []
    while count := source.fill(batch):
        assert count == batch.packets[0] <= room
        found += [(int(batch.time[i]), int(batch.key[i, 0])) for i in range(count)]
    assert batch.packets[0] == 0
    return found


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=20).map(sorted), st.integers(1, 7))
def test_as_captured_keeps_the_gaps(times, room):
    assert packets(RetimedSource(Listed(times)), room) == [(t - times[0], i) for i, t in enumerate(times)]


@given(st.integers(0, 40), st.sampled_from([0.001, 1.0, 3.0, 1000.0, 1488.095, 1e6]), st.integers(1, 7))
def test_evenly_whatever_the_times_were(count, rate, room):
    found = packets(RetimedSource(Listed([5] * count), rate), room)
    spacing = Fraction(10**6) / Fraction(rate)
    assert [i for _, i in found] == list(range(count))
    assert all(abs(time - math.floor(i * spacing)) <= 1 for time, i in found)
    assert found == sorted(found)


@given(st.integers(0, 20), st.integers(0, 25), st.integers(1, 7))
def test_most_ends_the_stream(count, most, room):
    source = Listed(range(count))
    assert len(packets(RetimedSource(source, most=most), room)) == min(count, most)
    assert source.given == min(count, most), "no more is read than is handed out"


def test_describes_and_counts_what_the_source_left_out():
    source = RetimedSource(Listed([1, 2, 3]), 10.0)
    packets(source, 2)
    assert source.skipped() == {"arp": 3}
    assert source.describe() == {"source": "retimed", "rate_kpps": 10.0, "packets": 3, "of": {"source": "listed"}}


def test_a_generator_can_be_retimed_too():
    make = lambda: Pktgen(flows=4, flow_length=2, rate_pps=1000.0, rng=np.random.default_rng(1))  # noqa: E731
    plain, even = make_batch(50), make_batch(50)
    make().fill(plain)
    RetimedSource(make(), 500.0).fill(even)
    assert (plain.key == even.key).all()
    assert list(even.time) == [2000 * i for i in range(50)]


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(ValueError, match="more than 0 thousand packets per second"):
        RetimedSource(Listed([1]), rate)


def test_a_rate_without_end_is_refused():
    assert packets(RetimedSource(Listed([1]), 1e-300), 4) == [(0, 0)]
    with pytest.raises(ValueError, match="not arrive within 146 years; give a higher rate"):
        packets(RetimedSource(Listed([1, 2]), 1e-300), 4)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        RetimedSource(Listed([1]), most=-1)
