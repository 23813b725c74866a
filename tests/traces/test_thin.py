import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.flow import make_batch
from models.kernel import compiled
from traces.thin import thin, thin_batch


def numbered(packets, room=None, first=0):
    """A batch whose packet i carries its number in every field."""
    batch = make_batch(room or packets)
    batch.packets[0] = packets
    number = np.arange(first, first + packets)
    batch.time[:packets] = number
    batch.key[:packets] = number[:, None] * 4 + np.arange(4)
    batch.length[:packets] = number
    batch.flags[:packets] = number % 7
    batch.route[:packets] = number
    return batch


@given(st.integers(1, 60), st.floats(0, 1), st.integers(0, 99))
def test_kept_packets_stay_whole_and_in_order(packets, keep, seed):
    batch = numbered(packets, packets + 3)
    left = thin(batch, keep, np.random.default_rng(seed))
    draws = np.random.default_rng(seed).integers(0, 1 << 32, packets, dtype=np.uint32)
    kept = np.flatnonzero(draws < round(keep * (1 << 32)))
    assert left == batch.packets[0] == kept.size
    assert batch.time[:left].tolist() == batch.length[:left].tolist() == batch.route[:left].tolist() == kept.tolist()
    assert batch.key[:left].tolist() == [[4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3] for i in kept.tolist()]
    assert batch.flags[:left].tolist() == (kept % 7).tolist()


def test_a_draw_equal_to_the_limit_is_dropped():
    assert thin_batch(numbered(3), np.array([6, 7, 8], np.uint32), 7) == 1


def test_keeps_its_share():
    packets = 100_000 if compiled() else 5000
    kept = thin(numbered(packets), 0.7, np.random.default_rng(1))
    assert abs(kept / packets - 0.7) < 5 * (0.21 / packets) ** 0.5


@pytest.mark.parametrize(("keep", "kept"), [(0.0, 0), (1.0, 500)])
def test_none_and_all(keep, kept):
    assert thin(numbered(500), keep, np.random.default_rng(1)) == kept


def test_does_not_depend_on_the_batches():
    def kept(room):
        rng = np.random.default_rng(3)
        found = []
        for first in range(0, 300, room):
            batch = numbered(room, first=first)
            found += batch.time[: thin(batch, 0.5, rng)].tolist()
        return found

    assert kept(300) == kept(20) == kept(1)


@pytest.mark.parametrize("keep", [-0.1, 1.5, float("nan")])
def test_impossible_probability(keep):
    with pytest.raises(ValueError, match="keep_probability must be between 0 and 1, got"):
        thin(numbered(3), keep, np.random.default_rng(1))
