"""Looking at unicache from outside: every invariant. Nothing here is simulated."""

import numpy as np

from models.kernel import NIL
from models.lc_trie import LcTrie, find
from models.lc_trie.nodes import LEAVES
from models.rcu import Rcu
from models.slab import SlabCache, object_address
from models.unicache.key import header_of
from models.unicache.state import (
    DESTROYED,
    ENTRIES,
    ENTRY,
    FLUSHED,
    GC_ACTIVE,
    GC_PASSIVE,
    GC_TIMER,
    HEADER,
    IN_SLOW_TOT,
    LEAVING,
    PHASE,
    REMOVED,
    START,
    TRIE_WORDS,
    UnicacheState,
)


def check(u: UnicacheState, trie: LcTrie, slab: SlabCache, rcu: Rcu) -> None:
    """Assert every invariant of the leaves, the entries and the queue of delayed frees. Slow. Not in the middle of a packet."""
    trie.check()
    slab.check()
    var, stat, leaf = u.var, u.stat, trie.state.leaf
    assert var[PHASE] == START, "an insertion is unfinished"
    assert var[LEAVING] == NIL, "a removal is unfinished"
    linked = np.flatnonzero(leaf[:, ENTRY]).tolist()
    assert len(linked) == trie.state.var[LEAVES], f"{len(linked)} leaves hold an entry, {trie.state.var[LEAVES]} are in the trie"
    for row in linked:
        assert find(trie.state, leaf, row) == row, f"leaf {row} is not found by its key"
        header = header_of(u, leaf[:, 1:TRIE_WORDS], row)
        assert leaf[row, HEADER] == header, f"leaf {row} has header {leaf[row, HEADER]:#x}, its key gives {header:#x}"
        address = int(object_address(slab.state, int(u.entry_of[row])))
        assert int(leaf[row, ENTRY]) << 8 == address, f"leaf {row} and its entry disagree"
    waiting: list[int] = []
    state = rcu.state
    for cpu in range(state.id.shape[0]):
        at = (int(state.var[cpu, 0]) + np.arange(state.var[cpu, 1])) & (state.id.shape[1] - 1)
        waiting += state.id[cpu, at].tolist()
    used = linked + waiting
    assert len(set(used)) == len(used), "a leaf is in two places"
    assert len({int(u.entry_of[row]) for row in used}) == len(used), "an entry is in two places"
    assert len(used) == var[ENTRIES] == slab.live() == trie.leaves.live(), (
        f"{var[ENTRIES]} entries in use, {slab.live()} entry and {trie.leaves.live()} leaf objects live, {len(used)} found"
    )
    gone = int(stat[GC_PASSIVE] + stat[GC_TIMER] + stat[GC_ACTIVE] + stat[REMOVED] + stat[FLUSHED])
    assert gone - stat[DESTROYED] == len(waiting), f"{gone} taken out, {stat[DESTROYED]} destroyed, {len(waiting)} waiting"
    assert stat[DESTROYED] + var[ENTRIES] >= stat[IN_SLOW_TOT], "fewer entries than insertions account for"
