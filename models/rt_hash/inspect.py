"""Looking at a routing cache from outside: chain statistics and every invariant. Nothing here is simulated."""

import numpy as np

from models.kernel import I64, NIL, i64, kernel
from models.rcu import Rcu
from models.rt_hash.lookup import rt_hash_code
from models.rt_hash.state import (
    ALLOCATED,
    DEPTH,
    DEPTHS,
    DESTROYED,
    DST,
    DUPLICATES,
    ELASTICITY,
    ENTRIES,
    EVICTED,
    EXPIRE,
    FLUSH_AT,
    FLUSHED,
    GC_REMOVED,
    GC_TIMEOUT,
    IIF_TOS,
    LINKED,
    MASK,
    NEXT,
    PLACE,
    REMOVED,
    SRC,
    WAITING,
    RtTable,
)
from models.rt_hash.state import CHECK_REMOVED as CHECKED
from models.rt_hash.state import COUNTERS as NAMES
from models.slab import SlabCache

LENGTHS = 64
"""Chain lengths told apart by chain_lengths; far above the chain bound."""


@kernel
def chain_lengths(table: RtTable, count: I64) -> None:
    """Add to count[n] the chains of n entries; walks that do not end are cut at count.size - 1."""
    for slot in range(table.bucket.size):
        entry = i64(table.bucket[slot])
        length = 0
        while entry != NIL and length < count.size - 1:
            length += 1
            entry = i64(table.row[entry, NEXT])
        count[length] += 1


def metrics(table: RtTable) -> dict[str, float]:
    """Chain lengths, hit depth and the collection's state at this moment."""
    count = np.zeros(LENGTHS, np.int64)
    chain_lengths(table, count)
    linked = int((count * np.arange(LENGTHS)).sum())
    depths = table.stat[DEPTH : DEPTH + DEPTHS]
    hits = int(depths.sum())
    searched, missed = (int(table.stat[NAMES.index(name)]) for name in ("in_hlist_search", "in_hlist_miss"))
    return {
        "linked": float(linked),
        "chain_mean": linked / table.bucket.size,
        "chain_max": float(np.flatnonzero(count).max()),
        "buckets_used": float(table.bucket.size - count[0]),
        "hit_steps": (searched - missed) / hits + 1 if hits else 0.0,
        "entries_in_use": float(table.var[ENTRIES]),
    }


def check(table: RtTable, slab: SlabCache, rcu: Rcu) -> None:
    """Assert every invariant of the table, its slab cache and the queue of delayed frees. Slow."""
    slab.check()
    var, stat, row = table.var, table.stat, table.row
    assert row.shape[0] == slab.room(), f"{row.shape[0]} rows for {slab.room()} objects"
    linked: list[int] = []
    for slot in range(table.bucket.size):
        entry, length = int(table.bucket[slot]), 0
        while entry != NIL:
            length += 1
            assert length <= var[ELASTICITY] + 1, f"chain {slot} is longer than {var[ELASTICITY] + 1} or loops"
            assert row[entry, PLACE] == LINKED, f"entry {entry} on chain {slot} is in place {row[entry, PLACE]}"
            if slot > var[FLUSH_AT]:  # a flush that is under way has not yet been at the buckets below
                right = rt_hash_code(table, int(row[entry, SRC]), int(row[entry, DST]), int(row[entry, IIF_TOS]))
                assert right == slot, f"entry {entry} is on chain {slot}, not {right}"
            linked.append(entry)
            entry = int(row[entry, NEXT])
    if var[FLUSH_AT] < 0:
        keys = {tuple(row[entry, [SRC, DST, IIF_TOS]].tolist()) for entry in linked}
        assert len(keys) == len(linked), "two entries have the same key"
    state = rcu.state
    waiting: list[int] = []
    for cpu in range(state.id.shape[0]):
        at = (int(state.var[cpu, 0]) + np.arange(state.var[cpu, 1])) & (state.id.shape[1] - 1)
        waiting += state.id[cpu, at].tolist()
    for entry in waiting:
        assert row[entry, PLACE] == WAITING, f"entry {entry} waits to be freed and is in place {row[entry, PLACE]}"
    used = linked + waiting
    assert len(set(used)) == len(used), "an entry is in two places"
    assert len(used) == var[ENTRIES], f"{var[ENTRIES]} entries in use, but {len(linked)} linked and {len(waiting)} waiting"
    assert int((row[:, PLACE] != 0).sum()) == len(used), "a row is marked used and is nowhere"
    assert slab.live() == var[ENTRIES], f"{slab.live()} objects live for {var[ENTRIES]} entries"
    assert stat[ALLOCATED] - stat[DESTROYED] == var[ENTRIES], "allocated less destroyed is not what is in use"
    gone = stat[EVICTED] + stat[GC_REMOVED] + stat[CHECKED] + stat[FLUSHED] + stat[REMOVED] + stat[DUPLICATES]
    assert gone - stat[DESTROYED] == len(waiting), f"{gone} unlinked, {stat[DESTROYED]} destroyed, {len(waiting)} waiting"
    assert 0 <= var[EXPIRE] <= var[GC_TIMEOUT], f"expire is {var[EXPIRE]} jiffies"
    assert var[MASK] == table.bucket.size - 1
