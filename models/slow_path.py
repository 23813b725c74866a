"""What the kernel touches between a missed lookup and the insertion: the slow path of a forwarded packet.

Models ip_route_input_slow and what it calls in net/ipv4/{route,fib_rules,fib_frontend,arp}.c, net/core/fib_rules.c and
net/core/neighbour.c, 2.6.20 with policy rules: two rule lookups a packet (destination, then source for the reverse path), each
of them in the local and then in the main table, the reference counts of both devices, and the neighbour of the next hop. The
last is looked up inside rt_intern_hash; it is written before the structure's own insertion here. A read lock is a write, as is
every reference count: on several CPUs these lines move.
Answers are not given: routes come from the batch. Left out: multicast, broadcast, multipath, redirects and reverse path filtering
(off by default); a packet without route or for the box itself ends where the kernel would leave the forwarding path.
"""

from typing import NamedTuple

import numpy as np

from models.access import READ, WRITE, AccessLog, call, room, touch
from models.fib_trie import FN_TRIE_LOOKUP, FibTrie
from models.fib_trie_lookup import FIB_INFO_NEXTHOP, LOOKUP_RECORDS, NEXTHOP, FibTable, fib_find, fib_info_address
from models.flow import DST, PROTO, SRC, PacketBatch
from models.functions import number
from models.interface import World
from models.jhash import jhash_2words
from models.kernel import I32, I64, NIL, i64, kernel

IP_ROUTE_INPUT_SLOW = number("ip_route_input_slow")
FIB_LOOKUP = number("fib_lookup")
FIB_GET_TABLE = number("fib_get_table")
FIB_RULES_LOOKUP = number("fib_rules_lookup")
FIB_VALIDATE_SOURCE = number("fib_validate_source")
ARP_BIND_NEIGHBOUR = number("arp_bind_neighbour")
NEIGH_LOOKUP = number("neigh_lookup")
MEMCMP = number("memcmp")
OTHER_SLOW_PATH = number("other_slow_path")

LOCAL_ADDRESSES = ((0xC0A801FE, 24), (0xC0A802FE, 24), (0xAC1FFFFE, 12), (0x7F000001, 8))
"""Addresses of the box with the length of their networks: 192.168.1.254, 192.168.2.254, 172.31.255.254, 127.0.0.1."""

INTERFACES = 1 << 16
"""Interface numbers of a flow key; a packet that came in by interface i leaves by i + 1."""
DEVICE_BYTES, DEVICE_REFCNT = 2048, 256
"""A net_device with its in_device: what routing reads (ip_ptr, flags) on the first line, the reference count on another."""
IN_DEV, IN_DEV_CONF = 1024, 1024 + 64
"""The in_device: reference count on its first line, configuration (forwarding, rp_filter) on the second."""
STATS_BYTES, STATS_NEIGH = 256, 128
"""Statistics of a CPU: rt_cache_stat, then those of the neighbour table."""
RULE_BYTES = 64
TABLE_BYTES = 64
NEIGHBOUR_BYTES, NEIGHBOUR_REFCNT, NEIGHBOUR_KEY = 256, 64, 128
"""A neighbour: chain and device on its first line, reference count on the second, key on the third."""
BUCKET_BYTES = 4
FIRST_NEXTHOP = 0xAC100001
"""Addresses of the next hops as the neighbour hash sees them are numbered from here; only their spread over the buckets matters."""

DEVICES, STATS, RULES, TABLES, NEIGHBOURS, BUCKETS, NEIGH_TABLE, MASK = range(8)
VARS = 8
LOCAL_RULE, MAIN_RULE, RULES_HEAD = 0, 1, 2
LOCAL_TABLE, MAIN_TABLE, TABLE_HASH = 0, 1, 2

