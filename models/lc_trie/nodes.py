"""Nodes of the LC-trie: the pools they live in, what a node record holds, and where it lies in simulated memory.

A tnode is a header of 24 bytes followed by 2^bits child pointers (i386, net/ipv4/fib_trie.c, 2.6.20). Up to 4096 bytes it
comes from the kmalloc cache that fits (slab header in front where the kernel keeps it on the slab), above from 2^order
pages. A freed tnode keeps its record, its child block and its address, and the next tnode of as many bits takes it over, last
in first out. Left out: the grace period before a tnode's memory is used again, and refills of the kmalloc array caches.
Leaves are objects of a slab cache; the rows of `leaf` hold their keys, then columns that belong to the user.
"""

from typing import NamedTuple

from models.access import READ, WRITE, AccessLog, call, touch, touch_range
from models.functions import number
from models.kernel import I32, I64, NIL, U32, i64, kernel
from models.slab import STRUCT_PAGE

KMALLOC = number("__kmalloc")
KFREE = number("kfree")
TNODE_FREE = number("tnode_free")

HEADER = 24
POINTER = 4
MOST_BITS = 24
"""Bits of the largest tnode that the simulated memory has room for."""

ROOT, WORDS, INFLATE, HALVE, INFLATE_ROOT, HALVE_ROOT, MAX_BITS, CPU = range(8)
DEPTH, RESULT, UP, UP_PARENT, UP_SLOT, WAS_FULL = range(8, 14)
LEAVES, TNODES, NEXT_NODE, NEXT_SLOT, WANT_NODES, WANT_SLOTS = range(14, 20)
INFLATIONS, HALVINGS, MOVED = range(20, 23)
LEAF_BASE, LEAF_SIZE, LEAF_PER_SLAB, LEAF_FIRST, LEAF_SLAB = range(23, 28)
PAGES, ARRAYS, TNODE_BASE = range(28, 31)
VARS = 31

POS, BITS, FULL, EMPTY, PARENT, BLOCK, ADDRESS, LINK = range(8)
SIZE, PER_SLAB, FIRST, SLAB, BASE, TAKEN, MOST, FREE_HEAD, FREE_COUNT = range(9)
CLASS = 9

FREE_NODE = -1
"""POS of a tnode that is not in use."""

NODE_RECORDS = 20
"""Most records that taking one tnode writes: its array cache, and the zeroing of up to 2^MOST_BITS pointers."""
FREE_RECORDS = 3


class TrieState(NamedTuple):
    """One trie. A child reference is 0 (empty), 2 n + 2 for tnode n, 2 l + 3 for leaf l: the lowest bit tells them apart."""

    var: I64  # int64[VARS]: root reference and parameters; the rebalance in progress; counts; where leaves lie: index names above
    node: I32  # int32[nodes, 8]: pos, bits, full and empty children, parent tnode (NIL: root), first slot, address / 32, next free
    prefix: U32  # uint32[nodes, words]: the first pos bits of every key below the tnode, zero after them
    child: I32  # int32[slots]: child references; tnode n has 2^bits of them from node[n, BLOCK] on
    leaf: U32  # uint32[leaves, words + columns]: key of each leaf, then the user's own columns
    size: I64  # int64[MOST_BITS + 1, CLASS]: by bits: bytes of a tnode, geometry of its slabs, region, tnodes taken and free
    stack: I64  # int64[frames, FRAME]: the resizes in progress, see resize.py


@kernel
def is_leaf(ref: int) -> bool:
    """True for the reference of a leaf."""
    return (ref & 1) != 0


@kernel
def is_tnode(ref: int) -> bool:
    """True for the reference of a tnode."""
    return ref != 0 and (ref & 1) == 0


@kernel
def index_of(ref: int) -> int:
    """The tnode or leaf that a reference names; it must not be empty."""
    return (ref >> 1) - 1


@kernel
def tnode_ref(n: int) -> int:
    """Reference of a tnode."""
    return 2 * n + 2


@kernel
def leaf_ref(leaf: int) -> int:
    """Reference of a leaf."""
    return 2 * leaf + 3


@kernel
def child_at(trie: TrieState, n: int, slot: int) -> int:
    """Reference in a child slot of a tnode."""
    return i64(trie.child[i64(trie.node[n, BLOCK]) + slot])


@kernel
def header_address(trie: TrieState, n: int) -> int:
    """Simulated address of a tnode."""
    return i64(trie.node[n, ADDRESS]) << 5


@kernel
def slot_address(trie: TrieState, n: int, slot: int) -> int:
    """Simulated address of a child slot."""
    return (i64(trie.node[n, ADDRESS]) << 5) + HEADER + POINTER * slot


