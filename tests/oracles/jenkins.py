"""Jenkins' lookup2 and lookup3 over byte strings, written from the published algorithms in the plainest way.

lookup2: Dr. Dobb's Journal, September 1997 ("Hash Functions", Bob Jenkins). lookup3: burtleburtle.net, May 2006.
"""

WORD = 1 << 32


def _rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (32 - bits))) % WORD


def _little_endian(data: bytes) -> int:
    return int.from_bytes(data, "little")


def lookup2(data: bytes, initval: int) -> int:
    """lookup2's hash() of a byte string."""

    def mix(a, b, c):
        for right, left, right2 in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
            a = ((a - b - c) % WORD) ^ (c >> right)
            b = ((b - c - a) % WORD) ^ ((a << left) % WORD)
            c = ((c - a - b) % WORD) ^ (b >> right2)
        return a, b, c

    a = b = 0x9E3779B9
    c = initval
    size = len(data)
    while len(data) >= 12:
        a = (a + _little_endian(data[0:4])) % WORD
        b = (b + _little_endian(data[4:8])) % WORD
        c = (c + _little_endian(data[8:12])) % WORD
        a, b, c = mix(a, b, c)
        data = data[12:]
    # The lowest byte of c is kept for the length.
    a = (a + _little_endian(data[0:4])) % WORD
    b = (b + _little_endian(data[4:8])) % WORD
    c = (c + size + (_little_endian(data[8:11]) << 8)) % WORD
    return mix(a, b, c)[2]


def lookup3(data: bytes, initval: int) -> int:
    """hashlittle() of a byte string."""
    a = b = c = (0xDEADBEEF + len(data) + initval) % WORD
    while len(data) > 12:
        a, b, c = ((x + _little_endian(data[i : i + 4])) % WORD for x, i in ((a, 0), (b, 4), (c, 8)))
        a = ((a - c) % WORD) ^ _rotate(c, 4)
        c = (c + b) % WORD
        b = ((b - a) % WORD) ^ _rotate(a, 6)
        a = (a + c) % WORD
        c = ((c - b) % WORD) ^ _rotate(b, 8)
        b = (b + a) % WORD
        a = ((a - c) % WORD) ^ _rotate(c, 16)
        c = (c + b) % WORD
        b = ((b - a) % WORD) ^ _rotate(a, 19)
        a = (a + c) % WORD
        c = ((c - b) % WORD) ^ _rotate(b, 4)
        b = (b + a) % WORD
        data = data[12:]
    if not data:
        return c
    a, b, c = ((x + _little_endian(data[i : i + 4])) % WORD for x, i in ((a, 0), (b, 4), (c, 8)))
    c = ((c ^ b) - _rotate(b, 14)) % WORD
    a = ((a ^ c) - _rotate(c, 11)) % WORD
    b = ((b ^ a) - _rotate(a, 25)) % WORD
    c = ((c ^ b) - _rotate(b, 16)) % WORD
    a = ((a ^ c) - _rotate(c, 4)) % WORD
    b = ((b ^ a) - _rotate(a, 14)) % WORD
    return ((c ^ b) - _rotate(b, 24)) % WORD
