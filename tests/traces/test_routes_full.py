"""Generated full tables: as many prefixes as asked for, shaped as the table of 2008."""

import numpy as np
import pytest

from traces.addresses import from_words
from traces.routes import full_table
from traces.routes.shape_2008 import LENGTHS, OUTER_BY_OCTET


def rows(table):
    addresses = from_words(table.prefix) if table.family == 6 else table.prefix.tolist()
    return list(zip(addresses, table.plen.tolist(), strict=True))


def parents(table, bits):
    """For each row, the row of the longest prefix around it, -1 for none; the rows must be in order."""
    found, open_ = [], []
    for i, (address, plen) in enumerate(rows(table)):
        while open_ and open_[-1][0] <= address:
            open_.pop()
        found.append(open_[-1][1] if open_ else -1)
        open_.append((address + (1 << (bits - plen)), i))
    return np.array(found)


@pytest.fixture(scope="module")
def table():
    return full_table(1, 270_849)


def test_the_shape_adds_up():
    assert sum(length.prefixes for length in LENGTHS.values()) == 270_849
    nested = sum(sum(length.inside.values()) for length in LENGTHS.values())
    assert nested + sum(sum(counts) for counts in OUTER_BY_OCTET.values()) == 270_849
    assert [len(counts) for counts in OUTER_BY_OCTET.values()] == [224] * 3
    for plen, length in LENGTHS.items():
        assert sum(length.inside.values()) <= length.prefixes
        assert length.holders <= length.prefixes
        assert all(parent < plen for parent in length.inside)


def test_lengths_are_those_of_2008_to_the_last(table):
    assert {plen: int(n) for plen, n in enumerate(np.bincount(table.plen)) if n} == {p: x.prefixes for p, x in LENGTHS.items()}
    assert len(set(rows(table))) == 270_849
    assert rows(table) == sorted(rows(table))
    assert not any(address & (0xFFFFFFFF >> plen) for address, plen in rows(table))


def test_nesting_and_neighbours_are_near_those_of_2008(table):
    around = parents(table, 32)
    nested = around >= 0
    held = np.zeros(table.plen.size, bool)
    held[around[nested]] = True
    known = set(rows(table))
    for plen, length in LENGTHS.items():
        of = table.plen == plen
        assert abs(nested[of].mean() - sum(length.inside.values()) / length.prefixes) < 0.01
        if length.prefixes < 3000:
            continue
        size = 1 << (32 - plen)
        near = [(address + size, plen) in known or (address - size, plen) in known for address in table.prefix[of].tolist()]
        assert abs(np.mean(near) - length.adjacent) < 0.1, plen
    assert abs(nested.mean() - 0.5425) < 0.005
    assert abs(held.sum() / 23_867 - 1) < 0.2, "prefixes that hold others"
    blocks = np.unique(table.prefix[table.plen >= 16] >> 16).size
    assert abs(blocks / 20_234 - 1) < 0.2, "/16s in use"


def test_next_hops(table):
    assert len(table.nexthops) == len(set(table.nexthops)) == 32
    share = np.bincount(table.nexthop, minlength=32) / 270_849
    expected = 1 / np.arange(1, 33) / (1 / np.arange(1, 33)).sum()
    assert np.abs(share - expected).max() < 0.02
    around = parents(table, 32)
    nested = around >= 0
    assert 0.6 < (table.nexthop[nested] == table.nexthop[around[nested]]).mean() < 0.8


@pytest.mark.parametrize("prefixes", [100, 777, 30_000, 400_000])
@pytest.mark.parametrize("family", [4, 6])
def test_any_size_and_seed(prefixes, family):
    for seed in range(3):
        if family == 6:
            prefixes = min(prefixes, 100_000)
        table = full_table(seed, prefixes, family, default=seed == 1, nexthops=1 + seed)
        assert table.plen.size == len(set(rows(table))) == prefixes
        assert table.has_default() == (seed == 1)
        assert table.nexthop.max() < len(table.nexthops) == 1 + seed
        if family == 6:
            assert table.prefix.dtype == np.uint32
            assert table.prefix.shape == (prefixes, 4)
            assert all(address & ((1 << (128 - plen)) - 1) == 0 for address, plen in rows(table))
        if prefixes > 20_000:
            break


def test_ipv6_is_ruled_by_32_and_48():
    small, large = full_table(1, 1100, 6), full_table(1, 20_000, 6)
    assert (small.plen == 32).mean() > 0.8
    assert (large.plen == 32).mean() > 0.3
    assert (large.plen == 48).mean() > 0.4
    assert all(address >> 125 == 1 for address, _ in rows(large)), "global unicast"
    assert "/20 2001:db8:0:ffff::" in large.text(0)


def test_a_seed_gives_one_table():
    one, same, other = full_table(5, 2000), full_table(np.random.default_rng(5), 2000), full_table(6, 2000)
    assert rows(one) == rows(same) != rows(other)
    assert one.nexthop.tolist() == same.nexthop.tolist()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1, 99), "a generated full table of IPv4 has from 100 to 1048576 prefixes, got 99"),
        ((1, 100_001, 6), "a generated full table of IPv6 has from 100 to 100000 prefixes, got 100001"),
        ((1, 1000, 5), "a routing table is of family 4 or 6, got 5"),
    ],
)
def test_impossible_tables(arguments, sentence):
    with pytest.raises(ValueError) as error:
        full_table(*arguments)
    assert str(error.value) == sentence
    with pytest.raises(ValueError, match="at least one next hop, got 0"):
        full_table(1, nexthops=0)
