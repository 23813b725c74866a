"""Find, insert and remove in the LC-trie, and the rebalance that follows each change.

Models fib_find_node, fib_insert_node, trie_leaf_remove and trie_rebalance of net/ipv4/fib_trie.c, 2.6.20. The first leaf becomes
the root itself: the tnode that the kernel makes for it does not outlive its first resize.

`insert` and `remove` are resumable: they return NEED_LOG or NEED_POOL before a step for which there is no room, and go on
when they are called again with the same arguments. Until they return NEED_NOTHING the trie must not be read.
"""

from models.access import READ, WRITE, AccessLog, call, room, touch
from models.functions import number
from models.interface import NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import NIL, U32, i64, kernel
from models.lc_trie.bits import copy_prefix, extract, mismatch
from models.lc_trie.moves import EXTRACT, RESIZE, STEP_RECORDS, push
from models.lc_trie.nodes import (
    BITS,
    CPU,
    DEPTH,
    LEAVES,
    NODE_RECORDS,
    PARENT,
    POS,
    RESULT,
    ROOT,
    UP,
    UP_PARENT,
    UP_SLOT,
    WAS_FULL,
    WORDS,
    TrieState,
    child_at,
    header_address,
    index_of,
    is_full,
    is_leaf,
    is_tnode,
    leaf_address,
    leaf_ref,
    new_tnode,
    node_room,
    put_child,
    read_slot,
    slot_address,
    tnode_ref,
)
from models.lc_trie.resize import run, wants_resize

TRIE_INSERT = number("trie_insert")
TRIE_REMOVE = number("trie_remove")
TRIE_REBALANCE = number("trie_rebalance")

IDLE = -1
"""var[UP] when no rebalance is in progress."""


@kernel
def descent_records(trie: TrieState) -> int:
    """Most records of one descent: two for each tnode on the longest path that keys of this width can have, one for the leaf."""
    return i64(64 * trie.var[WORDS] + 3)


@kernel
def change_records(trie: TrieState) -> int:
    """Room that a log needs in any case for insert and remove to get on."""
    return i64(max(descent_records(trie) + NODE_RECORDS + 4, STEP_RECORDS))


@kernel
def peek(trie: TrieState, key: U32, row: int) -> int:
    """The leaf that a descent by a key ends in, NIL at an empty slot. Nothing is recorded; its key may be another."""
    ref = i64(trie.var[ROOT])
    while is_tnode(ref):
        n = index_of(ref)
        ref = child_at(trie, n, extract(key, row, i64(trie.node[n, POS]), i64(trie.node[n, BITS])))
    return index_of(ref) if ref != 0 else NIL


@kernel
def descend(trie: TrieState, log: AccessLog, function: int, key: U32, row: int) -> int:
    """As `peek`, recorded: header and slot of each tnode for `function`, one call of tkey_extract_bits a tnode.

    Up to descent_records records. The leaf itself is not touched: compare its key with `equals`.
    """
    ref = i64(trie.var[ROOT])
    depth = 0
    while is_tnode(ref):
        n = index_of(ref)
        ref = read_slot(trie, log, function, n, extract(key, row, i64(trie.node[n, POS]), i64(trie.node[n, BITS])))
        depth += 1
    call(log, EXTRACT, depth)
    return index_of(ref) if ref != 0 else NIL


@kernel
def equals(trie: TrieState, key: U32, row: int, leaf: int) -> bool:
    """True if a leaf bears this key. Nothing is recorded."""
    differ = 0
    for word in range(trie.var[WORDS]):
        differ |= i64(trie.leaf[leaf, word]) ^ i64(key[row, word])
    return differ == 0


@kernel
def find(trie: TrieState, key: U32, row: int) -> int:
    """The leaf that bears a key, or NIL. Nothing is recorded."""
    leaf = peek(trie, key, row)
    if leaf != NIL and not equals(trie, key, row, leaf):
        return NIL
    return leaf


@kernel
def _rebalance(trie: TrieState, log: AccessLog) -> int:
    """Resize each tnode from var[UP] to the root."""
    while trie.var[UP] != NIL:
        if trie.var[DEPTH] == 0:
            if room(log) < STEP_RECORDS:
                return NEED_LOG
            n = i64(trie.var[UP])
            parent = i64(trie.node[n, PARENT])
            call(log, RESIZE, 1)
            touch(log, READ, RESIZE, header_address(trie, n))
            if parent != NIL:
                call(log, EXTRACT, 1)  # the slot in the parent
            if not wants_resize(trie, n):
                if parent != NIL:
                    touch(log, WRITE, TRIE_REBALANCE, slot_address(trie, parent, _slot_in(trie, parent, n)))
                trie.var[UP] = parent
                continue
            trie.var[UP_PARENT] = parent
            if parent != NIL:
                trie.var[UP_SLOT] = _slot_in(trie, parent, n)
                trie.var[WAS_FULL] = is_full(trie, parent, tnode_ref(n))
            push(trie, n)
        need = run(trie, log)
        if need != NEED_NOTHING:
            return need
        _store_result(trie, log)
    trie.var[UP] = IDLE
    return NEED_NOTHING


