"""What the trie looks like: the figures of /proc/net/fib_triestat (net/ipv4/fib_trie.c, 2.6.20), and the check of its invariants.

The depth of a leaf is the number of tnodes on the path to it.
"""

from models.kernel import I64, NIL, i64, kernel
from models.lc_trie.bits import mismatch
from models.lc_trie.nodes import (
    BITS,
    EMPTY,
    FREE_NODE,
    FULL,
    HEADER,
    LEAF_SIZE,
    LEAVES,
    MOST_BITS,
    NEXT_NODE,
    PARENT,
    POINTER,
    POS,
    ROOT,
    TNODES,
    WORDS,
    TrieState,
    child_at,
    index_of,
    is_full,
    is_leaf,
    is_tnode,
    tnode_ref,
)

DEPTHS, DEEPEST, LEAVES_FOUND, POINTERS, NULLS, BY_BITS = range(6)
SURVEY = BY_BITS + MOST_BITS + 1


@kernel
def survey(trie: TrieState, found: I64) -> None:
    """Add up, in found int64[SURVEY]: depths of leaves, deepest, leaves, pointers, null pointers, then tnodes by bits."""
    found[:] = 0
    if is_leaf(i64(trie.var[ROOT])):
        found[LEAVES_FOUND] = 1
    for n in range(trie.var[NEXT_NODE]):
        if trie.node[n, POS] == FREE_NODE:
            continue
        depth = 1
        up = i64(trie.node[n, PARENT])
        while up != NIL:
            up = i64(trie.node[up, PARENT])
            depth += 1
        slots = 1 << i64(trie.node[n, BITS])
        for slot in range(slots):
            ref = child_at(trie, n, slot)
            if ref == 0:
                found[NULLS] += 1
            elif is_leaf(ref):
                found[LEAVES_FOUND] += 1
                found[DEPTHS] += depth
                found[DEEPEST] = max(found[DEEPEST], depth)
        found[POINTERS] += slots
        found[BY_BITS + i64(trie.node[n, BITS])] += 1


@kernel
def broken(trie: TrieState) -> int:
    """The first tnode whose record, prefix or children contradict each other, NIL if there is none."""
    for n in range(trie.var[NEXT_NODE]):
        if trie.node[n, POS] == FREE_NODE:
            continue
        pos = i64(trie.node[n, POS])
        end = pos + i64(trie.node[n, BITS])
        full = 0
        empty = 0
        for slot in range(1 << i64(trie.node[n, BITS])):
            ref = child_at(trie, n, slot)
            if ref == 0:
                empty += 1
                continue
            below = index_of(ref)
            if is_leaf(ref):
                if mismatch(trie.leaf, below, trie.prefix, n, 0, pos) < pos:
                    return n
                if _slot_of(trie, n, below, True) != slot:
                    return n
                continue
            full += is_full(trie, n, ref)
            if trie.node[below, PARENT] != n or i64(trie.node[below, POS]) < end:
                return n
            if mismatch(trie.prefix, below, trie.prefix, n, 0, pos) < pos or _slot_of(trie, n, below, False) != slot:
                return n
        if full != trie.node[n, FULL] or empty != trie.node[n, EMPTY] or end > 32 * trie.var[WORDS]:
            return n
        if trie.node[n, PARENT] == NIL and trie.var[ROOT] != tnode_ref(n):
            return n
        if (1 << i64(trie.node[n, BITS])) - empty < 2:
            return n
    return NIL


@kernel
def _slot_of(trie: TrieState, n: int, below: int, leaf: bool) -> int:
    """Child slot of tnode n that a key belongs in, bit by bit (so that it does not rest on `extract`)."""
    slot = 0
    for pos in range(i64(trie.node[n, POS]), i64(trie.node[n, POS]) + i64(trie.node[n, BITS])):
        word = i64(trie.leaf[below, pos >> 5]) if leaf else i64(trie.prefix[below, pos >> 5])
        slot = 2 * slot + ((word >> (31 - (pos & 31))) & 1)
    return slot


def triestat(trie: TrieState, found: I64) -> dict[str, float | int | dict[int, int]]:
    """The fields of /proc/net/fib_triestat under their names there; `Internal nodes` by bits, `Total size` in kB."""
    survey(trie, found)
    leaves, pointers = int(found[LEAVES_FOUND]), int(found[POINTERS])
    by_bits = {bits: int(found[BY_BITS + bits]) for bits in range(MOST_BITS + 1) if found[BY_BITS + bits]}
    size = leaves * int(trie.var[LEAF_SIZE]) + HEADER * sum(by_bits.values()) + POINTER * pointers
    return {
        "Aver depth": int(found[DEPTHS]) / leaves if leaves else 0.0,
        "Max depth": int(found[DEEPEST]),
        "Leaves": leaves,
        "Internal nodes": by_bits,
        "Pointers": pointers,
        "Null ptrs": int(found[NULLS]),
        "Total size": size // 1024,
    }


def triestat_text(trie: TrieState, found: I64) -> str:
    """The same as text, in the form of the proc file."""
    stat = triestat(trie, found)
    by_bits = stat["Internal nodes"]
    assert isinstance(by_bits, dict)
    histogram = "  ".join(f"{bits}: {count}" for bits, count in by_bits.items())
    return "\n".join(
        [
            f"Aver depth:     {stat['Aver depth']:.2f}",
            f"Max depth:      {stat['Max depth']}",
            f"Leaves:         {stat['Leaves']}",
            f"Internal nodes: {sum(by_bits.values())}",
            f"  {histogram}",
            f"Pointers: {stat['Pointers']}",
            f"Null ptrs: {stat['Null ptrs']}",
            f"Total size: {stat['Total size']}  kB",
        ]
    )


def check(trie: TrieState, found: I64) -> None:
    """Assert every invariant of a trie that is not being changed."""
    bad = int(broken(trie))
    assert bad == NIL, f"tnode {bad} contradicts its children: {trie.node[bad].tolist()}"
    survey(trie, found)
    leaves, tnodes, pointers = int(found[LEAVES_FOUND]), int(found[BY_BITS:].sum()), int(found[POINTERS])
    assert leaves == int(trie.var[LEAVES]), f"{trie.var[LEAVES]} leaves counted, {leaves} found"
    assert tnodes == int(trie.var[TNODES]), f"{trie.var[TNODES]} tnodes counted, {tnodes} found"
    assert pointers == sum(int(found[BY_BITS + bits]) << bits for bits in range(MOST_BITS + 1))
    if tnodes:
        assert int(found[NULLS]) == pointers - (leaves + tnodes - 1), "null pointers do not add up"
    else:
        assert leaves == (1 if is_leaf(int(trie.var[ROOT])) else 0)
        assert not is_tnode(int(trie.var[ROOT])), "the root is a tnode that is not in use"
