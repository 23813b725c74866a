"""How a flow leaves: out of the trie now, leaf and route entry destroyed after their grace period.

One place in the RCU queue stands for both callbacks, the leaf's and the entry's. An entry that waits still counts as in use.
Source: net/ipv4/fib_trie.c (trie_leaf_remove, free_leaf), net/core/dst.c (dst_destroy), net/ipv4/route.c (ipv4_dst_destroy);
2.6.20.
"""

from collections.abc import Iterator

from models.access import READ, WRITE, AccessLog, call, room, touch
from models.functions import number
from models.interface import NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import I64, i64, kernel
from models.lc_trie.nodes import TrieState, leaf_address
from models.lc_trie.update import remove
from models.rcu import RcuState, call_rcu, rcu_next, rcu_room, ready_before
from models.slab import SLAB_RECORDS, SlabState, object_address, slab_free
from models.unicache.state import (
    AT_NEIGHBOUR,
    AT_PEER,
    AT_RCU,
    AT_REFCNT,
    CALL_RCU_BH,
    DESTROYED,
    ENTRIES,
    ENTRY,
    IN_TRIE,
    OUT,
    UNLINKED,
    UnicacheState,
    entry_address,
    touch_statics,
)

RCU_DO_BATCH = number("rcu_do_batch")
DST_RCU_FREE = number("dst_rcu_free")
DST_DESTROY = number("dst_destroy")
IPV4_DST_DESTROY = number("ipv4_dst_destroy")

DESTROY_RECORDS = 8 + 2 * SLAB_RECORDS
"""Most records of one flow's destruction."""


@kernel
def take_out(u: UnicacheState, trie: TrieState, rcu: RcuState, log: AccessLog, leaf: int, cpu: int, now: int) -> int:
    """Take a leaf out of the trie and queue it. NEED_NOTHING when it is done; otherwise call again with the same leaf."""
    var = u.var
    if var[OUT] == IN_TRIE:
        if rcu_room(rcu, cpu) < 1:
            return NEED_POOL
        need = remove(trie, log, cpu, leaf)
        if need != NEED_NOTHING:
            return need
        var[OUT] = UNLINKED
    if room(log) < 2:
        return NEED_LOG
    call(log, CALL_RCU_BH, 1)
    touch(log, WRITE, CALL_RCU_BH, leaf_address(trie, leaf))
    touch(log, WRITE, CALL_RCU_BH, entry_address(trie, leaf) + AT_RCU)
    call_rcu(rcu, cpu, leaf, now)
    trie.leaf[leaf, ENTRY] = 0
    var[OUT] = IN_TRIE
    return NEED_NOTHING


@kernel
def _destroy(u: UnicacheState, trie: TrieState, leaves: SlabState, cache: SlabState, log: AccessLog, leaf: int, cpu: int) -> None:
    entry = i64(u.entry_of[leaf])
    address = object_address(cache, entry)
    touch(log, READ, RCU_DO_BATCH, address + AT_RCU)
    call(log, DST_RCU_FREE, 1)
    touch(log, READ, DST_RCU_FREE, address + AT_REFCNT)
    call(log, DST_DESTROY, 1)
    touch(log, READ, DST_DESTROY, address + AT_NEIGHBOUR)
    touch_statics(u, log, DST_DESTROY)
    call(log, IPV4_DST_DESTROY, 1)
    touch(log, READ, IPV4_DST_DESTROY, address + AT_PEER)
    touch(log, READ, IPV4_DST_DESTROY, address + AT_RCU)
    touch(log, READ, RCU_DO_BATCH, leaf_address(trie, leaf))
    slab_free(cache, log, cpu, entry)
    slab_free(leaves, log, cpu, leaf)
    u.var[ENTRIES] -= 1
    u.stat[DESTROYED] += 1


@kernel
def reclaim(
    u: UnicacheState,
    trie: TrieState,
    leaves: SlabState,
    cache: SlabState,
    rcu: RcuState,
    log: AccessLog,
    limit: int,
    cpu: int,
    deadline: int,
) -> int:
    """Destroy up to `limit` flows queued on this CPU at or before `deadline` (ns), while the log has room; how many."""
    limit = min(limit, ready_before(rcu, cpu, deadline))
    done = 0
    while done < limit and room(log) >= DESTROY_RECORDS:
        _destroy(u, trie, leaves, cache, log, rcu_next(rcu, cpu), cpu)
        done += 1
    if done > 0:
        call(log, RCU_DO_BATCH, 1)
    return done


@kernel
def reclaim_loop(
    u: UnicacheState, trie: TrieState, leaves: SlabState, cache: SlabState, rcu: RcuState, log: AccessLog, numbers: I64
) -> Iterator[int]:
    """`reclaim` over and over; numbers: limit, cpu, deadline."""
    while True:
        yield reclaim(u, trie, leaves, cache, rcu, log, i64(numbers[0]), i64(numbers[1]), i64(numbers[2]))
