"""Routing tables from MRT dumps, against records written by hand."""

import builtins
import gzip

import pytest
from oracles import mrt_bytes as mrt

from traces.routes import read_routes

A, B, C = "192.0.2.1", "192.0.2.2", "2001:db8::c"


def rows(table):
    return [table.text(i) for i in range(table.plen.size)]


def read(tmp_path, content, **options):
    (tmp_path / "rib").write_bytes(content)
    return read_routes(tmp_path / "rib", **options)


def refused(tmp_path, content, **options):
    with pytest.raises(ValueError) as error:
        read(tmp_path, content, **options)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{tmp_path}/", "")


V2 = [
    mrt.peer_index(A, B, C),
    mrt.rib("0.0.0.0/0", (1, B)),
    mrt.rib("10.0.0.0/8", (0, A), (1, "198.51.100.7")),
    mrt.rib("10.1.0.0/15", (1, B)),  # a host bit
    mrt.rib("10.2.3.4/32", (0, A), (1, B), (1, "198.51.100.8"), add_path=True),
    mrt.rib("10.3.0.0/16", (1, None)),
    mrt.rib("10.0.0.0/8", (1, B)),
    mrt.rib("2001:db8:1::/48", (1, "2001:db8::b"), (2, "2001:db8::c")),
    mrt.rib("2001:db8:2::/48", (2, "2001:db8::c")),
    mrt.record(13, 3, b"multicast"),
    mrt.record(16, 0, b"a change of state"),
]


def test_table_dump_v2(tmp_path):
    table = read(tmp_path, b"".join(V2))
    assert rows(table) == ["0.0.0.0/0 192.0.2.2", "10.0.0.0/8 192.0.2.2", "10.0.0.0/15 192.0.2.2", "10.2.3.4/32 192.0.2.2"]
    assert (table.form, table.masked, table.duplicates) == ("MRT TABLE_DUMP_V2", 1, 1)
    assert table.remarks == ("peer 192.0.2.2, the one with the most routes of 2 peers: 6 routes",)
    assert table.left_out == {
        "IPv6 routes": 2,
        "IPv4 multicast": 1,
        "records that are no table: BGP updates": 1,
        "further paths of the peer to the same prefix": 1,
        "without a next hop": 1,
    }


def test_another_peer_and_another_family(tmp_path):
    packed = gzip.compress(b"".join(V2))
    assert rows(read(tmp_path, packed, peer=A)) == ["10.0.0.0/8 192.0.2.1", "10.2.3.4/32 192.0.2.1"]
    six = read(tmp_path, packed, family=6)
    assert rows(six) == ["2001:db8:1::/48 2001:db8::c", "2001:db8:2::/48 2001:db8::c"]
    assert six.remarks == ("peer 2001:db8::c, the one with the most routes of 2 peers: 2 routes",)
    assert rows(read(tmp_path, packed, family=6, peer=B)) == ["2001:db8:1::/48 2001:db8::b"]
    assert rows(read(tmp_path, packed, family=6, peer="2001:DB8:0::C")) == rows(six)


def test_table_dump(tmp_path):
    content = [
        mrt.table_dump("10.0.0.0/8", A, A),
        mrt.table_dump("10.1.1.0/16", A, "198.51.100.1"),
        mrt.table_dump("10.0.0.0/8", B, B),
        mrt.table_dump("2001:db8:1::/48", C, "2001:db8::9"),
        mrt.table_dump("2001:db8:2::/48", A, "2001:db8::9"),
        mrt.table_dump("2001:db8:3::/48", A, "2001:db8::9"),
    ]
    table = read(tmp_path, b"".join(content))
    assert rows(table) == ["10.0.0.0/8 192.0.2.1", "10.1.0.0/16 198.51.100.1"]
    assert (table.form, table.masked, table.left_out) == ("MRT TABLE_DUMP", 1, {"IPv6 routes": 3})
    six = read(tmp_path, b"".join(content), family=6)
    assert rows(six) == ["2001:db8:2::/48 2001:db8::9", "2001:db8:3::/48 2001:db8::9"]
    assert six.remarks == ("peer 192.0.2.1, the one with the most routes of 2 peers: 2 routes",)


