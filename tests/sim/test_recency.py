"""Order and signature words against lists: slow, obvious, and no code shared."""

import numpy as np
import pytest

from models.kernel import I64, NIL, i64, kernel
from sim.recency import MOST_WAYS, candidates, empty_way, fill_oldest, first_way, fresh_order, oldest_way, use_way, with_signature

FILL, USE, EMPTY = range(3)


@kernel
def step(what: int, order: int, way: int, ways: int) -> int:
    if what == FILL:
        return fill_oldest(order, ways)
    if what == USE:
        return use_way(order, way)
    return empty_way(order, way, ways)


@kernel
def oldest(order: int, ways: int) -> int:
    return oldest_way(order, ways)


@kernel
def sign(word: I64, way: int, part: int) -> None:
    word[way >> 3] = with_signature(i64(word[way >> 3]), way, part)


@kernel
def search(word: I64, part: int, found: I64) -> int:
    left = candidates(i64(word[0]), i64(word[1]), part)
    n = 0
    while left != 0:
        found[n] = first_way(left)
        left &= left - 1
        n += 1
    return n


def ways_in(order: int, ways: int) -> list[int]:
    return [int(order) >> 4 * place & 15 for place in range(ways)]


@pytest.mark.parametrize("ways", range(1, MOST_WAYS + 1))
def test_order_word_is_a_list_of_ways_from_newest_to_oldest(ways):
    rng = np.random.default_rng(ways)
    order, newest_first = np.int64(fresh_order(ways)), list(range(ways))[::-1]
    for _ in range(200):
        assert ways_in(order, ways) == newest_first
        assert oldest(order, ways) == newest_first[-1]
        what, way = int(rng.integers(3)), int(rng.integers(ways))
        order = np.int64(step(what, order, way, ways))
        if what == FILL:
            way = newest_first[-1]
        newest_first.remove(way)
        newest_first.insert(len(newest_first) if what == EMPTY else 0, way)


def test_an_order_word_holds_sixteen_ways_and_no_more():
    with pytest.raises(ValueError, match="1 to 16 ways, not 17"):
        fresh_order(17)
    with pytest.raises(ValueError, match="not 0"):
        fresh_order(0)


def test_a_search_finds_every_way_with_the_signature_and_no_other():
    rng = np.random.default_rng(3)
    word, parts, found = np.zeros(2, np.int64), [0] * MOST_WAYS, np.full(MOST_WAYS, NIL)
    for _ in range(400):
        way, part = int(rng.integers(MOST_WAYS)), int(rng.choice([0, 1, 127, 128, 129, 254, 255]))
        sign(word, way, part)
        parts[way] = part
        for wanted in (0, 1, 2, 127, 128, 129, 255):
            n = search(word, wanted, found)
            assert sorted(found[:n].tolist()) == [w for w in range(MOST_WAYS) if parts[w] == wanted]