@kernel
def leaf_address(trie: TrieState, leaf: int) -> int:
    """Simulated address of a leaf."""
    slab = i64(leaf // trie.var[LEAF_PER_SLAB])
    within = trie.var[LEAF_FIRST] + (leaf - slab * trie.var[LEAF_PER_SLAB]) * trie.var[LEAF_SIZE]
    return i64(trie.var[LEAF_BASE] + slab * trie.var[LEAF_SLAB] + within)


@kernel
def read_slot(trie: TrieState, log: AccessLog, function: int, n: int, slot: int) -> int:
    """Touch a tnode's header, and the line of a child slot if that is another one; returns the reference there. Two records."""
    header = header_address(trie, n)
    address = slot_address(trie, n, slot)
    touch(log, READ, function, header)
    if (address >> 6) != (header >> 6):
        touch(log, READ, function, address)
    return child_at(trie, n, slot)


@kernel
def is_full(trie: TrieState, n: int, ref: int) -> bool:
    """True if a child of tnode n is a tnode that skips no bits."""
    if not is_tnode(ref):
        return False
    return i64(trie.node[index_of(ref), POS]) == i64(trie.node[n, POS]) + i64(trie.node[n, BITS])


@kernel
def put_child(trie: TrieState, n: int, slot: int, ref: int, was_full: bool) -> None:
    """Store a reference in a child slot and keep the counts. `was_full`: whether the child that was there is counted as full."""
    at = i64(trie.node[n, BLOCK]) + slot
    old = i64(trie.child[at])
    if old == 0 and ref != 0:
        trie.node[n, EMPTY] -= 1
    elif old != 0 and ref == 0:
        trie.node[n, EMPTY] += 1
    full = is_full(trie, n, ref)
    if full and not was_full:
        trie.node[n, FULL] += 1
    elif was_full and not full:
        trie.node[n, FULL] -= 1
    if is_tnode(ref):
        trie.node[index_of(ref), PARENT] = n
    trie.child[at] = ref


@kernel
def node_room(trie: TrieState, bits: int, count: int) -> bool:
    """True if `count` tnodes of `bits` bits can be taken now. If not, notes what `LcTrie.grow` must make room for."""
    fresh = count - trie.size[bits, FREE_COUNT]
    if fresh <= 0:
        return True
    slots = fresh << bits
    if trie.var[NEXT_NODE] + fresh <= trie.node.shape[0] and trie.var[NEXT_SLOT] + slots <= trie.child.size:
        return True
    trie.var[WANT_NODES] = max(trie.var[WANT_NODES], fresh)
    trie.var[WANT_SLOTS] = max(trie.var[WANT_SLOTS], slots)
    return False


@kernel
def _array_cache(trie: TrieState, bits: int) -> int:
    """Address of the array cache of a tnode size on the CPU at work."""
    return i64(trie.var[ARRAYS] + (trie.var[CPU] * (MOST_BITS + 1) + bits) * 64)


@kernel
def new_tnode(trie: TrieState, log: AccessLog, pos: int, bits: int, parent: int) -> int:
    """A tnode without children; its prefix is the caller's to fill. The caller has checked node_room and NODE_RECORDS."""
    n = i64(trie.size[bits, FREE_HEAD])
    if n != NIL:
        trie.size[bits, FREE_HEAD] = trie.node[n, LINK]
        trie.size[bits, FREE_COUNT] -= 1
    else:
        if trie.size[bits, TAKEN] >= trie.size[bits, MOST]:
            raise MemoryError("the simulated memory has no room for more tnodes of this size")
        n = i64(trie.var[NEXT_NODE])
        trie.var[NEXT_NODE] += 1
        trie.node[n, BLOCK] = trie.var[NEXT_SLOT]
        trie.var[NEXT_SLOT] += 1 << bits
        k = i64(trie.size[bits, TAKEN])
        trie.size[bits, TAKEN] += 1
        slab = i64(k // trie.size[bits, PER_SLAB])
        within = trie.size[bits, FIRST] + (k - slab * trie.size[bits, PER_SLAB]) * trie.size[bits, SIZE]
        trie.node[n, ADDRESS] = (trie.size[bits, BASE] + slab * trie.size[bits, SLAB] + within) >> 5
    block = i64(trie.node[n, BLOCK])
    for slot in range(block, block + (1 << bits)):
        trie.child[slot] = 0
    trie.node[n, POS] = pos
    trie.node[n, BITS] = bits
    trie.node[n, FULL] = 0
    trie.node[n, EMPTY] = 1 << bits
    trie.node[n, PARENT] = parent
    trie.node[n, LINK] = NIL
    trie.var[TNODES] += 1
    call(log, KMALLOC, 1)
    touch(log, WRITE, KMALLOC, _array_cache(trie, bits))
    touch_range(log, WRITE, KMALLOC, header_address(trie, n), HEADER + (POINTER << bits))
    return n


@kernel
def free_tnode(trie: TrieState, log: AccessLog, n: int) -> None:
    """Give a tnode back. FREE_RECORDS records."""
    bits = i64(trie.node[n, BITS])
    address = header_address(trie, n)
    call(log, TNODE_FREE, 1)
    touch(log, WRITE, TNODE_FREE, address)
    call(log, KFREE, 1)
    touch(log, READ, KFREE, trie.var[PAGES] + ((address - trie.var[TNODE_BASE]) >> 12) * STRUCT_PAGE)
    touch(log, WRITE, KFREE, _array_cache(trie, bits))
    trie.node[n, POS] = FREE_NODE
    trie.node[n, LINK] = trie.size[bits, FREE_HEAD]
    trie.size[bits, FREE_HEAD] = n
    trie.size[bits, FREE_COUNT] += 1
    trie.var[TNODES] -= 1
