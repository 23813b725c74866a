"""The moves of a resize: children of up to STEP slots at a time into the tnode that replaces the old one.

Models the bodies of inflate and halve of net/ipv4/fib_trie.c, 2.6.20. A frame of the stack says how far one resize has
come; what follows what is decided in resize.py.
"""

from models.access import READ, WRITE, AccessLog, call, touch, touch_range
from models.functions import number
from models.interface import NEED_NOTHING, NEED_POOL
from models.kernel import i64, kernel
from models.lc_trie.bits import copy_prefix, extract, set_bit
from models.lc_trie.nodes import (
    BITS,
    DEPTH,
    FREE_RECORDS,
    MOVED,
    NODE_RECORDS,
    POINTER,
    POS,
    RESULT,
    WORDS,
    TrieState,
    child_at,
    free_tnode,
    header_address,
    index_of,
    is_full,
    is_leaf,
    leaf_address,
    new_tnode,
    node_room,
    put_child,
    slot_address,
)

EXTRACT = number("tkey_extract_bits")
RESIZE = number("resize")
INFLATE_FUNCTION = number("inflate")
HALVE_FUNCTION = number("halve")

STEP = 16
"""Slots of the old tnode that one step moves: one line of pointers."""
STEP_RECORDS = STEP * (3 + FREE_RECORDS) + 2 * NODE_RECORDS + 8
"""Most records of one step."""

PHASE, OLD, NEW, AT, TOUCHED, LEFT, RIGHT, SPLIT, MOVING = range(9)
FRAME = 9

START, INFLATING, SPLITTING, LEFT_RESIZED, RIGHT_RESIZED, TRY_INFLATE, TRY_HALVE, HALVING, PAIR_RESIZED = range(9)


@kernel
def push(trie: TrieState, n: int) -> None:
    """Put the resize of a tnode on the stack."""
    depth = trie.var[DEPTH]
    trie.stack[depth, PHASE] = START
    trie.stack[depth, OLD] = n
    trie.var[DEPTH] = depth + 1


@kernel
def push_nested(trie: TrieState, log: AccessLog, n: int) -> None:
    call(log, RESIZE, 1)
    touch(log, READ, RESIZE, header_address(trie, n))
    push(trie, n)


@kernel
def _address(trie: TrieState, ref: int) -> int:
    return leaf_address(trie, index_of(ref)) if is_leaf(ref) else header_address(trie, index_of(ref))


@kernel
def _move(trie: TrieState, log: AccessLog, function: int, n: int, slot: int, ref: int) -> None:
    """Store a child in a new tnode and its new parent in the child. One record."""
    put_child(trie, n, slot, ref, False)
    touch(log, WRITE, function, _address(trie, ref))
    trie.var[MOVED] += 1


@kernel
def _next_bit(trie: TrieState, ref: int, pos: int) -> int:
    if is_leaf(ref):
        return extract(trie.leaf, index_of(ref), pos, 1)
    return extract(trie.prefix, index_of(ref), pos, 1)


@kernel
def replace(trie: TrieState, log: AccessLog, frame: int, phase: int) -> None:
    """The new tnode has everything: free the old one and decide again."""
    free_tnode(trie, log, i64(trie.stack[frame, OLD]))
    trie.stack[frame, OLD] = trie.stack[frame, NEW]
    trie.stack[frame, PHASE] = phase


