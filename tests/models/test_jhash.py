import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracles.jenkins import lookup2, lookup3

from models import jhash

WORD = st.integers(0, (1 << 32) - 1)


def test_oracle_gives_the_values_published_with_lookup3():
    """lookup3.c, May 2006, driver5()."""
    assert lookup3(b"", 0) == 0xDEADBEEF
    assert lookup3(b"", 0xDEADBEEF) == 0xBD5B7DDE
    assert lookup3(b"Four score and seven years ago", 0) == 0x17770551
    assert lookup3(b"Four score and seven years ago", 1) == 0xCD628161


@given(WORD, WORD, WORD)
def test_jhash_2words_is_lookup2_of_eight_bytes(a, b, initval):
    """The kernel leaves out the length, which lookup2 adds to the same word."""
    data = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    assert jhash.jhash_2words(a, b, (initval + 8) & 0xFFFFFFFF) == lookup2(data, initval)


@given(WORD, WORD, st.integers(0, (1 << 24) - 1), st.integers(0, 255))
def test_jhash_3words_is_lookup2_of_eleven_bytes(a, b, c, initval):
    """Bytes 8 to 10 lie in the upper three of word c, the length in the lowest."""
    data = a.to_bytes(4, "little") + b.to_bytes(4, "little") + c.to_bytes(3, "little")
    assert jhash.jhash_3words(a, b, c << 8, initval + 11) == lookup2(data, initval)


@given(WORD, WORD, WORD, WORD)
def test_jhash_3words_lookup3_is_lookup3_of_twelve_bytes(a, b, c, initval):
    data = b"".join(word.to_bytes(4, "little") for word in (a, b, c))
    assert jhash.jhash_3words_lookup3(a, b, c, initval) == lookup3(data, initval)


@given(st.lists(WORD, max_size=10), WORD)
def test_jhash2_lookup3_is_lookup3_of_the_same_bytes(words, initval):
    key = np.array([[0] * 10, words + [99] * (10 - len(words))], np.uint32)
    data = b"".join(word.to_bytes(4, "little") for word in words)
    assert jhash.jhash2_lookup3(key, 1, len(words), initval) == lookup3(data, initval)
