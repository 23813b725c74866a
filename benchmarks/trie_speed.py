"""How fast the host works the LC-trie: insertions, finds and removals a second on uniform 32-bit keys, nothing recorded.

    python benchmarks/trie_speed.py [LEAVES]...

Asserts what it times: every key is found, the trie has the shape known for uniform keys, and is empty at the end.
"""

import argparse
import time

import numpy as np

from models.access import AccessLog, make_log
from models.interface import NEED_NOTHING, NEED_POOL
from models.kernel import NIL, U32, kernel
from models.lc_trie import LEAVES, TNODES, LcTrie, TrieState, find, insert, remove
from models.simulated_memory import SimulatedMemory


@kernel
def insert_all(trie: TrieState, log: AccessLog, first: int, leaves: int) -> tuple[int, int]:
    """Insert leaf ids `first` and on, whose rows hold their keys; stops where a pool is full."""
    for leaf in range(first, leaves):
        need = insert(trie, log, 0, leaf)
        if need != NEED_NOTHING:
            return leaf, need
    return leaves, NEED_NOTHING


@kernel
def find_all(trie: TrieState, keys: U32) -> int:
    """How many of the keys are in the trie."""
    found = 0
    for row in range(keys.shape[0]):
        found += find(trie, keys, row) != NIL
    return found


@kernel
def remove_all(trie: TrieState, log: AccessLog, first: int, leaves: int) -> tuple[int, int]:
    """Remove leaf ids `first` and on; stops where a pool is full."""
    for leaf in range(first, leaves):
        need = remove(trie, log, 0, leaf)
        if need != NEED_NOTHING:
            return leaf, need
    return leaves, NEED_NOTHING


def run(leaves: int) -> None:
    """Time one size and print it."""
    trie = LcTrie(SimulatedMemory(), 1, name="timed", room=1 << 16)
    while trie.leaves.room() < leaves:
        trie.leaves.grow()
    trie.grow()
    rng = np.random.default_rng(1)
    keys = np.unique(rng.integers(0, 1 << 32, leaves + leaves // 8 + 64, dtype=np.uint32))
    rng.shuffle(keys)
    keys = keys[:leaves].reshape(-1, 1)
    trie.state.leaf[:leaves, :1] = keys
    log = make_log(1 << 12, 1, on=False)
    shape = ""
    for name, work in (("insert", insert_all), ("find", None), ("remove", remove_all)):
        begun = time.perf_counter()
        if work is None:
            probes = rng.permutation(keys)
            begun = time.perf_counter()
            assert find_all(trie.state, probes) == leaves, "a key was not found"
        else:
            at, need = work(trie.state, log, 0, leaves)
            while need == NEED_POOL:
                trie.grow()
                at, need = work(trie.state, log, at, leaves)
            assert need == NEED_NOTHING
        seconds = time.perf_counter() - begun
        if name == "insert":
            stat = trie.triestat()
            assert stat["Leaves"] == leaves == trie.state.var[LEAVES]
            assert leaves < 1000 or 1.0 <= float(stat["Aver depth"]) < 2.2  # type: ignore[arg-type]
            shape = f"root {trie.root_bits()} bits, mean depth {stat['Aver depth']:.2f}, {trie.state.var[TNODES]} tnodes"
        print(f"  {name:7}{leaves / seconds / 1e6:7.2f} million/s   {1e9 * seconds / leaves:7.0f} ns each")
    assert trie.state.var[LEAVES] == trie.state.var[TNODES] == 0
    print(f"  {leaves} leaves: {shape}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("leaves", type=int, nargs="*", default=[1000, 131_072, 260_000, 1_000_000])
    given = parser.parse_args()
    run(1000)  # compiles
    for leaves in given.leaves:
        run(leaves)


if __name__ == "__main__":
    main()
