"""Walker's alias table: a draw from any distribution over n things in constant time, with one memory access or two.

Source: A. J. Walker, ACM Trans. Math. Software 3 (1977); built by M. D. Vose's method, IEEE Trans. Software Eng. 17 (1991). All in
integers: weights are scaled to shares whose mean is 2**32, so compiled and interpreted code give the same table and the same draws,
and the probability of a thing is off by less than 1 / (n * 2**32).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.kernel import I32, I64, U32, i64, kernel

SCALE = 1 << 32
MOST = 1 << 26


class Alias(NamedTuple):
    """Thing i stays with probability threshold[i] / 2**32, else alias[i] is taken. 8 bytes a thing."""

    threshold: U32  # uint32[n]
    alias: I32  # int32[n]


@kernel
def pick(table: Alias, draw: int) -> int:
    """A thing for 64 random bits: the high half says which row, the low one whether it stays."""
    row = (((draw >> 32) & 0xFFFFFFFF) * table.alias.size) >> 32
    return row if draw & 0xFFFFFFFF < i64(table.threshold[row]) else i64(table.alias[row])


@kernel
def build(share: I64, table: Alias, stack: I64) -> None:
    """Fill the table for shares whose sum is n * 2**32; they are used up. `stack` needs n rows."""
    n = share.size
    small, large = 0, n  # rows below their full share from the front of the stack, the others from its back
    for i in range(n):
        if share[i] < SCALE:
            stack[small] = i
            small += 1
        else:
            large -= 1
            stack[large] = i
    while small > 0 and large < n:
        small -= 1
        poor, rich = stack[small], stack[large]
        table.threshold[poor] = share[poor]
        table.alias[poor] = rich
        share[rich] -= SCALE - share[poor]
        if share[rich] < SCALE:
            large += 1
            stack[small] = rich
            small += 1
    # What is left has its full share: whatever the draw says, it stays.
    for k in range(large, n):
        table.threshold[stack[k]] = 0
        table.alias[stack[k]] = stack[k]
    for k in range(small):
        table.threshold[stack[k]] = 0
        table.alias[stack[k]] = stack[k]


def make_alias(weights: npt.NDArray[np.float64]) -> Alias:
    """A table for these weights, which need no certain sum. ValueError for none, too many, and for what is no weight."""
    n = weights.size
    if not 1 <= n <= MOST:
        raise ValueError(f"a distribution needs 1 to {MOST:,} things to draw from, got {n:,}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("weights must be finite, not negative, and not all 0")
    share = np.floor(weights / weights.sum() * n * float(SCALE)).astype(np.int64)
    # The rounding is given to the heaviest, which notices it least.
    share[np.argmax(share)] += n * SCALE - int(share.sum())
    table = Alias(np.zeros(n, np.uint32), np.zeros(n, np.int32))
    build(share, table, np.zeros(n, np.int64))
    return table


def pick_many(table: Alias, draws: I64) -> I64:
    """`pick` for an array of draws."""
    rows = (((draws >> 32) & 0xFFFFFFFF) * table.alias.size) >> 32
    stays = draws & 0xFFFFFFFF < table.threshold[rows]
    return np.where(stays, rows, table.alias[rows]).astype(np.int64)