MOST_CHAIN = 64
FIXED_RECORDS = 64
SLOW_PATH_RECORDS = 4 * LOOKUP_RECORDS + 2 * MOST_CHAIN + FIXED_RECORDS
"""Most records of one packet: four lookups that backtrack over every bit, a chain of MOST_CHAIN, the rest. Few come near."""


class SlowPathState(NamedTuple):
    """Both routing tables and the neighbour table."""

    local: FibTable
    main: FibTable
    bucket: I32  # int32[MASK + 1], first neighbour of each bucket or NIL; a power of two
    next: I32  # int32[next hops], next neighbour of the same bucket or NIL
    var: I64  # int64[VARS]: addresses of regions and the mask of the neighbour hash, see the index names above


@kernel
def _fib_lookup(state: SlowPathState, log: AccessLog, address: int) -> int:
    """fib_lookup: rules in order, the table of each. The leaf_info of the main table, NIL without route, -1 for a local address."""
    var = state.var
    call(log, FIB_LOOKUP, 1)
    call(log, FIB_RULES_LOOKUP, 1)
    touch(log, READ, FIB_RULES_LOOKUP, var[RULES] + RULES_HEAD * RULE_BYTES)
    if _in_table(state, state.local, log, LOCAL_RULE, LOCAL_TABLE, address) != NIL:
        return -1
    return _in_table(state, state.main, log, MAIN_RULE, MAIN_TABLE, address)


@kernel
def _in_table(state: SlowPathState, fib: FibTable, log: AccessLog, rule: int, table: int, address: int) -> int:
    """One rule's table. A rule that matched is held by a reference until the route is built."""
    var = state.var
    touch(log, READ, FIB_RULES_LOOKUP, var[RULES] + rule * RULE_BYTES)
    call(log, FIB_GET_TABLE, 1)
    touch(log, READ, FIB_GET_TABLE, var[TABLES] + TABLE_HASH * TABLE_BYTES)
    touch(log, READ, FIB_GET_TABLE, var[TABLES] + table * TABLE_BYTES)
    found = fib_find(fib, log, FN_TRIE_LOOKUP, address)
    if found != NIL:
        touch(log, WRITE, FIB_RULES_LOOKUP, var[RULES] + rule * RULE_BYTES)
    return found


@kernel
def _put_result(state: SlowPathState, log: AccessLog, function: int, found: int) -> None:
    """fib_res_put: drop the references that a lookup took."""
    if found >= 0 and found != NIL:
        touch(log, WRITE, function, fib_info_address(state.main, found))
        touch(log, WRITE, function, state.var[RULES] + MAIN_RULE * RULE_BYTES)


@kernel
def _validate_source(state: SlowPathState, log: AccessLog, device: int, source: int) -> None:
    """fib_validate_source: the reverse lookup, and the device that it leads to."""
    call(log, FIB_VALIDATE_SOURCE, 1)
    touch(log, READ, FIB_VALIDATE_SOURCE, device + IN_DEV_CONF)
    found = _fib_lookup(state, log, source)
    if found >= 0 and found != NIL:
        touch(log, READ, FIB_VALIDATE_SOURCE, fib_info_address(state.main, found) + FIB_INFO_NEXTHOP)
    _put_result(state, log, FIB_VALIDATE_SOURCE, found)


@kernel
def neighbour_bucket(nexthop: int, mask: int) -> int:
    """arp_hash: the bucket of a next hop."""
    return jhash_2words(FIRST_NEXTHOP + nexthop, 0, 0) & mask


