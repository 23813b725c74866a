"""Bits of keys of several 32-bit words. Bit 0 is the most significant bit of word 0, as in net/ipv4/fib_trie.c, 2.6.20.

Keys are rows of two-dimensional uint32 arrays: (array, row) names a key, and a row may be longer than its key.
"""

from models.kernel import U32, i64, kernel

WORD = 0xFFFFFFFF


@kernel
def extract(key: U32, row: int, pos: int, bits: int) -> int:
    """The `bits` bits of a key from bit `pos` on, as a number. 1 <= bits <= 32, and they end inside the key."""
    word = pos >> 5
    end = (pos & 31) + bits
    mask = (1 << bits) - 1
    if end <= 32:
        return (i64(key[row, word]) >> (32 - end)) & mask
    spill = end - 32
    return ((i64(key[row, word]) << spill) | (i64(key[row, word + 1]) >> (32 - spill))) & mask


@kernel
def mismatch(a: U32, row_a: int, b: U32, row_b: int, start: int, end: int) -> int:
    """The first bit in [start, end) in which two keys differ; `end` if they agree there."""
    pos = start
    while pos < end:
        word = pos >> 5
        differ = (i64(a[row_a, word]) ^ i64(b[row_b, word])) & (WORD >> (pos & 31))
        if differ != 0:
            first = (word << 5) + 31
            while differ > 1:
                differ >>= 1
                first -= 1
            return min(first, end)
        pos = (word + 1) << 5
    return end


@kernel
def copy_prefix(to: U32, row_to: int, key: U32, row: int, bits: int, words: int) -> None:
    """Copy the first `bits` bits of a key of `words` words; the rest of the copy is zero."""
    for word in range(words):
        drop = 32 - min(max(bits - (word << 5), 0), 32)
        to[row_to, word] = (i64(key[row, word]) >> drop) << drop


@kernel
def set_bit(key: U32, row: int, pos: int) -> None:
    """Set one bit of a key."""
    key[row, pos >> 5] = i64(key[row, pos >> 5]) | (1 << (31 - (pos & 31)))