def test_peers_that_are_not_there(tmp_path):
    content = b"".join(V2)
    assert refused(tmp_path, content, peer="192.0.2.9") == (
        "rib holds no routes of peer 192.0.2.9; its peers, with their routes: 192.0.2.2 (6), 192.0.2.1 (2)"
    )
    assert refused(tmp_path, content, peer="me") == "a peer is given by its address, such as 192.0.2.1, got 'me'"


def test_files_without_a_table(tmp_path):
    updates = mrt.update(A, announced=["10.0.0.0/8"], hop=A)
    assert refused(tmp_path, updates) == (
        "rib holds BGP updates, no table; it can drive changes of routes (--updates), not be the table"
    )
    assert refused(tmp_path, mrt.peer_index(A, B)).startswith("rib holds no routes")
    assert "holds no IPv6 route that can be used; 1 left out: IPv4 routes; it holds IPv4, so ask for that" in refused(
        tmp_path, mrt.peer_index(A) + mrt.rib("10.0.0.0/8", (0, A)), family=6
    )


def test_attributes_that_mrtparse_cannot_decode(tmp_path):
    broken = mrt.rib("10.9.0.0/16", (0, A))[:-7] + b"\x50\x02\0\xff\2\x20\0"  # an AS_PATH longer than its record
    content = mrt.peer_index(A) + mrt.rib("10.0.0.0/8", (0, A)) + broken
    table = read(tmp_path, content)
    assert rows(table) == ["10.0.0.0/8 192.0.2.1"]
    assert table.left_out == {"with attributes that mrtparse cannot decode": 1}
    assert table.remarks[1].startswith("the first that mrtparse cannot decode: record 3 at byte 85 (")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (V2[0] + V2[1][:-1], "rib, record 2 at byte 75: ends after 34 of 35 bytes; the file is damaged, fetch it again"),
        (V2[0] + V2[1][:7], "rib, record 2 at byte 75: ends within the header, after 7 of 12 bytes"),
        (V2[0] + b"\0" * 12, "rib, record 2 at byte 75: has type 0 and length 0, which no record has"),
        (V2[1], "rib, record 1 at byte 0: has an entry that goes beyond its end, or of a peer that is not listed"),
        (mrt.record(13, 1, V2[0][12:-1]), "rib, record 1 at byte 0: lists more peers than it has bytes for"),
        (V2[0] + mrt.record(13, 2, b"\0\0\0\0\x21"), "rib, record 2 at byte 75: has no prefix of 0 to 32 bits"),
        (mrt.record(12, 1, b"\0" * 21), "rib, record 1 at byte 0: has 21 bytes, fewer than a route takes"),
        (mrt.record(12, 1, b"\0" * 20 + b"\0\1"), "rib, record 1 at byte 0: has no prefix of 0 to 32 bits, or attributes"),
    ],
)
def test_damage_is_named_with_record_and_offset(tmp_path, content, sentence):
    assert refused(tmp_path, content).startswith(sentence)


def test_an_entry_longer_than_its_record(tmp_path):
    whole = mrt.rib("10.0.0.0/8", (1, B))
    cut = mrt.record(13, 2, whole[12:-1])
    assert refused(tmp_path, V2[0] + cut).startswith("rib, record 2 at byte 75: has an entry that goes beyond its end")


def test_whatever_mrtparse_raises_is_counted(tmp_path, monkeypatch):
    def fail(self):
        raise KeyError("inside")

    monkeypatch.setattr("mrtparse.Reader.__next__", fail)
    content = mrt.peer_index(A) + mrt.rib("10.0.0.0/8", (0, A))
    assert "1 left out: with attributes that mrtparse cannot decode" in refused(tmp_path, content)


def test_without_mrtparse_a_sentence_tells_how_to_install_it(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "mrtparse":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refused(tmp_path, V2[0]) == ("rib is an MRT dump, and these need mrtparse; install it with pip install 'dstlab[mrt]'")
