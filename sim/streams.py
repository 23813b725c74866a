"""Random streams: each component of a run draws from its own, so that no component changes what another draws."""

import hashlib

import numpy as np


def stream(seed: int, *key: str) -> np.random.Generator:
    """The random stream of one component. The key is hashed, so that streams of different keys are independent."""
    digest = hashlib.sha256("/".join(key).encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(words)))
