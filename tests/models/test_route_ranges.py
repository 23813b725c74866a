import numpy as np
import pytest
import pytricia
from hypothesis import given
from hypothesis import strategies as st

from models.flow import DST, make_batch
from models.route_ranges import NO_ROUTE, RouteRanges


def table(prefixes):
    prefix, plen = (np.array(column, np.int64) for column in zip(*prefixes, strict=True))
    return RouteRanges(prefix, plen, np.arange(len(prefixes), dtype=np.int64))


@st.composite
def tables(draw):
    chosen = set()
    for _ in range(draw(st.integers(1, 12))):
        plen = draw(st.integers(0, 32))
        address = draw(st.integers(0, (1 << 32) - 1)) & draw(st.sampled_from([0xFFFFFFFF, 0xC0000003, 0x0A0000FF]))
        chosen.add((address >> (32 - plen) << (32 - plen), plen))
    return sorted(chosen)


@given(tables(), st.integers(0, (1 << 32) - 1))
def test_agrees_with_a_linear_scan_and_a_patricia_trie(prefixes, other):
    ranges = table(prefixes)
    tree = pytricia.PyTricia(32)
    for route, (network, plen) in enumerate(prefixes):
        tree.insert(network.to_bytes(4, "big"), plen, route)
    edges = [a for n, p in prefixes for a in (n, n + (1 << (32 - p)) - 1, n - 1, n + (1 << (32 - p)))]
    addresses = [a for a in [*edges, other] if 0 <= a < 1 << 32]
    batch = make_batch(len(addresses))
    batch.key[:, DST] = addresses
    batch.packets[0] = len(addresses)
    ranges.resolve(batch)
    for i, address in enumerate(addresses):
        fits = [(p, r) for r, (n, p) in enumerate(prefixes) if address >> (32 - p) == n >> (32 - p)]
        expected = max(fits)[1] if fits else NO_ROUTE
        assert expected == ranges.lookup(address) == batch.route[i]
        assert (tree.get(address.to_bytes(4, "big")) if fits else NO_ROUTE) == expected


def test_host_bits_and_double_prefixes_are_refused():
    with pytest.raises(ValueError, match="not a prefix"):
        table([(1, 24)])
    with pytest.raises(ValueError, match="stands twice"):
        table([(0, 8), (0, 8)])