@kernel
def inflate_step(trie: TrieState, log: AccessLog, frame: int) -> int:
    """Move children of up to STEP slots into the double; stops at a full child that must be split."""
    old = i64(trie.stack[frame, OLD])
    new = i64(trie.stack[frame, NEW])
    at = i64(trie.stack[frame, AT])
    slots = 1 << i64(trie.node[old, BITS])
    if at == slots:
        replace(trie, log, frame, TRY_INFLATE)
        return NEED_NOTHING
    below = i64(trie.node[old, POS]) + i64(trie.node[old, BITS])
    end = min(slots, (at // STEP + 1) * STEP)
    if trie.stack[frame, TOUCHED] != end:
        trie.stack[frame, TOUCHED] = end
        touch_range(log, READ, INFLATE_FUNCTION, slot_address(trie, old, at), POINTER * (end - at))
        touch_range(log, WRITE, INFLATE_FUNCTION, slot_address(trie, new, 2 * at), POINTER * 2 * (end - at))
    while at < end:
        ref = child_at(trie, old, at)
        if ref != 0:
            if not is_full(trie, old, ref):
                call(log, EXTRACT, 1)
                touch(log, READ, INFLATE_FUNCTION, _address(trie, ref))
                _move(trie, log, INFLATE_FUNCTION, new, 2 * at + _next_bit(trie, ref, below), ref)
            else:
                inner = index_of(ref)
                if i64(trie.node[inner, BITS]) > 1:
                    return _begin_split(trie, log, frame, at, inner)
                touch(log, READ, INFLATE_FUNCTION, header_address(trie, inner))
                for half in range(2):
                    grandchild = child_at(trie, inner, half)
                    if grandchild != 0:
                        _move(trie, log, INFLATE_FUNCTION, new, 2 * at + half, grandchild)
                free_tnode(trie, log, inner)
        at += 1
    trie.stack[frame, AT] = at
    return NEED_NOTHING


@kernel
def _begin_split(trie: TrieState, log: AccessLog, frame: int, at: int, inner: int) -> int:
    """Take the two tnodes that a full child of more than one bit is split into."""
    trie.stack[frame, AT] = at
    bits = i64(trie.node[inner, BITS]) - 1
    pos = i64(trie.node[inner, POS])
    if not node_room(trie, bits, 2):
        return NEED_POOL
    new = i64(trie.stack[frame, NEW])
    left = new_tnode(trie, log, pos + 1, bits, new)
    right = new_tnode(trie, log, pos + 1, bits, new)
    copy_prefix(trie.prefix, left, trie.prefix, inner, pos, trie.var[WORDS])
    copy_prefix(trie.prefix, right, trie.prefix, inner, pos, trie.var[WORDS])
    set_bit(trie.prefix, right, pos)
    trie.stack[frame, LEFT] = left
    trie.stack[frame, RIGHT] = right
    trie.stack[frame, SPLIT] = inner
    trie.stack[frame, MOVING] = 0
    trie.stack[frame, PHASE] = SPLITTING
    return NEED_NOTHING


@kernel
def split_step(trie: TrieState, log: AccessLog, frame: int) -> None:
    """Move up to STEP children of the tnode being split into its halves; at the end resize the left half."""
    inner = i64(trie.stack[frame, SPLIT])
    at = i64(trie.stack[frame, MOVING])
    slots = 1 << i64(trie.node[inner, BITS])
    half = slots >> 1
    if at == slots:
        free_tnode(trie, log, inner)
        trie.stack[frame, PHASE] = LEFT_RESIZED
        push_nested(trie, log, i64(trie.stack[frame, LEFT]))
        return
    end = min(slots, at + STEP)
    touch_range(log, READ, INFLATE_FUNCTION, slot_address(trie, inner, at), POINTER * (end - at))
    while at < end:
        ref = child_at(trie, inner, at)
        if ref != 0:
            if at < half:
                _move(trie, log, INFLATE_FUNCTION, i64(trie.stack[frame, LEFT]), at, ref)
            else:
                _move(trie, log, INFLATE_FUNCTION, i64(trie.stack[frame, RIGHT]), at - half, ref)
        at += 1
    trie.stack[frame, MOVING] = at


@kernel
def halve_step(trie: TrieState, log: AccessLog, frame: int) -> int:
    """Move the children of up to STEP slots into the half; stops at a pair that needs a tnode of its own."""
    old = i64(trie.stack[frame, OLD])
    new = i64(trie.stack[frame, NEW])
    at = i64(trie.stack[frame, AT])
    slots = 1 << i64(trie.node[old, BITS])
    if at == slots:
        replace(trie, log, frame, TRY_HALVE)
        return NEED_NOTHING
    end = min(slots, (at // STEP + 1) * STEP)
    if trie.stack[frame, TOUCHED] != end:
        trie.stack[frame, TOUCHED] = end
        touch_range(log, READ, HALVE_FUNCTION, slot_address(trie, old, at), POINTER * (end - at))
        touch_range(log, WRITE, HALVE_FUNCTION, slot_address(trie, new, at >> 1), POINTER * ((end - at) >> 1))
    while at < end:
        left = child_at(trie, old, at)
        right = child_at(trie, old, at + 1)
        if left != 0 and right != 0:
            trie.stack[frame, AT] = at
            return _pair(trie, log, frame, left, right)
        if left != 0:
            _move(trie, log, HALVE_FUNCTION, new, at >> 1, left)
        elif right != 0:
            _move(trie, log, HALVE_FUNCTION, new, at >> 1, right)
        at += 2
    trie.stack[frame, AT] = at
    return NEED_NOTHING


@kernel
def _pair(trie: TrieState, log: AccessLog, frame: int, left: int, right: int) -> int:
    """Hang two neighbours under a new tnode of one bit and resize it."""
    if not node_room(trie, 1, 1):
        return NEED_POOL
    new = i64(trie.stack[frame, NEW])
    pos = i64(trie.node[new, POS]) + i64(trie.node[new, BITS])
    pair = new_tnode(trie, log, pos, 1, new)
    if is_leaf(left):
        copy_prefix(trie.prefix, pair, trie.leaf, index_of(left), pos, trie.var[WORDS])
    else:
        copy_prefix(trie.prefix, pair, trie.prefix, index_of(left), pos, trie.var[WORDS])
    _move(trie, log, HALVE_FUNCTION, pair, 0, left)
    _move(trie, log, HALVE_FUNCTION, pair, 1, right)
    trie.stack[frame, PHASE] = PAIR_RESIZED
    push_nested(trie, log, pair)
    return NEED_NOTHING


@kernel
def take_result(trie: TrieState, log: AccessLog, frame: int) -> None:
    """A nested resize is whole: store its result in the new tnode and go on."""
    new = i64(trie.stack[frame, NEW])
    at = i64(trie.stack[frame, AT])
    phase = trie.stack[frame, PHASE]
    result = i64(trie.var[RESULT])
    if phase == LEFT_RESIZED:
        put_child(trie, new, 2 * at, result, False)
        trie.stack[frame, PHASE] = RIGHT_RESIZED
        push_nested(trie, log, i64(trie.stack[frame, RIGHT]))
    elif phase == RIGHT_RESIZED:
        put_child(trie, new, 2 * at + 1, result, False)
        trie.stack[frame, AT] = at + 1
        trie.stack[frame, PHASE] = INFLATING
    else:
        put_child(trie, new, at >> 1, result, False)
        trie.stack[frame, AT] = at + 2
        trie.stack[frame, PHASE] = HALVING
