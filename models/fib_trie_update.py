"""Insert and remove of prefixes: the leaf by its address, the leaf_info by its length.

Models fn_trie_insert and fn_trie_delete of net/ipv4/fib_trie.c, 2.6.20, as far as the trie is concerned. A prefix that is
there already gets the new route. Left out: route flags, scopes, notifications and the flush of the routing cache that follows
each change.
"""

from models.access import AccessLog
from models.fib_trie_lookup import FIRST_INFO, LOADED, NEXT, NEXTHOP, PENDING, PLEN, PREFIXES, ROUTE, FibState
from models.interface import NEED_NOTHING, NEED_POOL
from models.kernel import I64, NIL, i64, kernel
from models.lc_trie import find, insert, remove
from models.slab import slab_alloc, slab_free, slab_room


@kernel
def _link_info(fib: FibState, log: AccessLog, cpu: int, leaf: int, plen: int, route: int, nexthop: int) -> None:
    """Put a prefix length into a leaf's list, longest first, or give it another route if it is there. Slab room is checked."""
    before = NIL
    info = i64(fib.trie.leaf[leaf, FIRST_INFO])
    while info != NIL and fib.info[info, PLEN] > plen:
        before = info
        info = i64(fib.info[info, NEXT])
    if info == NIL or fib.info[info, PLEN] != plen:
        new = slab_alloc(fib.infos, log, cpu)
        fib.info[new, PLEN] = plen
        fib.info[new, NEXT] = info
        if before == NIL:
            fib.trie.leaf[leaf, FIRST_INFO] = new
        else:
            fib.info[before, NEXT] = new
        fib.var[PREFIXES] += 1
        info = new
    fib.info[info, ROUTE] = route
    fib.info[info, NEXTHOP] = nexthop


@kernel
def fib_insert(fib: FibState, log: AccessLog, cpu: int, address: int, plen: int, route: int, nexthop: int) -> int:
    """Insert a prefix or change its route. NEED_*: call again with the same arguments until NEED_NOTHING."""
    leaf = fib.var[PENDING]
    if leaf == NIL:
        if slab_room(fib.infos, cpu) < 1 or slab_room(fib.leaves, cpu) < 1:
            return NEED_POOL
        fib.key[0, 0] = address
        leaf = find(fib.trie, fib.key, 0)
        if leaf != NIL:
            _link_info(fib, log, cpu, leaf, plen, route, nexthop)
            return NEED_NOTHING
        leaf = slab_alloc(fib.leaves, log, cpu)
        fib.trie.leaf[leaf, 0] = address
        fib.trie.leaf[leaf, FIRST_INFO] = NIL
        _link_info(fib, log, cpu, leaf, plen, route, nexthop)
        fib.var[PENDING] = leaf
    need = insert(fib.trie, log, cpu, leaf)
    if need == NEED_NOTHING:
        fib.var[PENDING] = NIL
    return need


@kernel
def fib_load(fib: FibState, log: AccessLog, cpu: int, prefix: I64, plen: I64, route: I64, nexthop: I64) -> int:
    """Insert the rows of a table from fib.var[LOADED] on. NEED_*: call again until NEED_NOTHING."""
    while fib.var[LOADED] < prefix.size:
        i = fib.var[LOADED]
        need = fib_insert(fib, log, cpu, prefix[i], plen[i], route[i], nexthop[i])
        if need != NEED_NOTHING:
            return need
        fib.var[LOADED] = i + 1
    return NEED_NOTHING


@kernel
def unlink_info(fib: FibState, log: AccessLog, cpu: int, address: int, plen: int) -> int:
    """Take a prefix length out of its leaf's list and free it. The leaf, or NIL if the prefix is not there."""
    fib.key[0, 0] = address
    leaf = find(fib.trie, fib.key, 0)
    if leaf == NIL:
        return NIL
    before = NIL
    info = i64(fib.trie.leaf[leaf, FIRST_INFO])
    while info != NIL and fib.info[info, PLEN] != plen:
        before = info
        info = i64(fib.info[info, NEXT])
    if info == NIL:
        return NIL
    if before == NIL:
        fib.trie.leaf[leaf, FIRST_INFO] = i64(fib.info[info, NEXT])
    else:
        fib.info[before, NEXT] = i64(fib.info[info, NEXT])
    slab_free(fib.infos, log, cpu, info)
    fib.var[PREFIXES] -= 1
    return leaf


@kernel
def drop_leaf(fib: FibState, log: AccessLog, cpu: int, leaf: int) -> int:
    """Take a leaf without leaf_infos out of the trie and free it. NEED_*: call again until NEED_NOTHING."""
    need = remove(fib.trie, log, cpu, leaf)
    if need == NEED_NOTHING:
        slab_free(fib.leaves, log, cpu, leaf)
    return need
