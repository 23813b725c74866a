"""Where in a generated table prefixes lie that lie in no other."""

import numpy as np
import numpy.typing as npt

from models.kernel import I64
from traces.routes.shape_2008 import OUTER_BY_OCTET
from traces.routes.shape_ipv6 import BITS_LAID, BLOCK, BLOCKS

F64 = npt.NDArray[np.float64]

BLOCK_SPREAD = 3.0
"""Standard deviation of the logarithm of a /16's share of its octet: chosen so that about as many /16 are in use as in 2008."""
MOST_SHARE = 10
"""No /16 has more than so many times its mean share: a /16 has room for 256 /24."""


class Outer:
    """Equal blocks of addresses, with shares by how long a prefix is to be laid there. A block that is covered is out."""

    def __init__(self, bits: int, block: int, number: I64, shares: dict[int, tuple[F64, F64]]) -> None:
        """`block`: length of the prefix that a block is; `number`: those in use; `shares` of each, even and
        unequal ones, by the longest prefix they hold for."""
        self.bits, self.block, self.number, self.shares = bits, block, number, shares

    def cover(self, prefix: I64, plen: int) -> None:
        """Take away the blocks that these prefixes, in order, cover."""
        if plen <= self.block:
            begin = prefix >> (self.bits - self.block)
            at = np.searchsorted(begin, self.number, side="right") - 1
            kept = (at < 0) | (self.number >= begin[at] + (1 << (self.block - plen)))
            self.number = self.number[kept]
            self.shares = {longest: (even[kept], share[kept]) for longest, (even, share) in self.shares.items()}

    def draw(self, rng: np.random.Generator, plen: int, n: int, unequal: bool) -> I64:
        """Places for n prefixes, by shares or evenly."""
        even, share = next(pair for longest, pair in self.shares.items() if plen <= longest)
        shared = np.cumsum(share if unequal else even)
        chosen = np.searchsorted(shared, rng.random(n) * shared[-1], side="right").clip(max=shared.size - 1)
        address: I64 = (self.number[chosen] << (self.bits - self.block)) + rng.integers(0, 1 << (self.bits - self.block), n)
        address >>= self.bits - plen
        return address << (self.bits - plen)


def outer_4(rng: np.random.Generator) -> Outer:
    """The /16s of IPv4: those of an octet have together what the octet had in 2008, among them shares are very unequal.

    Except for short prefixes, which would cover the places where the long ones are to lie.
    """
    octets = 224
    block = np.minimum(rng.lognormal(0, BLOCK_SPREAD, (octets, 256)), MOST_SHARE * np.exp(BLOCK_SPREAD**2 / 2))
    block /= block.sum(axis=1, keepdims=True)
    shares = {}
    for longest, counts in OUTER_BY_OCTET.items():
        even = np.repeat(np.array(counts) / 256, 256)
        shares[longest] = even, even if longest <= 16 else even * block.ravel()
    return Outer(32, 16, np.arange(octets * 256), shares)


def outer_6() -> Outer:
    """The /23s of IPv6 that registries hand out from."""
    share = np.array(list(BLOCKS.values()))
    return Outer(BITS_LAID, BLOCK, np.array(list(BLOCKS)), {BITS_LAID: (share, share)})
