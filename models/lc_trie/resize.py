"""Inflate and halve: how a tnode's number of bits follows its filling.

Models resize, inflate and halve of net/ipv4/fib_trie.c, 2.6.20; thresholds after Nilsson and Tikkanen, "An experimental study
of compression methods for dynamic tries" (2002). A tnode with one child is replaced by it. It inflates while its children,
full ones counted twice, would take at least 50 % (root 25 %) of the slots of its double, then halves while less than 25 %
(root 15 %) of its own slots are taken. No limit on the number of rounds (max_resize came later). A tnode that cannot get memory
stays as it is.

The recursion (inflating splits larger full children, halving makes new tnodes, and each of these is resized in turn) is a stack
of frames in the state. `run` works it off in steps of at most STEP slots and returns before a step for which log or pools
have no room, so that the doubling of a root of half a million slots costs time where it happens.
"""

from models.access import READ, AccessLog, call, room, touch_range
from models.interface import NEED_LOG, NEED_NOTHING, NEED_POOL
from models.kernel import NIL, i64, kernel
from models.lc_trie.bits import copy_prefix
from models.lc_trie.moves import (
    AT,
    HALVE_FUNCTION,
    HALVING,
    INFLATE_FUNCTION,
    INFLATING,
    LEFT_RESIZED,
    NEW,
    OLD,
    PAIR_RESIZED,
    PHASE,
    RESIZE,
    RIGHT_RESIZED,
    SPLITTING,
    START,
    STEP_RECORDS,
    TOUCHED,
    TRY_HALVE,
    TRY_INFLATE,
    halve_step,
    inflate_step,
    split_step,
    take_result,
)
from models.lc_trie.nodes import (
    BITS,
    DEPTH,
    EMPTY,
    FULL,
    HALVE,
    HALVE_ROOT,
    HALVINGS,
    INFLATE,
    INFLATE_ROOT,
    INFLATIONS,
    MAX_BITS,
    PARENT,
    POINTER,
    POS,
    RESULT,
    WORDS,
    TrieState,
    child_at,
    free_tnode,
    new_tnode,
    node_room,
    slot_address,
    tnode_ref,
)


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
def _finish(trie: TrieState, result: int) -> None:
    trie.var[DEPTH] -= 1
    trie.var[RESULT] = result


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
def run(trie: TrieState, log: AccessLog) -> int:
    """Work off the stack. NEED_NOTHING when it is empty (var[RESULT] is what replaces the tnode that was pushed first)."""
    while trie.var[DEPTH] > 0:
        if room(log) < STEP_RECORDS:
            return NEED_LOG
        frame = i64(trie.var[DEPTH] - 1)
        phase = trie.stack[frame, PHASE]
        need = NEED_NOTHING
        if phase == INFLATING:
            need = inflate_step(trie, log, frame)
        elif phase == SPLITTING:
            split_step(trie, log, frame)
        elif phase == HALVING:
            need = halve_step(trie, log, frame)
        elif phase in (LEFT_RESIZED, RIGHT_RESIZED, PAIR_RESIZED):
            take_result(trie, log, frame)
        else:
            need = _settle(trie, log, frame)
        if need != NEED_NOTHING:
            return need
    return NEED_NOTHING
