"""Longest prefix match on the LC-trie: a routing table's state and its lookup.

Models fn_trie_lookup and check_leaf of net/ipv4/fib_trie.c and fib_semantic_match of net/ipv4/fib_semantics.c, 2.6.20. A leaf
bears a prefix's address and a list of leaf_info, one for each prefix length that the address has, longest first. The descent
follows the key; where it fails, the lowest set bit of the slot number is cleared (a shorter prefix ends in zeros there), up to
the root. A leaf_info leads to one fib_alias, that to the fib_info of its next hop, which is shared by all its prefixes.
Left out: several aliases of a prefix (tos), several next hops of a route (multipath), dead next hops, the statistics.
"""

from typing import NamedTuple

from models.access import LINE_SHIFT, READ, WRITE, AccessLog, call, touch
from models.functions import number
from models.kernel import I32, I64, NIL, U32, i64, kernel
from models.lc_trie import (
    BITS,
    PARENT,
    POS,
    ROOT,
    TrieState,
    child_at,
    header_address,
    index_of,
    is_leaf,
    is_tnode,
    leaf_address,
    slot_address,
)
from models.slab import SlabState, address_in

FIB_SEMANTIC_MATCH = number("fib_semantic_match")

NO_ROUTE = -1

FIRST_INFO = 1
"""Column of a leaf's row: its first leaf_info."""
PLEN, NEXT, ROUTE, NEXTHOP = range(4)
"""Columns of a leaf_info: prefix length, next (shorter) leaf_info of the leaf, route, next hop."""
PENDING, PREFIXES, LOADED, ALIASES, FIB_INFOS = range(5)
"""Leaf whose insertion is unfinished or NIL; prefixes held; rows of a table loaded; addresses of the fib_aliases and fib_infos."""
VARS = 5

ALIAS_BYTES = 32
"""A fib_alias: list, fa_info, tos, type, scope, state, rcu head."""
FIB_INFO_BYTES = 192
"""A fib_info with one next hop: counts and flags on its first line, the next hop on the second."""
FIB_INFO_NEXTHOP = 96

WORD = 0xFFFFFFFF

MATCH_RECORDS = 4
"""Records of one fib_semantic_match: the alias, both lines of the fib_info, its reference count."""
LOOKUP_RECORDS = 2 * 560 + 2 * 33 + 33 * 34 + MATCH_RECORDS
"""Most records of one lookup. A walk backtracks to ever shorter prefixes of the key, so at most 33 descents; that from length p
reads at most 32 - p slots, 560 in all. Each may look into one tnode in vain, and ends in at most one leaf with 33 leaf_infos."""


class FibState(NamedTuple):
    """One routing table."""

    trie: TrieState  # keys of one word: the prefix's address; column FIRST_INFO
    leaves: SlabState  # leaf objects, the rows of trie.leaf
    infos: SlabState  # leaf_info objects, the rows of info
    info: I32  # int32[infos, 4]: prefix length, next leaf_info of the leaf or NIL, route, next hop
    var: I64  # int64[VARS], see the index names above
    key: U32  # uint32[1, 1], the key of the change in progress


class FibTable(NamedTuple):
    """What a lookup reads of a routing table: a third of the arrays, and kernels compile in proportion to those."""

    trie: TrieState
    info: I32  # as in FibState
    info_slabs: I64  # the leaf_info objects' SlabState.var
    var: I64  # as in FibState


@kernel
def network_mask(plen: int) -> int:
    """Mask of a prefix length, 0 to 32."""
    return WORD ^ (WORD >> plen)


@kernel
def _first_difference(a: int, b: int, end: int) -> int:
    """First of the first `end` bits in which two addresses differ; `end` if none does."""
    differ = (a ^ b) & network_mask(end)
    if differ == 0:
        return end
    first = 31
    while differ > 1:
        differ >>= 1
        first -= 1
    return first


@kernel
def _bits(address: int, pos: int, bits: int) -> int:
    return (address >> (32 - pos - bits)) & ((1 << bits) - 1)


@kernel
def _touch_header(trie: TrieState, log: AccessLog, function: int, n: int) -> None:
    touch(log, READ, function, header_address(trie, n))


@kernel
def _touch_slot(trie: TrieState, log: AccessLog, function: int, n: int, slot: int) -> None:
    """Touch a slot's line if it is not the header's, which has been touched."""
    address = slot_address(trie, n, slot)
    if (address >> LINE_SHIFT) != (header_address(trie, n) >> LINE_SHIFT):
        touch(log, READ, function, address)