@kernel
def _bind_neighbour(state: SlowPathState, log: AccessLog, cpu: int, nexthop: int) -> None:
    """arp_bind_neighbour: neigh_lookup under the table's read lock, a reference on what it finds."""
    var = state.var
    call(log, ARP_BIND_NEIGHBOUR, 1)
    call(log, NEIGH_LOOKUP, 1)
    touch(log, WRITE, NEIGH_LOOKUP, var[STATS] + cpu * STATS_BYTES + STATS_NEIGH)
    touch(log, WRITE, NEIGH_LOOKUP, var[NEIGH_TABLE])
    bucket = neighbour_bucket(nexthop, var[MASK])
    touch(log, READ, NEIGH_LOOKUP, var[BUCKETS] + bucket * BUCKET_BYTES)
    at = i64(state.bucket[bucket])
    while at != NIL:
        address = i64(var[NEIGHBOURS] + at * NEIGHBOUR_BYTES)
        touch(log, READ, NEIGH_LOOKUP, address)
        call(log, MEMCMP, 1)
        touch(log, READ, MEMCMP, address + NEIGHBOUR_KEY)
        if at == nexthop:
            touch(log, WRITE, NEIGH_LOOKUP, address + NEIGHBOUR_REFCNT)
            break
        at = i64(state.next[at])
    touch(log, WRITE, NEIGH_LOOKUP, var[NEIGH_TABLE])


@kernel
def _packet(state: SlowPathState, batch: PacketBatch, log: AccessLog, cpu: int, i: int) -> None:
    """The slow path of packet i. Up to SLOW_PATH_RECORDS records."""
    var = state.var
    slow = IP_ROUTE_INPUT_SLOW
    device = i64(var[DEVICES] + (i64(batch.key[i, PROTO]) & 0xFFFF) * DEVICE_BYTES)
    out_device = device + DEVICE_BYTES
    call(log, slow, 1)
    call(log, OTHER_SLOW_PATH, 1)
    touch(log, READ, slow, device)
    touch(log, WRITE, slow, device + IN_DEV)
    found = _fib_lookup(state, log, i64(batch.key[i, DST]))
    if found != NIL:
        touch(log, WRITE, slow, var[STATS] + cpu * STATS_BYTES)
        touch(log, READ, slow, device + IN_DEV_CONF)
        if found >= 0:
            touch(log, READ, slow, fib_info_address(state.main, found) + FIB_INFO_NEXTHOP)
            touch(log, READ, slow, out_device)
            touch(log, WRITE, slow, out_device + IN_DEV)
        _validate_source(state, log, device, i64(batch.key[i, SRC]))
        if found >= 0:
            # The new entry holds both devices and the outgoing in_device; the reference of __mkroute_input is dropped.
            touch(log, WRITE, slow, device + DEVICE_REFCNT)
            touch(log, WRITE, slow, out_device + DEVICE_REFCNT)
            touch(log, WRITE, slow, out_device + IN_DEV)
            _bind_neighbour(state, log, cpu, i64(state.main.info[found, NEXTHOP]))
    touch(log, WRITE, slow, device + IN_DEV)
    _put_result(state, log, slow, found)


@kernel
def slow_path(
    state: SlowPathState,
    batch: PacketBatch,
    log: AccessLog,
    slow: AccessLog,
    cpu: int,
    first: int,
    stop: int,
    open_: int,
    first_done: int,
) -> int:
    """Write the slow path of every missed packet of [first, stop) into `slow`; slow.end[k]: records used after the k-th of them.

    `log` says which packets missed. Packet `first` is left out when first_done != 0 (an earlier call has written it), packet
    `stop` is taken in when open_ != 0 (its lookup has failed, its insertion is not whole). Returns the number of packets written;
    -1, with `slow` half written, if it lacks room: SLOW_PATH_RECORDS records and a place in `end` for each packet suffice.
    """
    written = 0
    for i in range(first + (1 if first_done != 0 else 0), stop + (1 if open_ != 0 else 0)):
        if log.miss[i] == NIL:
            continue
        if room(slow) < SLOW_PATH_RECORDS or written >= slow.end.size:
            return -1
        _packet(state, batch, slow, cpu, i)
        slow.end[written] = slow.head[0]
        written += 1
    return written


