"""Thinning: the tail drop of an overloaded card, for runs in which no clock decides what finds the ring full.

A ring that overflows loses packets at no cost to the CPU and without regard to their flow, so a stream of which a known share gets
through is the offered stream with each packet kept with that probability, independently. What is left out: real
loss comes in runs (the ring stays full during a long collection).
"""

import numpy as np

from models.flow import PacketBatch
from models.kernel import U32, i64, kernel

SCALE = 1 << 32
"""Draws are uniform in [0, SCALE)."""


@kernel
def thin_batch(batch: PacketBatch, draws: U32, limit: int) -> int:
    """Keep packet i where draws[i] < limit, moved up in place; returns the packets kept. Needs one draw per packet."""
    kept = 0
    for i in range(batch.packets[0]):
        if i64(draws[i]) < limit:
            if kept != i:
                batch.time[kept] = batch.time[i]
                for word in range(batch.key.shape[1]):
                    batch.key[kept, word] = batch.key[i, word]
                batch.length[kept] = batch.length[i]
                batch.flags[kept] = batch.flags[i]
                batch.route[kept] = batch.route[i]
            kept += 1
    batch.packets[0] = kept
    return kept


def thin(batch: PacketBatch, keep_probability: float, rng: np.random.Generator) -> int:
    """Drop each packet of the batch with probability 1 - keep_probability, in place; returns how many are left.

    Takes one draw per packet, so the result does not depend on how the stream is cut into batches.
    """
    if not 0.0 <= keep_probability <= 1.0:
        raise ValueError(f"keep_probability must be between 0 and 1, got {keep_probability}")
    draws = rng.integers(0, SCALE, int(batch.packets[0]), dtype=np.uint32)
    return int(thin_batch(batch, draws, round(keep_probability * SCALE)))
