"""A flood of flows that all fall into one bucket of the routing cache's hash table.

Source: net/ipv4/route.c, 2.6.20, rt_hash_code; the attack of S. Crosby and D. Wallach, Denial of Service via Algorithmic Complexity
Attacks, USENIX Security 2003. Flows are searched for with the kernel's own hash under a secret that the attacker knows, 0 for a
table without one. Against a secret that was drawn they spread like any others. IPv4 only, as the cache is.
"""

from typing import Any

import numpy as np

from models.flow import PROTO_UDP
from models.kernel import I64, U32, kernel
from models.rt_hash.lookup import bucket_of
from traces.made.stream import make_header, make_stream, parse_prefix_of
from traces.made.universe import Universe

MOST_FLOWS = 1 << 16
MARGIN = 1.2
"""So many times the flows that the prefixes should hold in the mean for one bucket, before a search is begun."""

MOST_TRIES = 16
"""So many times the tries that are needed in the mean a search may make."""

# Fields of what is searched for
SOURCE, SOURCE_MASK, SOURCE_BITS, DESTINATION, DESTINATION_MASK, INTERFACE, SECRET, MASK, BUCKET = 0, 1, 2, 3, 4, 5, 6, 7, 8


@kernel
def search(wanted: I64, first: int, last: int, found: I64, keys: U32) -> int:
    """Try the pairs of addresses from number `first` to before `last`; found[0] of `keys` are filled. Returns the next to try."""
    for number in range(first, last):
        if found[0] == keys.shape[0]:
            return number
        src = wanted[SOURCE] | (number & wanted[SOURCE_MASK])
        dst = wanted[DESTINATION] | ((number >> wanted[SOURCE_BITS]) & wanted[DESTINATION_MASK])
        if bucket_of(src, dst, wanted[INTERFACE], wanted[SECRET], wanted[MASK]) == wanted[BUCKET]:
            keys[found[0], 0] = src
            keys[found[0], 1] = dst
            found[0] += 1
    return last


class Collisions(Universe):
    """An endless stream of `flows` flows, each packet of one drawn evenly, that collide in `bucket` of a table of so many buckets.

    Sources and destinations are taken from the prefixes `sources` and `destinations` in order, the first that collide under
    `secret`. About flows * buckets pairs of addresses are tried. Packets are evenly spaced at `rate_pps`; `rng` must be this
    source's own. ValueError for what cannot work, for instance prefixes that hold too few pairs.
    """

    def __init__(
        self,
        flows: int = 1000,
        *,
        buckets: int = 32768,
        secret: int = 0,
        bucket: int = 0,
        rate_pps: float = 500_000.0,
        sources: str = "10.0.0.0/8",
        destinations: str = "172.16.0.0/12",
        sport: int = 40000,
        dport: int = 80,
        protocol: int = PROTO_UDP,
        packet_bytes: int = 62,
        interface: int = 1,
        rng: np.random.Generator,
        start_ns: int = 0,
    ) -> None:
        if not 1 <= flows <= MOST_FLOWS:
            raise ValueError(f"flows must be from 1 to {MOST_FLOWS:,}, got {flows:,}")
        if not 1 <= buckets <= 1 << 25 or buckets & (buckets - 1):
            raise ValueError(f"buckets must be a power of two up to {1 << 25}, got {buckets}")
        if not 0 <= bucket < buckets:
            raise ValueError(f"the bucket must be from 0 to {buckets - 1}, got {bucket}")
        if not 0 <= secret < 1 << 32:
            raise ValueError(f"the secret must be from 0 to {(1 << 32) - 1}, got {secret}")
        header = make_header(4, "0.0.0.0", "0.0.0.0", sport, dport, protocol, interface)
        stream = make_stream(rate_pps=rate_pps, header=header, draws=1, packet_bytes=packet_bytes, start_ns=start_ns)
        keys = np.zeros((flows, header.size), np.uint32)
        keys[:] = header
        src, src_plen = parse_prefix_of(sources, 4)
        dst, dst_plen = parse_prefix_of(destinations, 4)
        pairs = 1 << (64 - src_plen - dst_plen)
        if pairs < MARGIN * flows * buckets:
            raise ValueError(
                f"{sources} and {destinations} hold {pairs:,} pairs of addresses, too few for {flows:,} in one of {buckets:,} "
                "buckets; give shorter prefixes, fewer flows or fewer buckets"
            )
        masks = (1 << (32 - src_plen)) - 1, (1 << (32 - dst_plen)) - 1
        wanted = np.array([src, masks[0], 32 - src_plen, dst, masks[1], interface, secret, buckets - 1, bucket], np.int64)
        found = np.zeros(1, np.int64)
        self.tried = int(search(wanted, 0, min(pairs, MOST_TRIES * flows * buckets), found, keys))
        if found[0] < flows:
            raise ValueError(f"{sources} and {destinations} hold {found[0]:,} flows for bucket {bucket}; give shorter prefixes")
        described: dict[str, Any] = {
            "source": "collisions",
            "flows": flows,
            "buckets": buckets,
            "bucket": bucket,
            "secret": secret,
            "rate_pps": float(rate_pps),
            "sources": sources,
            "destinations": destinations,
            "pairs_tried": self.tried,
            "interface": interface,
            "packet_bytes": packet_bytes,
        }
        super().__init__(stream, rng, described, keys, np.ones(flows))
