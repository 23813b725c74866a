"""A routing table generated from a seed: a thousand prefixes in the range that generated traffic goes to, and a default route."""

import numpy as np

from traces.addresses import format_address, mask, parse_prefix
from traces.routes.table import RouteTable, make_routes

LENGTH_SHARES = {8: 20, 9: 12, 10: 13, 11: 10, 12: 10, 13: 5, 14: 5, 15: 5, 16: 20}
"""Per cent of the generated prefixes by bits beyond those of the range they lie in (in 10.0.0.0/8: /16 to /24)."""

FIRST_NEXTHOP = 0xAC100001
"""172.16.0.1; generated next hops are numbered from here, inside 172.16.0.0/12."""
MAX_PREFIXES = 1 << 19


def default_routes(seed: int | np.random.Generator, prefixes: int = 1000, inside: str = "10.0.0.0/8") -> RouteTable:
    """`prefixes` distinct prefixes inside a range, by LENGTH_SHARES, and a default route last, each with a next hop of its own.

    Networks are drawn evenly, so prefixes may nest; of the addresses of a /8, a thousand prefixes cover about three quarters, the
    default route the rest, and every address outside (the senders' too). ValueError if the range has no room for so many.
    """
    if not 1 <= prefixes <= MAX_PREFIXES:
        raise ValueError(f"the number of prefixes must be from 1 to {MAX_PREFIXES}, got {prefixes}")
    network, plen = parse_prefix(inside)
    rng = np.random.default_rng(seed)
    beyond = np.array(list(LENGTH_SHARES))
    shares = np.array(list(LENGTH_SHARES.values())) / 100
    # Twice as many addresses as asked for, so that few draws repeat; a short range is used to its last bit.
    room = sum(1 << int(bits) for bits in np.unique(np.minimum(beyond, 32 - plen)))
    if prefixes * 2 > room:
        raise ValueError(
            f"{inside} has no room for {prefixes} generated prefixes; use a shorter prefix or at most {room // 2} of them"
        )
    chosen: dict[tuple[int, int], None] = {}
    while len(chosen) < prefixes:
        draws = prefixes - len(chosen)
        lengths = plen + np.minimum(rng.choice(beyond, draws, p=shares), 32 - plen)
        addresses = network | rng.integers(0, 1 << (32 - plen), draws)
        for address, length in zip(addresses.tolist(), lengths.tolist(), strict=True):
            chosen[address & mask(length), length] = None
    routes = [(address, length, format_address(FIRST_NEXTHOP + i)) for i, (address, length) in enumerate(chosen)]
    return make_routes([*routes, (0, 0, format_address(FIRST_NEXTHOP + prefixes))])
