import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traces.merge
from models.flow import make_batch
from traces.merge import MergedSource
from traces.pktgen import Pktgen
from traces.source import Source


class Listed(Source):
    """Packets at given times; fails after them if told to. Each packet's key says where it comes from."""

    def __init__(self, times, number=0, error=None):
        self.times, self.number, self.error = list(times), number, error

    def fill(self, batch):
        now, self.times = self.times[: batch.time.size], self.times[batch.time.size :]
        if not now and self.error:
            raise ValueError(self.error)
        batch.time[: len(now)] = now
        batch.key[: len(now)] = self.number
        batch.length[: len(now)] = 60 + self.number
        batch.flags[: len(now)] = self.number
        batch.packets[0] = len(now)
        return len(now)

    def skipped(self):
        return {"arp": self.number, f"only {self.number}": 1}


def packets(source, room):
    batch = make_batch(room)
    found = []
    while count := source.fill(batch):
        found += [(int(batch.time[i]), *map(int, batch.key[i]), int(batch.length[i]), int(batch.flags[i])) for i in range(count)]
    return found


@given(st.lists(st.lists(st.integers(0, 30), max_size=20).map(sorted), min_size=1, max_size=4), st.integers(1, 9))
def test_agrees_with_heapq(times, room):
    merged = MergedSource([Listed(t, k) for k, t in enumerate(times)])
    expected = heapq.merge(*([(t, k) for t in ts] for k, ts in enumerate(times)))
    assert packets(merged, room) == [(t, k, k, k, k, 60 + k, k) for t, k in expected]


def test_buffers_are_filled_again(monkeypatch):
    monkeypatch.setattr(traces.merge, "BUFFER", 3)
    merged = MergedSource([Listed(range(0, 40, 2), 0), Listed(range(1, 21, 2), 1)])
    assert [packet[0] for packet in packets(merged, 7)] == sorted([*range(0, 40, 2), *range(1, 21, 2)])


def test_an_error_comes_after_the_packets_before_it():
    merged = MergedSource([Listed([1, 5], error="damaged"), Listed([2, 9], 1)])
    batch = make_batch(10)
    assert merged.fill(batch) == 3
    for _ in range(2):
        with pytest.raises(ValueError, match="damaged"):
            merged.fill(batch)


def test_two_senders_alternate():
    senders = [Pktgen(flows=4, rate_pps=1e6, interface=i, start_ns=i, rng=np.random.default_rng(i)) for i in (1, 2)]
    batch = make_batch(1000)
    MergedSource(senders).fill(batch)
    assert (batch.key[:, 3] & 0xFFFF).tolist() == [1, 2] * 500


def test_skipped_adds_up_and_descriptions_are_listed():
    merged = MergedSource([Listed([], 1), Listed([], 2)])
    assert merged.skipped() == {"arp": 3, "only 1": 1, "only 2": 1}
    assert merged.describe() == {"source": "merged", "sources": [{"source": "Listed"}] * 2}


def test_nothing_or_two_families_cannot_be_merged():
    with pytest.raises(ValueError, match="nothing to merge; give at least one source"):
        MergedSource([])
    wide = Listed([])
    wide.words = 10
    with pytest.raises(ValueError, match="flow keys of 4 and 10 words cannot be merged"):
        MergedSource([Listed([]), wide])


def test_a_source_without_fill_says_so():
    with pytest.raises(TypeError, match=r"Source has no fill\(\)"):
        Source().fill(make_batch(1))
