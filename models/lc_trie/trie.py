"""One LC-trie: its pools, its place in simulated memory, its parameters.

Thresholds and the largest tnode are those of i386, 2.6.20: a tnode of 2^20 pointers and its header pass the largest block of
pages (4 MB), so a root stops at 2^19.
"""

import numpy as np

from models.kernel import I64, NIL, U32
from models.lc_trie import nodes, survey
from models.lc_trie.moves import FRAME
from models.lc_trie.nodes import HEADER, MOST_BITS, POINTER, TrieState
from models.lc_trie.update import IDLE
from models.simulated_memory import PAGE, SimulatedMemory
from models.slab import BASE, FIRST, PER_SLAB, SIZE, SLAB_BYTES, STRUCT_PAGE, SlabCache

SLAB_HEADER = 28
OFF_SLAB = 512
"""Objects of this size and more have their slab header elsewhere."""


def tnode_bytes(bits: int) -> int:
    """Bytes that a tnode takes: of the kmalloc cache that fits (no 96: they are aligned to 64-byte lines), or of 2^order pages."""
    size = HEADER + (POINTER << bits)
    if size <= 192:
        return next(s for s in (32, 64, 128, 192) if size <= s)
    return 1 << (size - 1).bit_length()


def slab_geometry(size: int) -> tuple[int, int, int]:
    """Objects in a slab, byte of the first, bytes of a slab, for objects of `size` bytes."""
    if size >= PAGE:
        return 1, 0, size
    if size >= OFF_SLAB:
        return PAGE // size, 0, PAGE
    count = (PAGE - SLAB_HEADER) // (size + 4)
    align = min(size & -size, 64)
    return count, -(-(SLAB_HEADER + 4 * count) // align) * align, PAGE


class LcTrie:
    """A trie over keys of `words` 32-bit words. `state` is replaced by `grow`: read it afresh for every kernel call."""

    def __init__(
        self,
        memory: SimulatedMemory,
        words: int,
        *,
        name: str,
        leaf_size: int = 32,
        columns: int = 0,
        cpus: int = 2,
        room: int = 1 << 10,
        inflate_threshold: int = 50,
        halve_threshold: int = 25,
        inflate_threshold_root: int = 25,
        halve_threshold_root: int = 15,
        max_bits: int = 19,
    ) -> None:
        """`leaf_size`: bytes of a leaf object. `columns`: words of each leaf row for the user. `max_bits`: 0 for no bound."""
        if words < 1:
            raise ValueError(f"keys need at least one word, got {words}")
        if not 0 <= max_bits <= MOST_BITS:
            raise ValueError(f"max_bits must be between 0 (no bound) and {MOST_BITS}, got {max_bits}")
        for what, inflate, halve in (
            ("", inflate_threshold, halve_threshold),
            ("_root", inflate_threshold_root, halve_threshold_root),
        ):
            # A tnode that has just doubled must not be due to halve.
            if not 0 < halve <= inflate <= 100:
                raise ValueError(f"need 0 < halve_threshold{what} <= inflate_threshold{what} <= 100, got {halve} and {inflate}")
        per_slab, first, slab_bytes = slab_geometry(leaf_size)
        self.leaves = SlabCache(
            memory, f"{name} leaves", leaf_size, per_slab=per_slab, first=first, slab_bytes=slab_bytes, cpus=cpus, room=room
        )
        self.words = words
        self._found: I64 = np.zeros(survey.SURVEY, np.int64)
        var = np.zeros(nodes.VARS, np.int64)
        var[nodes.WORDS] = words
        var[nodes.INFLATE], var[nodes.HALVE] = inflate_threshold, halve_threshold
        var[nodes.INFLATE_ROOT], var[nodes.HALVE_ROOT] = inflate_threshold_root, halve_threshold_root
        var[nodes.MAX_BITS] = max_bits or MOST_BITS
        var[nodes.UP] = IDLE
        leaf = self.leaves.state.var
        var[nodes.LEAF_BASE], var[nodes.LEAF_SIZE], var[nodes.LEAF_PER_SLAB] = leaf[BASE], leaf[SIZE], leaf[PER_SLAB]
        var[nodes.LEAF_FIRST], var[nodes.LEAF_SLAB] = leaf[FIRST], leaf[SLAB_BYTES]
        self.state = TrieState(
            var=var,
            node=np.zeros((room, 8), np.int32),
            prefix=np.zeros((room, words), np.uint32),
            child=np.zeros(4 * room, np.int32),
            leaf=_rows(self.leaves.room(), words + columns),
            size=self._sizes(memory, name, var, cpus),
            stack=np.zeros((32 * words + 2, FRAME), np.int64),
        )

    @staticmethod
    def _sizes(memory: SimulatedMemory, name: str, var: I64, cpus: int) -> I64:
        """Give every size of tnode its part of one region."""
        size = np.zeros((MOST_BITS + 1, nodes.CLASS), np.int64)
        offset = 0
        for bits in range(1, MOST_BITS + 1):
            per_slab, first, slab_bytes = slab_geometry(tnode_bytes(bits))
            most = max(4, (1 << MOST_BITS) >> bits)
            size[bits] = (tnode_bytes(bits), per_slab, first, slab_bytes, offset, 0, most, NIL, 0)
            offset += -(-most // per_slab) * slab_bytes
        base = memory.region(f"{name} tnodes", offset)
        size[:, nodes.BASE] += base
        var[nodes.TNODE_BASE] = base
        var[nodes.PAGES] = memory.region(f"struct pages of {name} tnodes", offset // PAGE * STRUCT_PAGE)
        var[nodes.ARRAYS] = memory.region(f"array caches of {name} tnodes", cpus * (MOST_BITS + 1) * 64)
        return size

    def grow(self) -> None:
        """Make room for what a step returned NEED_POOL for, and rows for every leaf that `leaves` has."""
        s = self.state
        var = s.var
        node, prefix, child, leaf = s.node, s.prefix, s.child, s.leaf
        rows = node.shape[0]
        while rows < var[nodes.NEXT_NODE] + var[nodes.WANT_NODES]:
            rows *= 2
        if rows > node.shape[0]:
            node = np.zeros((rows, 8), np.int32)
            node[: s.node.shape[0]] = s.node
            prefix = np.zeros((rows, self.words), np.uint32)
            prefix[: s.node.shape[0]] = s.prefix
        slots = child.size
        while slots < var[nodes.NEXT_SLOT] + var[nodes.WANT_SLOTS]:
            slots *= 2
        if slots > child.size:
            child = np.zeros(slots, np.int32)
            child[: s.child.size] = s.child
        if self.leaves.room() > leaf.shape[0]:
            leaf = _rows(self.leaves.room(), leaf.shape[1])
            leaf[: s.leaf.shape[0]] = s.leaf
        var[nodes.WANT_NODES] = var[nodes.WANT_SLOTS] = 0
        self.state = s._replace(node=node, prefix=prefix, child=child, leaf=leaf)

    def memory_bytes(self) -> int:
        """Simulated memory of tnodes in use and freed, and of leaf slabs, bytes."""
        size = self.state.size
        return int((size[:, nodes.SIZE] * size[:, nodes.TAKEN]).sum()) + self.leaves.bytes()

    def root_bits(self) -> int:
        """Bits of the root; 0 for an empty trie or a single leaf."""
        root = int(self.state.var[nodes.ROOT])
        return int(self.state.node[(root >> 1) - 1, nodes.BITS]) if root and not root & 1 else 0

    def triestat(self) -> dict[str, float | int | dict[int, int]]:
        """The fields of /proc/net/fib_triestat: Aver depth, Max depth, Leaves, Internal nodes, Pointers, Null ptrs, Total size."""
        return survey.triestat(self.state, self._found)

    def triestat_text(self) -> str:
        """The same as the text of the proc file."""
        return survey.triestat_text(self.state, self._found)

    def check(self) -> None:
        """Assert every invariant. Not while an insert or a remove is unfinished."""
        assert self.state.var[nodes.UP] == IDLE, "a change is unfinished"
        assert self.state.var[nodes.DEPTH] == 0, "a resize is unfinished"
        survey.check(self.state, self._found)
        self.leaves.check()


def _rows(rows: int, words: int) -> U32:
    """Zeroed rows; the first begins at a cache line of the host, so that rows of 32 bytes never straddle two."""
    buffer = np.zeros(rows * words + 16, np.uint32)
    skip = -(buffer.ctypes.data // 4) % 16
    return buffer[skip : skip + rows * words].reshape(rows, words)