@kernel
def _slot_in(trie: TrieState, parent: int, n: int) -> int:
    return extract(trie.prefix, n, i64(trie.node[parent, POS]), i64(trie.node[parent, BITS]))


@kernel
def _store_result(trie: TrieState, log: AccessLog) -> None:
    """Put what a resize made in the place of the tnode it was made from."""
    result = i64(trie.var[RESULT])
    parent = i64(trie.var[UP_PARENT])
    if parent == NIL:
        trie.var[ROOT] = result
        if is_tnode(result):
            trie.node[index_of(result), PARENT] = NIL
    else:
        slot = i64(trie.var[UP_SLOT])
        put_child(trie, parent, slot, result, trie.var[WAS_FULL] != 0)
        touch(log, WRITE, TRIE_REBALANCE, slot_address(trie, parent, slot))
    trie.var[UP] = parent


@kernel
def _hang(trie: TrieState, log: AccessLog, parent: int, slot: int, ref: int) -> None:
    """Store a reference below a tnode in place of one that is not full, or at the root. One record."""
    if parent == NIL:
        trie.var[ROOT] = ref
        if is_tnode(ref):
            trie.node[index_of(ref), PARENT] = NIL
    else:
        put_child(trie, parent, slot, ref, False)
        touch(log, WRITE, TRIE_INSERT, slot_address(trie, parent, slot))


@kernel
def insert(trie: TrieState, log: AccessLog, cpu: int, leaf: int) -> int:
    """Insert a leaf whose key row is filled and is not in the trie yet. NEED_NOTHING when the trie is balanced again."""
    if trie.var[UP] != IDLE:
        return _rebalance(trie, log)
    if room(log) < change_records(trie):
        return NEED_LOG
    if not node_room(trie, 1, 1):
        return NEED_POOL
    trie.var[CPU] = cpu
    call(log, TRIE_INSERT, 1)
    ref = i64(trie.var[ROOT])
    parent = NIL
    slot = 0
    pos = 0
    fork = -1
    depth = 0
    while is_tnode(ref):
        n = index_of(ref)
        start = i64(trie.node[n, POS])
        differs = mismatch(trie.leaf, leaf, trie.prefix, n, pos, start)
        if differs < start:
            touch(log, READ, TRIE_INSERT, header_address(trie, n))
            fork = differs
            break
        parent = n
        slot = extract(trie.leaf, leaf, start, i64(trie.node[n, BITS]))
        ref = read_slot(trie, log, TRIE_INSERT, n, slot)
        pos = start + i64(trie.node[n, BITS])
        depth += 1
    call(log, EXTRACT, depth)
    touch(log, WRITE, TRIE_INSERT, leaf_address(trie, leaf))
    trie.var[LEAVES] += 1
    if ref == 0:
        _hang(trie, log, parent, slot, leaf_ref(leaf))
    else:
        if is_leaf(ref):
            other = index_of(ref)
            touch(log, READ, TRIE_INSERT, leaf_address(trie, other))
            fork = mismatch(trie.leaf, leaf, trie.leaf, other, pos, i64(32 * trie.var[WORDS]))
        n = new_tnode(trie, log, fork, 1, parent)
        copy_prefix(trie.prefix, n, trie.leaf, leaf, fork, trie.var[WORDS])
        call(log, EXTRACT, 1)
        side = extract(trie.leaf, leaf, fork, 1)
        put_child(trie, n, side, leaf_ref(leaf), False)
        put_child(trie, n, 1 - side, ref, False)
        _hang(trie, log, parent, slot, tnode_ref(n))  # what was there skips bits or is a leaf: it never counted as full
        if parent == NIL:
            parent = n
    call(log, TRIE_REBALANCE, 1)
    trie.var[UP] = parent
    return _rebalance(trie, log)


@kernel
def remove(trie: TrieState, log: AccessLog, cpu: int, leaf: int) -> int:
    """Take a leaf that is in the trie out. NEED_NOTHING when the trie is balanced again; then the row is free."""
    if trie.var[UP] != IDLE:
        return _rebalance(trie, log)
    if room(log) < change_records(trie):
        return NEED_LOG
    trie.var[CPU] = cpu
    call(log, TRIE_REMOVE, 1)
    ref = i64(trie.var[ROOT])
    parent = NIL
    slot = 0
    depth = 0
    while is_tnode(ref):
        parent = index_of(ref)
        slot = extract(trie.leaf, leaf, i64(trie.node[parent, POS]), i64(trie.node[parent, BITS]))
        ref = read_slot(trie, log, TRIE_REMOVE, parent, slot)
        depth += 1
    call(log, EXTRACT, depth)
    trie.var[LEAVES] -= 1
    if parent == NIL:
        trie.var[ROOT] = 0
        return NEED_NOTHING
    put_child(trie, parent, slot, 0, False)
    touch(log, WRITE, TRIE_REMOVE, slot_address(trie, parent, slot))
    call(log, TRIE_REBALANCE, 1)
    trie.var[UP] = parent
    return _rebalance(trie, log)
