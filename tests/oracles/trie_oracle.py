"""The dynamic LC-trie written plainly: keys are Python integers, nodes are objects, resizing is recursive.

Same algorithm as models/lc_trie, from the same description, with nothing of its storage: what it says of a set of keys is
compared node by node.
"""

from dataclasses import dataclass, field


@dataclass
class Tnode:
    pos: int
    bits: int
    children: "list[Tnode | int | None]" = field(default_factory=list)  # a leaf is its key

    def __post_init__(self) -> None:
        self.children = self.children or [None] * (1 << self.bits)

    def taken(self) -> int:
        return sum(c is not None for c in self.children)

    def full(self) -> int:
        return sum(isinstance(c, Tnode) and c.pos == self.pos + self.bits for c in self.children)


Child = Tnode | int | None


class TrieOracle:
    """A set of keys of `width` bits."""

    def __init__(
        self, width: int, inflate: int = 50, halve: int = 25, inflate_root: int = 25, halve_root: int = 15, most: int = 99
    ) -> None:
        self.width = width
        self.thresholds = ((inflate, halve), (inflate_root, halve_root))
        self.most = most
        self.root: Child = None
        self.keys: set[int] = set()

    def bits(self, key: int, pos: int, bits: int) -> int:
        return (key >> (self.width - pos - bits)) & ((1 << bits) - 1)

    def any_key(self, child: Child) -> int:
        while isinstance(child, Tnode):
            child = next(c for c in child.children if c is not None)
        assert child is not None
        return child

    def first_difference(self, a: int, b: int) -> int:
        return self.width - (a ^ b).bit_length()

    def insert(self, key: int) -> None:
        assert key not in self.keys
        self.keys.add(key)
        path: list[tuple[Tnode, int]] = []
        child = self.root
        while isinstance(child, Tnode) and self.first_difference(key, self.any_key(child)) >= child.pos:
            path.append((child, self.bits(key, child.pos, child.bits)))
            child = child.children[path[-1][1]]
        if child is None:
            new: Child = key
        else:
            other = self.any_key(child)
            pos = self.first_difference(key, other)
            new = Tnode(pos, 1, [key, child] if self.bits(key, pos, 1) == 0 else [child, key])
        self._hang(path, new)
        if not path:
            self.root = self.resize(self.root, True)
        self._rebalance(path)

    def remove(self, key: int) -> None:
        self.keys.remove(key)
        path: list[tuple[Tnode, int]] = []
        child = self.root
        while isinstance(child, Tnode):
            path.append((child, self.bits(key, child.pos, child.bits)))
            child = child.children[path[-1][1]]
        assert child == key
        self._hang(path, None)
        self._rebalance(path)

    def _hang(self, path: list[tuple[Tnode, int]], child: Child) -> None:
        if path:
            path[-1][0].children[path[-1][1]] = child
        else:
            self.root = child

    def _rebalance(self, path: list[tuple[Tnode, int]]) -> None:
        while path:
            node, _ = path.pop()
            self._hang(path, self.resize(node, not path))

    def resize(self, node: Child, root: bool = False) -> Child:
        if not isinstance(node, Tnode):
            return node
        inflate, halve = self.thresholds[root]
        if node.taken() < 2:
            return next((c for c in node.children if c is not None), None)
        while node.full() and node.bits < self.most and 50 * (node.full() + node.taken()) >= inflate * len(node.children):
            node = self.inflated(node)
        while node.bits > 1 and 100 * node.taken() < halve * len(node.children):
            node = self.halved(node)
        if node.taken() == 1:
            return next(c for c in node.children if c is not None)
        return node

    def inflated(self, node: Tnode) -> Tnode:
        new = Tnode(node.pos, node.bits + 1)
        below = node.pos + node.bits
        for i, child in enumerate(node.children):
            if child is None:
                continue
            if not isinstance(child, Tnode) or child.pos > below:
                new.children[2 * i + self.bits(self.any_key(child), below, 1)] = child
            elif child.bits == 1:
                new.children[2 * i : 2 * i + 2] = child.children
            else:
                half = len(child.children) // 2
                for side in (0, 1):
                    part = Tnode(child.pos + 1, child.bits - 1, child.children[side * half : (side + 1) * half])
                    new.children[2 * i + side] = self.resize(part)
        return new

    def halved(self, node: Tnode) -> Tnode:
        new = Tnode(node.pos, node.bits - 1)
        for i in range(len(new.children)):
            left, right = node.children[2 * i : 2 * i + 2]
            if left is None or right is None:
                new.children[i] = right if left is None else left
            else:
                new.children[i] = self.resize(Tnode(node.pos + new.bits, 1, [left, right]))
        return new

    def shape(self, child: Child = None, top: bool = True) -> object:
        """The trie as nested tuples: (pos, bits, children), keys for leaves."""
        child = self.root if top else child
        if isinstance(child, Tnode):
            return (child.pos, child.bits, tuple(self.shape(c, False) for c in child.children))
        return child
