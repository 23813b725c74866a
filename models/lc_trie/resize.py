"""Inflate and halve: how a tnode's number of bits follows its filling.

Models resize, inflate and halve of net/ipv4/fib_trie.c, 2.6.20; thresholds after Nilsson and Tikkanen, "An experimental study
of compression methods for dynamic tries" (2002). A tnode with one child is replaced by it. It inflates while the share of
children, full ones counted twice, is at least 50 % (root 25 %), then halves while less than 25 % (root 15 %) of its slots are
taken. No limit on the number of rounds (max_resize came later). A tnode that cannot get memory stays as it is.

The recursion (inflating splits larger full children, halving makes new tnodes, and each of these is resized in turn) is a stack
of frames in the state. `run` works it off in steps of at most STEP slots and returns before a step for which log or pools
have no room, so that the doubling of a root of half a million slots costs time where it happens.
"""

from models.access import READ, WRITE, AccessLog, call, room, touch, touch_range
from models.functions import number
from models.interface import NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import NIL, i64, kernel
from models.lc_trie.bits import copy_prefix, extract, set_bit
from models.lc_trie.nodes import (
    BITS,
    DEPTH,
    EMPTY,
    FREE_RECORDS,
    FULL,
    HALVE,
    HALVE_ROOT,
    HALVINGS,
    INFLATE,
    INFLATE_ROOT,
    INFLATIONS,
    MAX_BITS,
    MOVED,
    NODE_RECORDS,
    PARENT,
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
    tnode_ref,
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
def wants_inflate(trie: TrieState, n: int) -> bool:
    """True if a tnode is full enough to double. False also where memory for the double could not be had."""
    bits = i64(trie.node[n, BITS])
    if bits >= trie.var[MAX_BITS] or trie.node[n, FULL] == 0:
        return False
    threshold = trie.var[INFLATE_ROOT] if trie.node[n, PARENT] == NIL else trie.var[INFLATE]
    slots = 1 << bits
    return bool(50 * (i64(trie.node[n, FULL]) + slots - i64(trie.node[n, EMPTY])) >= threshold * slots)


@kernel
def wants_halve(trie: TrieState, n: int) -> bool:
    """True if a tnode is so empty that it halves."""
    bits = i64(trie.node[n, BITS])
    if bits <= 1:
        return False
    threshold = trie.var[HALVE_ROOT] if trie.node[n, PARENT] == NIL else trie.var[HALVE]
    return bool(100 * ((1 << bits) - i64(trie.node[n, EMPTY])) < threshold << bits)


@kernel
def wants_resize(trie: TrieState, n: int) -> bool:
    """True if resizing a tnode would change anything."""
    children = (1 << i64(trie.node[n, BITS])) - i64(trie.node[n, EMPTY])
    return children < 2 or wants_inflate(trie, n) or wants_halve(trie, n)


@kernel
def push(trie: TrieState, n: int) -> None:
    """Put the resize of a tnode on the stack."""
    depth = trie.var[DEPTH]
    trie.stack[depth, PHASE] = START
    trie.stack[depth, OLD] = n
    trie.var[DEPTH] = depth + 1


@kernel
def _push_nested(trie: TrieState, log: AccessLog, n: int) -> None:
    call(log, RESIZE, 1)
    touch(log, READ, RESIZE, header_address(trie, n))
    push(trie, n)


@kernel
def _finish(trie: TrieState, result: int) -> None:
    trie.var[DEPTH] -= 1
    trie.var[RESULT] = result


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
def _only_child(trie: TrieState, log: AccessLog, n: int) -> int:
    """Free a tnode that has one child, or none, and return the child's reference. One record and those of the free."""
    slots = 1 << i64(trie.node[n, BITS])
    found = 0
    for slot in range(slots):
        ref = child_at(trie, n, slot)
        if ref != 0:
            found = ref
            break
    touch_range(log, READ, RESIZE, slot_address(trie, n, 0), POINTER * slots)
    free_tnode(trie, log, n)
    return found


@kernel
def _settle(trie: TrieState, log: AccessLog, frame: int) -> int:
    """Begin, then the decision after each round: give up the tnode, inflate it, halve it or be done."""
    old = i64(trie.stack[frame, OLD])
    bits = i64(trie.node[old, BITS])
    phase = trie.stack[frame, PHASE]
    if phase == START:
        if (1 << bits) - i64(trie.node[old, EMPTY]) < 2:
            _finish(trie, _only_child(trie, log, old))
            return NEED_NOTHING
        trie.stack[frame, PHASE] = TRY_INFLATE
    elif phase == TRY_INFLATE:
        if wants_inflate(trie, old):
            return _begin(trie, log, frame, bits + 1)
        trie.stack[frame, PHASE] = TRY_HALVE
    elif wants_halve(trie, old):
        return _begin(trie, log, frame, bits - 1)
    elif (1 << bits) - i64(trie.node[old, EMPTY]) == 1:
        _finish(trie, _only_child(trie, log, old))
    else:
        _finish(trie, tnode_ref(old))
    return NEED_NOTHING


@kernel
def _begin(trie: TrieState, log: AccessLog, frame: int, bits: int) -> int:
    """Take the tnode of `bits` bits that is to replace the old one."""
    old = i64(trie.stack[frame, OLD])
    if not node_room(trie, bits, 1):
        return NEED_POOL
    inflating = bits > i64(trie.node[old, BITS])
    call(log, INFLATE_FUNCTION if inflating else HALVE_FUNCTION, 1)
    trie.var[INFLATIONS if inflating else HALVINGS] += 1
    new = new_tnode(trie, log, i64(trie.node[old, POS]), bits, i64(trie.node[old, PARENT]))
    copy_prefix(trie.prefix, new, trie.prefix, old, i64(trie.node[old, POS]), trie.var[WORDS])
    trie.stack[frame, NEW] = new
    trie.stack[frame, AT] = 0
    trie.stack[frame, TOUCHED] = 0
    trie.stack[frame, PHASE] = INFLATING if inflating else HALVING
    return NEED_NOTHING


@kernel
def _replace(trie: TrieState, log: AccessLog, frame: int, phase: int) -> None:
    """The new tnode has everything: free the old one and decide again."""
    free_tnode(trie, log, i64(trie.stack[frame, OLD]))
    trie.stack[frame, OLD] = trie.stack[frame, NEW]
    trie.stack[frame, PHASE] = phase


@kernel
def _inflate(trie: TrieState, log: AccessLog, frame: int) -> int:
    """Move children of up to STEP slots into the double; stops at a full child that must be split."""
    old = i64(trie.stack[frame, OLD])
    new = i64(trie.stack[frame, NEW])
    at = i64(trie.stack[frame, AT])
    slots = 1 << i64(trie.node[old, BITS])
    if at == slots:
        _replace(trie, log, frame, TRY_INFLATE)
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
def _split(trie: TrieState, log: AccessLog, frame: int) -> None:
    """Move up to STEP children of the tnode being split into its halves; at the end resize the left half."""
    inner = i64(trie.stack[frame, SPLIT])
    at = i64(trie.stack[frame, MOVING])
    slots = 1 << i64(trie.node[inner, BITS])
    half = slots >> 1
    if at == slots:
        free_tnode(trie, log, inner)
        trie.stack[frame, PHASE] = LEFT_RESIZED
        _push_nested(trie, log, i64(trie.stack[frame, LEFT]))
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
def _halve(trie: TrieState, log: AccessLog, frame: int) -> int:
    """Move the children of up to STEP slots into the half; stops at a pair that needs a tnode of its own."""
    old = i64(trie.stack[frame, OLD])
    new = i64(trie.stack[frame, NEW])
    at = i64(trie.stack[frame, AT])
    slots = 1 << i64(trie.node[old, BITS])
    if at == slots:
        _replace(trie, log, frame, TRY_HALVE)
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
    _push_nested(trie, log, pair)
    return NEED_NOTHING


@kernel
def _return(trie: TrieState, log: AccessLog, frame: int) -> None:
    """A nested resize is whole: store its result in the new tnode and go on."""
    new = i64(trie.stack[frame, NEW])
    at = i64(trie.stack[frame, AT])
    phase = trie.stack[frame, PHASE]
    result = i64(trie.var[RESULT])
    if phase == LEFT_RESIZED:
        put_child(trie, new, 2 * at, result, False)
        trie.stack[frame, PHASE] = RIGHT_RESIZED
        _push_nested(trie, log, i64(trie.stack[frame, RIGHT]))
    elif phase == RIGHT_RESIZED:
        put_child(trie, new, 2 * at + 1, result, False)
        trie.stack[frame, AT] = at + 1
        trie.stack[frame, PHASE] = INFLATING
    else:
        put_child(trie, new, at >> 1, result, False)
        trie.stack[frame, AT] = at + 2
        trie.stack[frame, PHASE] = HALVING


@kernel
def run(trie: TrieState, log: AccessLog) -> int:
    """Work off the stack. NEED_NOTHING when it is empty (var[RESULT] is what replaces the tnode that was pushed first)."""
    while trie.var[DEPTH] > 0:
        if room(log) < STEP_RECORDS:
            return NEED_LOG
        frame = i64(trie.var[DEPTH] - 1)
        phase = trie.stack[frame, PHASE]
        need = NEED_NOTHING
        if phase == INFLATING:
            need = _inflate(trie, log, frame)
        elif phase == SPLITTING:
            _split(trie, log, frame)
        elif phase == HALVING:
            need = _halve(trie, log, frame)
        elif phase in (LEFT_RESIZED, RIGHT_RESIZED, PAIR_RESIZED):
            _return(trie, log, frame)
        else:
            need = _settle(trie, log, frame)
        if need != NEED_NOTHING:
            return need
    return NEED_NOTHING