class SlowPath:
    """The FIB as a slow path meets it: local table, main table, devices, neighbours. Routes of the main table may change."""

    def __init__(
        self,
        world: World,
        prefix: I64,
        plen: I64,
        route: I64,
        nexthop: I64,
        local: tuple[tuple[int, int], ...] = LOCAL_ADDRESSES,
        nexthops: int = 0,
    ) -> None:
        """`prefix`, `plen`, `route`, `nexthop`: int64[n] each, the main table; next hops are numbered from 0.

        `local`: addresses of the box, each with the length of its network. `nexthops`: next hops that routes may have later, if
        more than those of the table; all are neighbours from the start. ValueError for what is no routing table.
        """
        nexthops = max(nexthops, int(nexthop.max(initial=0)) + 1)
        memory = world.memory
        self.main = FibTrie(memory, "main table", nexthops=nexthops, cpus=world.cpus)
        self.main.load(prefix, plen, route, nexthop)
        self.local = FibTrie(memory, "local table", nexthops=max(1, len(local)), cpus=world.cpus, room=64)
        own = [
            (found, i)
            for i, (address, length) in enumerate(local)
            for found in (address, address & ~(0xFFFFFFFF >> length), address | 0xFFFFFFFF >> length)
        ]
        addresses, interfaces = np.array(own, np.int64).reshape(-1, 2).T
        self.local.load(addresses, np.full(len(own), 32, np.int64), np.zeros(len(own), np.int64), interfaces)
        mask = 1
        while nexthops > mask + 1:  # neigh_create doubles the hash when it holds more entries than buckets
            mask = 2 * mask + 1
        var = np.zeros(VARS, np.int64)
        var[DEVICES] = memory.region("network devices", (INTERFACES + 1) * DEVICE_BYTES)
        var[NEIGHBOURS] = memory.region("neighbours", nexthops * NEIGHBOUR_BYTES)
        # Small and always warm: together, as the kernel's own data, so that they share a large page.
        sizes = {RULES: 3 * RULE_BYTES, TABLES: 3 * TABLE_BYTES, NEIGH_TABLE: 256, STATS: world.cpus * STATS_BYTES}
        sizes[BUCKETS] = (mask + 1) * BUCKET_BYTES
        at = memory.region("routing data", sum(sizes.values()))
        for what, size in sizes.items():
            var[what] = at
            at += size
        var[MASK] = mask
        bucket, after = _chains(nexthops, mask)
        self.state = SlowPathState(self.local.table, self.main.table, bucket, after, var)

    def change(self, prefix: int, plen: int, route: int, nexthop: int) -> None:
        """Insert a prefix into the main table or change its route. ValueError for what is no prefix, route or next hop."""
        self.main.insert(prefix, plen, route, nexthop)
        self.state = self.state._replace(main=self.main.table)

    def remove(self, prefix: int, plen: int) -> bool:
        """Take a prefix out of the main table; False if it is not there."""
        gone = self.main.remove(prefix, plen)
        self.state = self.state._replace(main=self.main.table)
        return gone

    def route_of(self, address: int) -> int:
        """Route of one address in the main table, NO_ROUTE if it has none. Nothing is recorded."""
        return self.main.lookup(address)

    def lookup_batch(self, addresses: I64) -> I64:
        """Routes of int64[n] addresses in the main table."""
        return self.main.lookup_batch(addresses)


def _chains(nexthops: int, mask: int) -> tuple[I32, I32]:
    """Buckets and links of the neighbour hash; the newest neighbour is the first of its chain."""
    bucket = np.full(mask + 1, NIL, np.int32)
    after = np.full(nexthops, NIL, np.int32)
    length = np.zeros(mask + 1, np.int64)
    for k in range(nexthops):
        at = neighbour_bucket(k, mask)
        after[k], bucket[at] = bucket[at], k
        length[at] += 1
    if length.max() > MOST_CHAIN:
        raise ValueError(f"{nexthops} next hops make a neighbour chain of {length.max()}, at most {MOST_CHAIN} are allowed")
    return bucket, after