@kernel
def _semantic_match(fib: FibTable, log: AccessLog, info: int) -> None:
    """Read the alias and its fib_info and take a reference. MATCH_RECORDS records."""
    call(log, FIB_SEMANTIC_MATCH, 1)
    touch(log, READ, FIB_SEMANTIC_MATCH, fib.var[ALIASES] + info * ALIAS_BYTES)
    address = fib_info_address(fib, info)
    touch(log, READ, FIB_SEMANTIC_MATCH, address)
    touch(log, READ, FIB_SEMANTIC_MATCH, address + FIB_INFO_NEXTHOP)
    touch(log, WRITE, FIB_SEMANTIC_MATCH, address)


@kernel
def fib_info_address(fib: FibTable, info: int) -> int:
    """Simulated address of the fib_info that a leaf_info leads to."""
    return i64(fib.var[FIB_INFOS] + i64(fib.info[info, NEXTHOP]) * FIB_INFO_BYTES)


@kernel
def _check_leaf(fib: FibTable, log: AccessLog, function: int, leaf: int, address: int) -> int:
    """The longest prefix of a leaf that holds an address, NIL if none does."""
    touch(log, READ, function, leaf_address(fib.trie, leaf))
    network = i64(fib.trie.leaf[leaf, 0])
    info = i64(fib.trie.leaf[leaf, FIRST_INFO])
    while info != NIL:
        touch(log, READ, function, address_in(fib.info_slabs, info))
        if (address & network_mask(i64(fib.info[info, PLEN]))) == network:
            _semantic_match(fib, log, info)
            return info
        info = i64(fib.info[info, NEXT])
    return NIL


@kernel
def fib_find(fib: FibTable, log: AccessLog, function: int, address: int) -> int:
    """The leaf_info of the longest prefix that holds an address, or NIL. One call of `function`, up to LOOKUP_RECORDS records."""
    call(log, function, 1)
    trie = fib.trie
    root = i64(trie.var[ROOT])
    if root == 0:
        return NIL
    if is_leaf(root):
        return _check_leaf(fib, log, function, index_of(root), address)
    length = 32  # of the prefix looked for: after a failure only shorter ones can match
    n = index_of(root)
    _touch_header(trie, log, function, n)
    pos = i64(trie.node[n, POS])
    bits = i64(trie.node[n, BITS])
    # The root may skip bits too: a mismatch there is treated as at any other tnode.
    prefix = i64(trie.prefix[n, 0])
    first = _first_difference(prefix, address, pos)
    if first < pos:
        if (prefix & (WORD >> first)) != 0:
            return NIL
        length = first
    cindex = _bits(address & network_mask(length), pos, bits)
    while True:
        _touch_slot(trie, log, function, n, cindex)
        ref = child_at(trie, n, cindex)
        if is_leaf(ref):
            info = _check_leaf(fib, log, function, index_of(ref), address)
            if info != NIL:
                return info
        elif is_tnode(ref):
            below = index_of(ref)
            shorter = _enter(trie, log, function, below, address, length, pos + bits)
            if shorter >= 0:
                length = shorter
                n = below
                pos = i64(trie.node[n, POS])
                bits = i64(trie.node[n, BITS])
                cindex = _bits(address & network_mask(length), pos, bits)
                continue
        while cindex == 0:
            parent = i64(trie.node[n, PARENT])
            if parent == NIL:
                return NIL
            prefix = i64(trie.prefix[n, 0])
            n = parent
            _touch_header(trie, log, function, n)
            pos = i64(trie.node[n, POS])
            bits = i64(trie.node[n, BITS])
            cindex = _bits(prefix, pos, bits)
        end = pos + bits - 1
        lowest = 1
        while (cindex & lowest) == 0:
            lowest <<= 1
            end -= 1
        cindex ^= lowest
        length = min(length, end)


@kernel
def _enter(trie: TrieState, log: AccessLog, function: int, n: int, address: int, length: int, end: int) -> int:
    """Length of the prefix to look for below tnode n, -1 if none can be there. `end`: first bit behind the parent's."""
    _touch_header(trie, log, function, n)
    pos = i64(trie.node[n, POS])
    prefix = i64(trie.prefix[n, 0])
    if length < end:
        # A prefix shorter than the path ends in zeros: so must the skipped bits, and its leaf lies below slot 0.
        if (prefix & (WORD >> length)) != 0:
            return -1
        _touch_slot(trie, log, function, n, 0)
        if child_at(trie, n, 0) == 0:
            return -1
    first = _first_difference(prefix, address, pos)
    if first < pos:
        if (prefix & (WORD >> first)) != 0:
            return -1
        return min(length, first)
    return length


@kernel
def find_routes(fib: FibTable, log: AccessLog, function: int, address: I64, route: I64) -> None:
    """The route of each address, NO_ROUTE where there is none. The log must be off or have room for all."""
    for i in range(address.size):
        info = fib_find(fib, log, function, address[i])
        route[i] = i64(fib.info[info, ROUTE]) if info != NIL else NO_ROUTE
