"""Damaged tables and updates: a table that keeps its promises, or a ValueError in one sentence; never anything else."""

import gzip
import itertools

import numpy as np
import pytest
from oracles import mrt_bytes as mrt

from traces.addresses import from_words
from traces.churn import WITHDRAWN, read_updates
from traces.routes import read_routes

A, B, C = "192.0.2.1", "192.0.2.2", "2001:db8::c"

WORDS = b"# a table\n0.0.0.0/0 192.0.2.1\n10.0.0.0/8 eth0\n10.1.0.0/16\n2001:db8::/32 2001:db8::1\ndefault a\n10.9.8.7 b\n"
IP_ROUTE = (
    b"default via 192.0.2.1 dev eth0 metric 100\n10.0.0.0/8 proto bird\n\tnexthop via 192.0.2.2 dev eth1 weight 1\n"
    b"\tnexthop via 192.0.2.3 dev eth2 weight 1\nblackhole 10.4.0.0/16\nlocal 192.0.2.7 dev lo table local\n"
    b"10.1.0.0/16 dev e tos 4\n"
)
ROUTE_N = (
    b"Kernel IP routing table\nDestination     Gateway         Genmask         Flags Metric Ref    Use Iface\n"
    b"0.0.0.0         192.0.2.1       0.0.0.0         UG    100    0        0 eth0\n"
    b"10.0.0.0        0.0.0.0         255.0.0.0       U     0      0        0 eth1\n"
)
ROUTE_6N = (
    b"Kernel IPv6 routing table\nDestination                    Next Hop                   Flag Met Ref Use If\n"
    b"2001:db8:1::/48                [::]                       U    256 1     0 eth0\n"
    b"[::]/0                         2001:db8:1::9              UG   1024 5    0 eth0\n"
)
SHOW = (
    b"Codes: K - kernel route, C - connected,\n       > - selected route, * - FIB route\n\nVRF default:\n"
    b"S>* 0.0.0.0/0 [1/0] via 192.0.2.1, eth0, weight 1, 01:02:03\nB>* 10.0.0.0/8 [20/0] via 192.0.2.2, eth1, 00:01:00\n"
    b"  *                   via 192.0.2.3, eth2, 00:01:00\nC>* 10.2.0.0/16 is directly connected, eth4, 00:02:00\n"
    b"S>* 2001:db8::/32 [1/0] via fe80::1, eth0\n"
)
PYASN = b"; IP-ASN-DAT file\n1.0.0.0/24\t15169\n1.0.4.0/22\t56203\n"
V2 = mrt.peer_index(A, B, C) + mrt.rib("10.0.0.0/8", (0, A), (1, B)) + mrt.rib("10.1.0.0/16", (1, B), (1, A), add_path=True)
V2 += mrt.rib("2001:db8:1::/48", (2, "2001:db8::c"))
V1 = mrt.table_dump("10.0.0.0/8", A, A) + mrt.table_dump("10.1.0.0/16", B, B) + mrt.table_dump("2001:db8:3::/48", A, "2001:db8::9")
UPDATES = (
    mrt.update(A, announced=["10.0.0.0/8", "10.1.0.0/16"], hop=A)
    + mrt.update(A, withdrawn=["10.0.0.0/8"], announced=["10.2.0.0/15"], hop=B, microseconds=7, as4=True)
    + mrt.update(A, withdrawn=["2001:db8:1::/48"], announced=["2001:db8:2::/49"], hop="2001:db8::9")
    + mrt.state_change(A, 6, 1)
    + mrt.update(C, announced=["2001:db8:3::/48"], hop="2001:db8::9", as4=True)
)
TABLES = {
    "words": WORDS,
    "ip route": IP_ROUTE,
    "route -n": ROUTE_N,
    "route -6 -n": ROUTE_6N,
    "show ip route": SHOW,
    "pyasn": PYASN,
    "TABLE_DUMP_V2": V2,
    "TABLE_DUMP": V1,
    "gzip": gzip.compress(WORDS, mtime=0),
}


def mutated(rng, content):
    """One to four things done to some bytes."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(0, len(data) + 1))
        size = int(rng.integers(1, 9))
        kind = int(rng.integers(0, 7))
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1 and at < len(data):
            data[at] = (0, 1, 2, 127, 128, 255, 10, 32, 47, 58)[int(rng.integers(0, 10))]
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            data[at:at] = rng.bytes(size)
        elif kind == 4:
            other = int(rng.integers(0, len(data) + 1))
            data[at:at] = data[other : other + 4 * size]
        elif kind == 5:
            data[at : at + size] = b"\xff" * size
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def check_rows(found, family):
    bits = 32 if family == 4 else 128
    addresses = from_words(found.prefix) if family == 6 else found.prefix.tolist()
    assert len(addresses) == found.plen.size == found.nexthop.size
    for address, plen in zip(addresses, found.plen.tolist(), strict=True):
        assert 0 <= plen <= bits
        assert address >> bits == 0
        assert address & ((1 << (bits - plen)) - 1) == 0
    assert all(note and "\n" not in note for note in found.notes())


def check_table(path, family):
    table = read_routes(path, family=family)
    check_rows(table, family)
    rows = list(zip(map(str, table.prefix.tolist()), table.plen.tolist(), strict=True))
    assert len(rows) == len(set(rows)) > 0
    assert ((table.nexthop >= 0) & (table.nexthop < len(table.nexthops))).all()


def check_churn(path, family):
    churn = read_updates(path, family=family)
    check_rows(churn, family)
    assert ((churn.nexthop >= WITHDRAWN) & (churn.nexthop < max(1, len(churn.nexthops)))).all()
    assert (np.diff(churn.time_ns) >= 0).all()


def try_many(folder, check, original, count, seed):
    """How many mutations were read, and how many refused; each must be one or the other."""
    rng = np.random.default_rng(seed)
    path = folder / "file"
    read = refused = 0
    writer = path.open("wb", buffering=0)  # opening it for every mutation costs more than all the rest
    for family in itertools.islice(itertools.cycle((4, 6)), count):
        content = mutated(rng, original)
        writer.seek(0)
        writer.truncate(writer.write(content))
        try:
            check(path, family)
            read += 1
        except ValueError as error:
            text = str(error)
            assert text, content
            assert str(path) in text, content
            assert "\n" not in text, content
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, {content!r}") from error
    writer.close()
    return read, refused


@pytest.mark.parametrize("form", TABLES)
def test_mutated_tables(tmp_path, form):
    read, refused = try_many(tmp_path, check_table, TABLES[form], 2000, 1)
    assert refused > 20
    assert read > 20 or form == "gzip"


def test_mutated_updates(tmp_path):
    read, refused = try_many(tmp_path, check_churn, UPDATES, 3000, 1)
    assert min(read, refused) > 50


@pytest.mark.slow
@pytest.mark.parametrize("form", TABLES)
def test_a_hundred_thousand_mutated_tables(tmp_path, form):
    try_many(tmp_path, check_table, TABLES[form], 100_000, 2)


@pytest.mark.slow
def test_a_hundred_thousand_mutated_updates(tmp_path):
    try_many(tmp_path, check_churn, UPDATES, 100_000, 2)
