"""The key of unicache's trie: the flow key behind a header that hashes all of it.

TRASH (Nilsson and others, HPSR 2007): a hash of the whole key, put in front of it, spreads the keys evenly, so that the trie is
as shallow as for random keys, and the key behind it keeps them apart. Width (32 bits) and function (Jenkins' lookup2, jhash2 of
include/linux/jhash.h, 2.6.20) are inferred.
"""

from models.jhash import GOLDEN_RATIO, M, mix_c
from models.kernel import U32, i64, kernel
from models.lc_trie.nodes import BITS, POS, ROOT, TrieState, child_at, index_of, is_leaf, is_tnode
from models.unicache.state import AHEAD, HEADER, KEY_WORDS, SECRET, SINK, UnicacheState


@kernel
def mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """lookup2's mix of three 32-bit words, all of them."""
    a = ((a - b - c) & M) ^ (c >> 13)
    b = ((b - c - a) & M) ^ ((a << 8) & M)
    c = ((c - a - b) & M) ^ (b >> 13)
    a = ((a - b - c) & M) ^ (c >> 12)
    b = ((b - c - a) & M) ^ ((a << 16) & M)
    c = ((c - a - b) & M) ^ (b >> 5)
    a = ((a - b - c) & M) ^ (c >> 3)
    b = ((b - c - a) & M) ^ ((a << 10) & M)
    c = ((c - a - b) & M) ^ (b >> 15)
    return a, b, c


@kernel
def hash_code(w0: int, w1: int, w2: int, w3: int, initval: int) -> int:
    """lookup2 of four 32-bit words: jhash2(key, 4, initval) of 2.6.20."""
    a, b, c = mix((GOLDEN_RATIO + w0) & M, (GOLDEN_RATIO + w1) & M, (initval + w2) & M)
    return mix_c((a + w3) & M, b, (c + 4 * KEY_WORDS) & M)


@kernel
def header_of(u: UnicacheState, key: U32, row: int) -> int:
    """Header of a flow key."""
    return hash_code(i64(key[row, 0]), i64(key[row, 1]), i64(key[row, 2]), i64(key[row, 3]), i64(u.var[SECRET]))


@kernel
def make_key(u: UnicacheState, key: U32, row: int, header: int) -> None:
    """Put header and flow key into u.probe."""
    u.probe[0, HEADER] = header
    for word in range(KEY_WORDS):
        u.probe[0, 1 + word] = key[row, word]


@kernel
def read_ahead(u: UnicacheState, trie: TrieState, key: U32, start: int, packets: int) -> None:
    """Compute the headers of up to AHEAD packets and read what their lookups will need, one level of the trie at a time.

    Changes nothing that is simulated: the loads of one level do not wait for each other, so the host has the rows at hand
    when the packets are looked up one after the other.
    """
    ahead = u.ahead
    packets = min(packets, AHEAD)
    root = i64(trie.var[ROOT])
    for j in range(packets):
        ahead[0, j] = header_of(u, key, start + j)
    for j in range(packets):
        ahead[1, j] = _below(trie, root, i64(ahead[0, j]))
    for j in range(packets):
        ahead[1, j] = _below(trie, i64(ahead[1, j]), i64(ahead[0, j]))
    seen = 0
    for j in range(packets):
        ref = i64(ahead[1, j])
        if is_leaf(ref):
            seen ^= i64(trie.leaf[index_of(ref), HEADER])
    u.var[SINK] = seen


@kernel
def _below(trie: TrieState, ref: int, header: int) -> int:
    """The reference one level below a tnode, as far as a header tells; a leaf stays."""
    if not is_tnode(ref):
        return ref
    n = index_of(ref)
    end = i64(trie.node[n, POS]) + i64(trie.node[n, BITS])
    if end > 32:
        return ref
    return child_at(trie, n, (header >> (32 - end)) & ((1 << i64(trie.node[n, BITS])) - 1))
