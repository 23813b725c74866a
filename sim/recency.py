"""Order of use of the ways of a set, and a search for one of them, in whole words instead of loops over the ways.

An order word holds up to 16 ways, four bits each, the newest in the lowest bits. Using a way, filling the oldest and emptying a
way are a few shifts of one register. An empty way is kept at the old end, so the oldest way is the one to fill whether or not the
set is full. Signature words hold eight bits of each way's tag, eight ways a word; a search compares all of them at once and
leaves almost nothing to look up.

No operation here overflows, so that compiled and interpreted runs agree.
"""

import numpy as np

from models.kernel import i64, inlined

MOST_WAYS = 16

_FOURS = 0x1111111111111111
_EIGHTS = 0x0101010101010101


def _repeated(part: int, ones: int) -> int:
    """A number in every place of a word, as int64."""
    word = part * ones
    return word - (1 << 64) * (word >> 63)


_WAY_EVERYWHERE = np.array([_repeated(way, _FOURS) for way in range(16)], np.int64)
_SIGNATURE_EVERYWHERE = np.array([_repeated(part, _EIGHTS) for part in range(256)], np.int64)

_PRIME = 59
"""2 is a primitive root of it, so a power of two below 2^58 is known by its remainder."""
_WAY_OF = np.zeros(_PRIME, np.int64)
for _way in range(MOST_WAYS):
    _WAY_OF[pow(2, _way % 8 * 8 + _way // 8, _PRIME)] = _way


def fresh_order(ways: int) -> int:
    """The word of a set of so many ways that are all empty; way 0 is filled first. ValueError beyond MOST_WAYS."""
    if not 1 <= ways <= MOST_WAYS:
        raise ValueError(f"an order word holds 1 to {MOST_WAYS} ways, not {ways}")
    return _repeated(sum(way << 4 * (ways - 1 - way) for way in range(ways)), 1)


@inlined
def oldest_way(order: int, ways: int) -> int:
    """The way that was used longest ago, or an empty one."""
    return (order >> 4 * (ways - 1)) & 15


@inlined
def fill_oldest(order: int, ways: int) -> int:
    """The word after the oldest way was filled: it has become the newest."""
    oldest = (order >> 4 * (ways - 1)) & 15
    newer = order & ((i64(1) << 4 * (ways - 1)) - 1)
    return (newer << 4) | oldest


@inlined
def _newer_than(order: int, way: int) -> int:
    """Bits of the places before the one of `way`, which the word holds."""
    other = order ^ _WAY_EVERYWHERE[way]
    other |= other >> 2
    other |= other >> 1
    found = ~other & _FOURS
    below: int = (found & -found) - 1
    return below


@inlined
def use_way(order: int, way: int) -> int:
    """The word after a way was used: it has become the newest."""
    newer = _newer_than(order, way)
    upto = (newer << 4) | 15
    return (order & ~upto) | ((order & newer) << 4) | way


@inlined
def empty_way(order: int, way: int, ways: int) -> int:
    """The word after a way was emptied: it has become the oldest."""
    newer = _newer_than(order, way)
    younger = (i64(1) << 4 * (ways - 1)) - 1
    return (order & newer) | ((order >> 4) & younger & ~newer) | (i64(way) << 4 * (ways - 1))


@inlined
def signature(part: int) -> int:
    """The eight bits of a tag that a signature word holds."""
    return part & 255


@inlined
def candidates(low: int, high: int, part: int) -> int:
    """Ways whose signature is `part`, as a set for `first_way`: 0 if there are none. low: ways 0 to 7, high: 8 to 15."""
    wanted = _SIGNATURE_EVERYWHERE[part]
    low ^= wanted
    high ^= wanted
    low |= low >> 4
    high |= high >> 4
    low |= low >> 2
    high |= high >> 2
    low |= low >> 1
    high |= high >> 1
    return (~low & _EIGHTS) | ((~high & _EIGHTS) << 1)


@inlined
def first_way(found: int) -> int:
    """One of a set of ways that is not empty."""
    return i64(_WAY_OF[(found & -found) % _PRIME])


@inlined
def with_signature(word: int, way: int, part: int) -> int:
    """The signature word of a way's half, with `part` for that way."""
    place = (way & 7) * 8
    return (word & ~(i64(255) << place)) | (i64(part) << place)
