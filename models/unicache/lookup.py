"""The fast path: key, descent, comparison, match on the leaf's list, then the tests for the end of a flow.

What each function touches is inferred with sight of the published profile (Olsson, netdev, 19 Feb 2007): trie_lookup the
headers and slots, tkey_equals the leaf's line, ip_route_input the entry's key and its lastuse, unicache_tcp_establish the line
beside `input`, so that ip_rcv, which comes after, finds it warm. The header is hashed once a lookup; tkey_extract_bits is called
once to make the key and once a tnode.
"""

from models.access import ON, READ, WRITE, AccessLog, call, touch
from models.functions import number
from models.kernel import NIL, i64, kernel
from models.lc_trie.moves import EXTRACT
from models.lc_trie.nodes import TrieState, leaf_address
from models.lc_trie.update import descend, equals
from models.unicache.state import AT_KEY, AT_REFCNT, AT_STATE, LASTUSE, ROUTE, UnicacheState, entry_address

TRIE_LOOKUP = number("trie_lookup")
TKEY_EQUALS = number("tkey_equals")
HASH_CODE = number("unicache_hash_code")
IP_ROUTE_INPUT = number("ip_route_input")
TCP_ESTABLISH = number("unicache_tcp_establish")
MATCH_PKTGEN = number("match_pktgen")
ACTIVE_GC = number("unicache_garbage_collect_active")

LOOKUP_EXTRA = 4
"""Records of a lookup beyond those of the descent."""


@kernel
def lookup(u: UnicacheState, trie: TrieState, log: AccessLog, jiffies: int) -> int:
    """Leaf of the flow in u.probe, its lastuse renewed, or NIL. Up to descent_records + LOOKUP_EXTRA records."""
    call(log, IP_ROUTE_INPUT, 1)
    call(log, HASH_CODE, 1)
    call(log, EXTRACT, 1)
    call(log, TRIE_LOOKUP, 1)
    leaf = descend(trie, log, TRIE_LOOKUP, u.probe, 0)
    if leaf == NIL:
        return NIL
    call(log, TKEY_EQUALS, 1)
    if log.head[ON] != 0:
        touch(log, READ, TKEY_EQUALS, leaf_address(trie, leaf))
    if not equals(trie, u.probe, 0, leaf):
        return NIL
    trie.leaf[leaf, LASTUSE] = jiffies & 0xFFFFFFFF
    entry = entry_address(trie, leaf)
    touch(log, READ, IP_ROUTE_INPUT, entry + AT_KEY)
    touch(log, WRITE, IP_ROUTE_INPUT, entry + AT_REFCNT)
    call(log, TCP_ESTABLISH, 1)
    touch(log, READ, TCP_ESTABLISH, entry + AT_STATE)
    call(log, MATCH_PKTGEN, 1)
    call(log, ACTIVE_GC, 1)
    return leaf


@kernel
def route_of(trie: TrieState, leaf: int) -> int:
    """Route of a leaf's entry; the row holds it as an unsigned word."""
    word = i64(trie.leaf[leaf, ROUTE])
    return word - ((word >> 31) << 32)
