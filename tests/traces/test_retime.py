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
    assert source.describe() == {
        "source": "retimed",
        "rate_kpps": 10.0,
        "packets": 3,
        "repeat": 1,
        "passes": 1,
        "of": {"source": "listed"},
    }


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
    with pytest.raises(ValueError, match="packets per second, got 1e-297"):
        RetimedSource(Listed([1]), 1e-300)
    assert len(packets(RetimedSource(Listed([1] * 4612), 1e-9), 5000)) == 4612
    with pytest.raises(ValueError, match="at 1e-09 kpps the packets would not arrive within 146 years; give a higher rate"):
        packets(RetimedSource(Listed([1] * 4613), 1e-9), 5000)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        RetimedSource(Listed([1]), most=-1)


def test_an_even_clock_does_not_drift():
    rate = 1488.095238
    source = RetimedSource(Listed([7] * 100_000), rate)
    last = packets(source, 4096)[-1][0]
    assert last == 99_999 * 10**15 // round(rate * 1e9)


@given(
    st.lists(st.integers(0, 10**10), min_size=1, max_size=20),
    st.sampled_from([0.25, 1.0, 3.0, 7.3, 99999.0]),
    st.sampled_from([None, 0.0, 0.5, 2.0]),
    st.integers(1, 3),
    st.integers(1, 7),
)
def test_gaps_against_fractions(times, speed, longest_s, repeat, room):
    """Gaps that go back are none, long ones are shortened, all are divided; passes follow a mean gap apart."""
    clock, rest, cut, back, shortened = 0, Fraction(0), 0, 0, 0
    expected = []
    for _ in range(repeat):
        first, latest = clock, times[0]
        for i, time in enumerate(times):
            gap = time - latest
            back += gap < 0
            gap, latest = max(0, gap), max(latest, time)
            if longest_s is not None and gap > longest_s * 1e9:
                shortened, cut, gap = shortened + 1, cut + gap - int(longest_s * 1e9), int(longest_s * 1e9)
            rest += gap / Fraction(round(speed * 10**6), 10**6)
            clock, rest = clock + math.floor(rest), rest % 1
            expected.append((clock, i))
        clock += (clock - first) // (len(times) - 1) if len(times) > 1 else 1_000_000
    source = RetimedSource(lambda: Listed(times), speed=speed, longest_gap_s=longest_s, repeat=repeat)
    assert packets(source, room) == expected
    described = source.describe()
    assert (described["times_clamped"], described["gaps_shortened"]) == (back, shortened)
    assert described["gap_time_cut_s"] == cut / 1e9
    assert described["passes"] == repeat
    assert source.skipped() == {"arp": 3 * repeat}


def test_an_even_rate_goes_on_over_the_repeats():
    source = RetimedSource(lambda: Listed([1, 2, 3]), 1000.0, 8, repeat=5)
    assert packets(source, 4) == [(1000 * i, i % 3) for i in range(8)]


def test_nothing_repeated_is_nothing():
    assert packets(RetimedSource(lambda: Listed([]), repeat=1000), 4) == []


def test_damage_comes_after_the_packets_before_it():
    class Damaged(Listed):
        def fill(self, batch):
            if self.given == len(self.times):
                raise ValueError("damaged")
            return super().fill(batch)

    source = RetimedSource(Damaged([5, 6]))
    batch = make_batch(10)
    assert source.fill(batch) == 2
    with pytest.raises(ValueError, match="damaged"):
        source.fill(batch)


def test_a_speed_without_end_is_refused():
    with pytest.raises(ValueError, match="at 1e-06 times the speed of the trace the packets would not arrive within 146 years"):
        packets(RetimedSource(Listed([0, 1 << 43]), speed=1e-6), 4)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"speed": 0.0}, "speed must be from 1e-06 to 100000 times"),
        ({"speed": math.nan}, "speed must be"),
        ({"longest_gap_s": -1.0}, "longest gap must be from 0"),
        ({"rate_kpps": 1.0, "speed": 2.0}, "no gaps of its own"),
        ({"repeat": 0}, "at least once, got repeat=0"),
        ({"repeat": 2}, "cannot be repeated; give a function that opens it afresh"),
    ],
)
def test_what_cannot_work_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        RetimedSource(Listed([1]), **settings)
