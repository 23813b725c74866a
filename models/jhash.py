"""Bob Jenkins' hash functions as Linux uses them.

lookup2 (1996) served the kernel up to 2.6.36, lookup3 (2006) after it. Published test values hold them in the tests.
Arithmetic is in int64 with explicit masks, because compiled and interpreted unsigned arithmetic disagree.
"""

from models.kernel import U32, i64, kernel

GOLDEN_RATIO = 0x9E3779B9
LOOKUP3_INIT = 0xDEADBEEF
M = 0xFFFFFFFF


@kernel
def mix_c(a: int, b: int, c: int) -> int:
    """Word c after lookup2's mix of three 32-bit words (nine steps of subtract, subtract, xor-shift)."""
    a = ((a - b - c) & M) ^ (c >> 13)
    b = ((b - c - a) & M) ^ ((a << 8) & M)
    c = ((c - a - b) & M) ^ (b >> 13)
    a = ((a - b - c) & M) ^ (c >> 12)
    b = ((b - c - a) & M) ^ ((a << 16) & M)
    c = ((c - a - b) & M) ^ (b >> 5)
    a = ((a - b - c) & M) ^ (c >> 3)
    b = ((b - c - a) & M) ^ ((a << 10) & M)
    return ((c - a - b) & M) ^ (b >> 15)


@kernel
def jhash_3words(a: int, b: int, c: int, initval: int) -> int:
    """lookup2 of three 32-bit words: jhash_3words of 2.6.20."""
    return mix_c((a + GOLDEN_RATIO) & M, (b + GOLDEN_RATIO) & M, (c + initval) & M)


@kernel
def jhash_2words(a: int, b: int, initval: int) -> int:
    """lookup2 of two 32-bit words: jhash_2words of 2.6.20."""
    return jhash_3words(a, b, 0, initval)


@kernel
def rol32(x: int, bits: int) -> int:
    """A 32-bit word rotated to the left by 1 .. 31 bits."""
    return ((x << bits) & M) | (x >> (32 - bits))


@kernel
def final_c(a: int, b: int, c: int) -> int:
    """Word c after lookup3's final mix of three 32-bit words."""
    c = ((c ^ b) - rol32(b, 14)) & M
    a = ((a ^ c) - rol32(c, 11)) & M
    b = ((b ^ a) - rol32(a, 25)) & M
    c = ((c ^ b) - rol32(b, 16)) & M
    a = ((a ^ c) - rol32(c, 4)) & M
    b = ((b ^ a) - rol32(a, 14)) & M
    return ((c ^ b) - rol32(b, 24)) & M


@kernel
def jhash_3words_lookup3(a: int, b: int, c: int, initval: int) -> int:
    """lookup3 of three 32-bit words: its hashword(), and hashlittle() of the same 12 bytes."""
    start = LOOKUP3_INIT + 12 + initval
    return final_c((a + start) & M, (b + start) & M, (c + start) & M)


@kernel
def jhash2_lookup3(key: U32, i: int, words: int, initval: int) -> int:
    """lookup3 of the first `words` words of row i of uint32[n, W]: its hashword(), from 2.6.37 the kernel's jhash2."""
    a = b = c = (LOOKUP3_INIT + 4 * words + initval) & M
    at = 0
    while words - at > 3:
        a = (a + i64(key[i, at])) & M
        b = (b + i64(key[i, at + 1])) & M
        c = (c + i64(key[i, at + 2])) & M
        a = ((a - c) & M) ^ rol32(c, 4)
        c = (c + b) & M
        b = ((b - a) & M) ^ rol32(a, 6)
        a = (a + c) & M
        c = ((c - b) & M) ^ rol32(b, 8)
        b = (b + a) & M
        a = ((a - c) & M) ^ rol32(c, 16)
        c = (c + b) & M
        b = ((b - a) & M) ^ rol32(a, 19)
        a = (a + c) & M
        c = ((c - b) & M) ^ rol32(b, 4)
        b = (b + a) & M
        at += 3
    if words == 0:
        return c
    a = (a + i64(key[i, at])) & M
    if words - at > 1:
        b = (b + i64(key[i, at + 1])) & M
    if words - at > 2:
        c = (c + i64(key[i, at + 2])) & M
    return final_c(a, b, c)
