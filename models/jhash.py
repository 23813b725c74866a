"""Bob Jenkins' hash functions as Linux uses them.

lookup2 (1996) served the kernel up to 2.6.36, lookup3 (2006) after it. Published test values hold them in the tests.
Arithmetic is in int64 with explicit masks, because compiled and interpreted unsigned arithmetic disagree.
"""

from models.kernel import kernel

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
