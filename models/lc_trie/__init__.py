"""The dynamic LC-trie of net/ipv4/fib_trie.c, 2.6.20, for keys of any number of 32-bit words.

A structure that stands on it makes one `LcTrie` and hands `trie.state` (read afresh for every kernel call: `grow` replaces it) to:

    find(trie, key, row) -> leaf or NIL                        exact match, nothing recorded
    peek(trie, key, row) -> leaf or NIL                        where the descent ends; the leaf's key may differ
    descend(trie, log, function, key, row) -> leaf or NIL      the same, recorded, up to descent_records(trie) records
    equals(trie, key, row, leaf) -> bool
    insert(trie, log, cpu, leaf) -> NEED_*                     key in trie.leaf[leaf, :words], not yet there; until NEED_NOTHING
    remove(trie, log, cpu, leaf) -> NEED_*                     the same

A key is (uint32 array, row): `trie.leaf` itself, or a batch's keys. For walks of one's own (longest prefix match): the root is
trie.var[ROOT]; `is_leaf`, `is_tnode`, `index_of` (of a reference), `child_at(trie, n, slot)`, `read_slot` (the same, touched),
trie.node[n, POS | BITS | PARENT], trie.prefix[n] (first POS bits, then zeros), `extract(key, row, pos, bits)`, `mismatch`,
`header_address`, `slot_address`, `leaf_address`.

Leaf ids are the objects of `LcTrie.leaves` (slab_alloc, slab_free are the user's to call: when its rows grow, call
`LcTrie.grow` too); columns of trie.leaf from `words` on are the user's own.
After NEED_POOL call `LcTrie.grow()`. A log must have room for `change_records(trie)` records at least.
"""

from models.lc_trie.bits import copy_prefix, extract, mismatch
from models.lc_trie.nodes import (
    BITS,
    BLOCK,
    LEAVES,
    MOST_BITS,
    PARENT,
    POS,
    ROOT,
    TNODES,
    WORDS,
    TrieState,
    child_at,
    header_address,
    index_of,
    is_leaf,
    is_tnode,
    leaf_address,
    leaf_ref,
    read_slot,
    slot_address,
    tnode_ref,
)
from models.lc_trie.trie import LcTrie
from models.lc_trie.update import change_records, descend, descent_records, equals, find, insert, peek, remove

__all__ = [
    "BITS",
    "BLOCK",
    "LEAVES",
    "MOST_BITS",
    "PARENT",
    "POS",
    "ROOT",
    "TNODES",
    "WORDS",
    "LcTrie",
    "TrieState",
    "change_records",
    "child_at",
    "copy_prefix",
    "descend",
    "descent_records",
    "equals",
    "extract",
    "find",
    "header_address",
    "index_of",
    "insert",
    "is_leaf",
    "is_tnode",
    "leaf_address",
    "leaf_ref",
    "mismatch",
    "peek",
    "read_slot",
    "remove",
    "slot_address",
    "tnode_ref",
]
