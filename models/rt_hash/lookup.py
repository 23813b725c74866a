"""The fast path: ip_route_input's walk along one chain.

Source: net/ipv4/route.c, 2.6.20, ip_route_input and rt_hash_code. The slot is jhash_2words(daddr, saddr ^ iif << 5, secret) without
tos; addresses go in in host order, where the kernel takes them as they lie in memory (equivalent under a random secret).
Every entry that does not match costs its key line and the line of its next pointer; a match writes lastuse, refcnt and use.
These writes are the function's last instructions, and a sampling profiler finds a CPU that waits for them in the function it
returned to: their line is charged to ip_rcv. (Seen in the published profiles: ip_rcv costs 380 cycles more behind the hash than
behind the trie, about two lines, of which `input` is one.)
Chains are never reordered by a hit.
"""

from models.access import ON, READ, WRITE, AccessLog, call, touch
from models.functions import number
from models.jhash import jhash_2words
from models.kernel import NIL, U32, i64, kernel
from models.rt_hash.state import (
    AHEAD,
    AHEAD_LEVELS,
    AT_KEY,
    AT_LASTUSE,
    AT_NEXT,
    AT_USE,
    DEPTH,
    DEPTHS,
    DST,
    IIF_TOS,
    IN_HLIST_MISS,
    IN_HLIST_SEARCH,
    LASTUSE,
    MASK,
    NEXT,
    RND,
    SRC,
    USE,
    RtTable,
    apart,
    touch_bucket,
)
from models.slab import SlabState, object_address

IP_ROUTE_INPUT = number("ip_route_input")
IP_RCV = number("ip_rcv")
RT_HASH_CODE = number("rt_hash_code")

TOS_MASK = 0x1C


@kernel
def iif_tos(word: int) -> int:
    """The part of a flow key's last word that the cache tells entries apart by: interface | tos << 16."""
    return word & (0xFFFF | (TOS_MASK << 16))


@kernel
def bucket_of(src: int, dst: int, iif: int, secret: int, mask: int) -> int:
    """Bucket of a flow in a table of mask + 1 buckets under this secret."""
    return jhash_2words(dst, src ^ ((iif & 0xFFFF) << 5), secret) & mask


@kernel
def rt_hash_code(table: RtTable, src: int, dst: int, iif: int) -> int:
    """Bucket of a flow."""
    return i64(bucket_of(src, dst, iif, table.var[RND], table.var[MASK]))


@kernel
def lookup(table: RtTable, cache: SlabState, log: AccessLog, slot: int, src: int, dst: int, iif: int, jiffies: int) -> int:
    """Entry of a flow, with its lastuse renewed, or NIL. Up to 3 + 2 * chain records."""
    var = table.var
    row = table.row
    on = log.head[ON] != 0
    call(log, RT_HASH_CODE, 1)
    call(log, IP_ROUTE_INPUT, 1)
    touch_bucket(table, log, READ, IP_ROUTE_INPUT, slot)
    entry = i64(table.bucket[slot])
    depth = 0
    while entry != NIL:
        if on:
            touch(log, READ, IP_ROUTE_INPUT, object_address(cache, entry) + var[AT_KEY])
        if i64(row[entry, DST]) == dst and i64(row[entry, SRC]) == src and i64(row[entry, IIF_TOS]) == iif:
            row[entry, LASTUSE] = jiffies & 0xFFFFFFFF
            row[entry, USE] = (i64(row[entry, USE]) + 1) & 0xFFFFFFFF
            if on:
                touch(log, WRITE, IP_RCV, object_address(cache, entry) + var[AT_LASTUSE])
                if apart(table, AT_USE, AT_LASTUSE):
                    touch(log, WRITE, IP_RCV, object_address(cache, entry) + var[AT_USE])
            table.stat[IN_HLIST_SEARCH] += depth
            table.stat[DEPTH + min(depth, DEPTHS - 1)] += 1
            return entry
        if on and apart(table, AT_NEXT, AT_KEY):
            touch(log, READ, IP_ROUTE_INPUT, object_address(cache, entry) + var[AT_NEXT])
        depth += 1
        entry = i64(row[entry, NEXT])
    table.stat[IN_HLIST_SEARCH] += depth
    table.stat[IN_HLIST_MISS] += depth
    return NIL


@kernel
def find(table: RtTable, cache: SlabState, log: AccessLog, src: int, dst: int, word: int, jiffies: int) -> int:
    """lookup() of a flow given by its key words."""
    iif = iif_tos(word)
    return lookup(table, cache, log, rt_hash_code(table, src, dst, iif), src, dst, iif, jiffies)


@kernel
def read_ahead(table: RtTable, key: U32, start: int, stop: int) -> None:
    """Compute the buckets of packets [start, stop), at most AHEAD, and walk their chains, level by level.

    Changes nothing that is simulated: the loads of one level do not wait for each other, so the host has the rows at hand
    when the packets are looked up one after the other.
    """
    ahead = table.ahead
    packets = min(stop - start, AHEAD)
    for j in range(packets):
        iif = iif_tos(i64(key[start + j, 3]))
        ahead[0, j] = rt_hash_code(table, i64(key[start + j, 0]), i64(key[start + j, 1]), iif)
    for j in range(packets):
        ahead[1, j] = table.bucket[ahead[0, j]]
    for _ in range(AHEAD_LEVELS):
        for j in range(packets):
            entry = i64(ahead[1, j])
            if entry != NIL:
                found = i64(table.row[entry, DST]) == i64(key[start + j, 1])
                ahead[1, j] = NIL if found else table.row[entry, NEXT]
