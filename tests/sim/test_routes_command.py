"""`dstlab routes`: what a table or its changes are made of."""

import ipaddress

import pytest
from oracles import mrt_bytes as mrt

from sim.cli import execute
from traces.routes import full_table, read_routes
from traces.routes.survey import nested, survey

TABLE = "10.0.0.0/8 a\n10.1.0.0/16 b\n10.1.2.0/24 a\n10.1.3.9/24 a\n192.0.2.0/24 a\n2001:db8::/32 a\n2001:db8:1::/48 b\n::/0 a\n"


def run(capsys, *arguments):
    assert execute(["routes", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_a_table(tmp_path, capsys):
    (tmp_path / "t").write_text(TABLE)
    text = run(capsys, tmp_path / "t")
    assert text.splitlines()[0].endswith("t: PREFIX [NEXTHOP] lines, IPv4")
    assert "5 prefixes, 2 next hops; 3 prefixes (60.0%) lie inside another" in text
    for line in (
        "  1 prefixes with host bits set: masked",
        "  3 left out: IPv6 routes",
        "  no default route: addresses outside the prefixes are unreachable",
        "   /24           3   60.00%               2",
        "  a                             4   80.00%",
        "Leaves:         5",
    ):
        assert line in text.splitlines()
    six = run(capsys, tmp_path / "t", "--family", "6")
    assert "3 prefixes, 2 next hops; 2 prefixes (66.7%) lie inside another" in six
    assert "no default route" not in six


def test_a_collector_s_files(tmp_path, capsys):
    A = "192.0.2.1"
    (tmp_path / "rib").write_bytes(mrt.peer_index(A) + mrt.rib("10.0.0.0/8", (0, A)))
    assert "rib: MRT TABLE_DUMP_V2, IPv4" in run(capsys, tmp_path / "rib", "--peer", A)
    updates = [
        mrt.update(A, announced=["10.0.0.0/8", "10.1.0.0/16"], hop=A, seconds=60),
        mrt.update(A, withdrawn=["10.0.0.0/8"], seconds=150),
    ]
    (tmp_path / "updates").write_bytes(b"".join(updates))
    text = run(capsys, tmp_path / "updates")
    assert "3 changes of 2 prefixes over 90 s, 1 next hops; 1 withdraw" in text
    assert "seconds with changes: 2; changes in one of them: median 1.5, at most 2" in text
    assert "changes by minute: 2 1" in text


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (
            b"10.0.0.0/8 a\n10.0.0.0/40 b\n",
            [],
            "line 2: '10.0.0.0/40' is not a prefix: the length after / must be a number from 0 to 32",
        ),
        (b"10.0.0.0/8 a\n", ["--peer", "192.0.2.1"], "holds no peers"),
        (mrt.peer_index("192.0.2.1")[:-1], [], "record 1 at byte 0: ends after"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_status_2(tmp_path, capsys, content, arguments, sentence):
    (tmp_path / "t").write_bytes(content)
    assert execute(["routes", str(tmp_path / "t"), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dstlab: ")
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("family", [4, 6])
def test_nested_prefixes_are_those_with_a_shorter_one_around(tmp_path, family):
    table = full_table(1, 500, family)
    (tmp_path / "t").write_text("".join(f"{table.text(i)}\n" for i in (*range(250, 500), *range(250))))
    table = read_routes(tmp_path / "t", family=family)
    assert table.plen.size == 500
    networks = [ipaddress.ip_network(table.prefix_text(i)) for i in range(500)]
    expected = [any(a != b and a.subnet_of(b) for b in networks) for a in networks]
    assert nested(table).tolist() == expected
    found = survey(table)
    assert sum(found.by_length.values()) == sum(n for _, n in found.by_nexthop) == 500
    assert sum(found.nested_by_length.values()) == sum(expected)
