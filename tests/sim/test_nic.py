"""The receive ring against a plain list."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.flow import make_batch
from sim.nic import Port

steps = st.lists(
    st.one_of(
        st.tuples(st.just("receive"), st.integers(0, 60)),
        st.tuples(st.just("poll"), st.integers(0, 20)),
        st.tuples(st.just("both"), st.integers(0, 60)),
        st.tuples(st.just("chunk"), st.integers(0, 40)),
    ),
    max_size=40,
)


class ListRing:
    """A ring as a list: what does not fit is dropped."""

    def __init__(self, descriptors):
        self.room, self.waiting, self.chunk = descriptors - 1, [], []
        self.offered = self.dropped = self.taken = 0

    def receive(self, until):
        while self.chunk and self.chunk[0][0] <= until:
            self.offered += 1
            packet = self.chunk.pop(0)
            if len(self.waiting) < self.room:
                self.waiting.append(packet)
            else:
                self.dropped += 1

    def poll(self, quota):
        taken, self.waiting = self.waiting[:quota], self.waiting[quota:]
        self.taken += len(taken)
        return taken


def packets_of(batch):
    return [
        (int(batch.time[i]), batch.key[i].tolist(), int(batch.length[i]), int(batch.flags[i]), int(batch.route[i]))
        for i in range(int(batch.packets[0]))
    ]


@given(steps, st.sampled_from([2, 4, 16]))
def test_a_ring_is_a_list_with_an_end(plan, descriptors):
    port, oracle, out = Port(descriptors, 4, chunk=40), ListRing(descriptors), make_batch(20)
    now = number = 0
    for what, n in plan:
        if what == "chunk" and port.next_arrival() is None:
            chunk = port.chunk
            chunk.packets[0] = n
            chunk.time[:n] = now + 2 * np.arange(n)
            for i in range(n):
                number += 1
                chunk.key[i] = (number, number + 1, number + 2, 0xFFFFFFFF)
                chunk.length[i], chunk.flags[i], chunk.route[i] = 60 + number, number % 8, number
            port.begin_chunk()
            oracle.chunk = packets_of(chunk)
        elif what == "receive":
            now += n
            port.receive(now)
            oracle.receive(now)
        elif what == "both":
            now += n
            oracle.receive(now)
            assert port.receive_and_poll(now, out, 7) == int(out.packets[0])
            assert packets_of(out) == oracle.poll(7)
        elif what == "poll":
            assert port.poll(out, n) == int(out.packets[0])
            assert packets_of(out) == oracle.poll(n)
        assert port.queued == len(oracle.waiting)
        assert port.totals() == (oracle.offered, oracle.dropped, oracle.taken)
        assert port.next_arrival() == (oracle.chunk[0][0] if oracle.chunk else None)


def test_packets_pass_whole():
    """Every field of a packet comes out as it went in, past the end of the ring and around it."""
    port, out = Port(8, 4, chunk=5), make_batch(5)
    for turn in range(4):
        chunk = port.chunk
        chunk.packets[0] = 5
        chunk.time[:] = np.arange(5) + 100 * turn
        chunk.key[:] = np.arange(20).reshape(5, 4) + 1000 * turn
        chunk.length[:], chunk.flags[:], chunk.route[:] = np.arange(5) + 60, np.arange(5) + turn, np.arange(5) - turn
        expected = packets_of(chunk)
        port.begin_chunk()
        port.receive(100 * turn + 4)
        assert port.poll(out, 5) == 5
        assert packets_of(out) == expected


def test_a_ring_of_256_descriptors_holds_255_packets():
    port = Port(256, 4, chunk=300)
    port.chunk.packets[0] = 300
    port.receive(0)
    assert port.queued == 255
    assert port.totals() == (300, 45, 0)


@pytest.mark.parametrize("descriptors", [0, 1, 3, 100])
def test_a_ring_is_a_power_of_two(descriptors):
    with pytest.raises(ValueError, match=f"power of two of at least 2, got {descriptors}"):
        Port(descriptors, 4)
