import ipaddress
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traces.content
from traces.addresses import format_address, parse_address, parse_prefix
from traces.routes import LENGTH_SHARES, default_routes, read_routes


def read(tmp_path, text):
    path = tmp_path / "fib.txt"
    path.write_text(text)
    return read_routes(path)


def refused(tmp_path, text):
    with pytest.raises(ValueError) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{tmp_path}/", "")


def test_routes_of_a_file(tmp_path):
    table = read(
        tmp_path,
        "# a table\n\n10.0.0.0/8 192.0.2.1\n  10.1.0.0/16\t192.0.2.2  # inside\ndefault 192.0.2.1\n10.1.2.3 eth1\n10.2.0.0/16\n",
    )
    assert [table.text(i) for i in range(5)] == [
        "10.0.0.0/8 192.0.2.1",
        "10.1.0.0/16 192.0.2.2",
        "0.0.0.0/0 192.0.2.1",
        "10.1.2.3/32 eth1",
        "10.2.0.0/16 direct",
    ]
    assert table.nexthops == ["192.0.2.1", "192.0.2.2", "eth1", "direct"]
    assert table.nexthop.tolist() == [0, 1, 0, 2, 3]
    assert table.duplicates == 0


def test_the_last_of_two_lines_for_a_prefix_wins(tmp_path):
    table = read(tmp_path, "10.0.0.0/8 a\n10.0.0.0/9 b\n10.0.0.0/8 c\n10.0.0.0/8 d\n")
    assert [table.text(i) for i in range(2)] == ["10.0.0.0/8 d", "10.0.0.0/9 b"]
    assert table.duplicates == 2
    assert table.nexthops == ["d", "b"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("10.0.0.0/33 a", "'10.0.0.0/33' is not a prefix: the length after / must be a number from 0 to 32"),
        ("10.0.0.0/255.0.0.0", "the length after / must be a number from 0 to 32"),
        ("10.0.0.0/", "the length after / must be a number from 0 to 32"),
        ("10.0.0/8", "'10.0.0' is not an IPv4 address such as 10.1.2.3"),
        ("10.0.0.256/32", "each part is a number from 0 to 255 without leading zeros"),
        ("10.0.0.01/32", "each part is a number from 0 to 255 without leading zeros"),
        ("2001:db8::/129 a", "'2001:db8::/129' is not a prefix: the length after / must be a number from 0 to 128"),
        ("2001:db8:::/32 a", "'2001:db8:::' is not an IPv6 address such as 2001:db8::1"),
        ("10.0.0.0/8 via 192.0.2.1", "3 words, expected 'PREFIX [NEXTHOP]'; remove '192.0.2.1'"),
    ],
)
def test_errors_name_file_and_line_and_cure(tmp_path, line, sentence):
    message = refused(tmp_path, f"# first\n0.0.0.0/0 a\n{line}\n")
    assert message.startswith("fib.txt, line 3: ")
    assert sentence in message


def test_host_bits_are_masked_and_the_other_family_is_left_out(tmp_path):
    text = "10.1.2.3/8 a\n2001:db8::1/32 b\n10.0.0.0/8 c\n::/0 d\n2001:db8::/128 e\n0.0.0.0/0 f\n"
    four = read(tmp_path, text)
    assert [four.text(i) for i in range(2)] == ["10.0.0.0/8 c", "0.0.0.0/0 f"]
    assert (four.family, four.masked, four.duplicates, four.left_out) == (4, 1, 1, {"IPv6 routes": 3})
    assert four.notes() == [
        "1 prefixes with host bits set: masked",
        "1 routes replaced by another for the same prefix",
        "3 left out: IPv6 routes",
    ]
    six = read_routes(tmp_path / "fib.txt", family=6)
    assert [six.text(i) for i in range(3)] == ["2001:db8::/32 b", "::/0 d", "2001:db8::/128 e"]
    assert six.prefix.dtype == np.uint32
    assert six.prefix.tolist() == [[0x20010DB8, 0, 0, 0], [0, 0, 0, 0], [0x20010DB8, 0, 0, 0]]
    assert six.plen.tolist() == [32, 0, 128]
    assert (six.family, six.masked, six.duplicates, six.left_out) == (6, 1, 0, {"IPv4 routes": 3})


def test_a_table_of_the_other_family_only(tmp_path):
    message = refused(tmp_path, "::/0 a\n")
    assert message == (
        "fib.txt (PREFIX [NEXTHOP] lines) holds no IPv4 route that can be used; 1 left out: IPv6 routes; "
        "it holds IPv6, so ask for that"
    )
    with pytest.raises(ValueError, match="a routing table is of family 4 or 6, got 5"):
        read_routes(tmp_path / "fib.txt", family=5)


@pytest.mark.parametrize("text", ["", "# nothing\n\n"])
def test_a_file_without_routes(tmp_path, text):
    assert refused(tmp_path, text).startswith("fib.txt holds no routes; write one 'PREFIX [NEXTHOP]' per line")


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"there is no file .*none; check the name of the routing table"):
        read_routes(tmp_path / "none")
    with pytest.raises(ValueError, match="is a directory; give the routing table itself"):
        read_routes(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is a pipe, and routes are read several times; save them to a file first"):
        read_routes(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not text; a routing table has one"):
        read_routes(tmp_path / "binary")
    # Tests may run as root, whom no permission stops.
    for error, sentence in (
        (PermissionError(), "may not be read; change its permissions"),
        (OSError(5, "I/O"), "cannot be read: I/O"),
    ):

        def refuse(*_, error=error):
            raise error

        monkeypatch.setattr(traces.content, "open", refuse, raising=False)
        with pytest.raises(ValueError, match=sentence):
            read_routes(tmp_path / "binary")


@given(st.integers(0, (1 << 32) - 1), st.integers(0, 32))
def test_prefixes_agree_with_ipaddress(address, plen):
    text = f"{ipaddress.IPv4Address(address)}/{plen}"
    network = ipaddress.ip_network(text, strict=False)
    assert format_address(address) == str(ipaddress.IPv4Address(address))
    assert parse_address(format_address(address)) == address
    assert parse_prefix(str(network)) == (int(network.network_address), plen)
    if int(network.network_address) != address:
        with pytest.raises(ValueError, match=f"write {network}$"):
            parse_prefix(text)


@pytest.mark.parametrize(
    ("prefixes", "inside"), [(1000, "10.0.0.0/8"), (1, "10.0.0.0/8"), (100, "192.0.2.0/24"), (300, "0.0.0.0/0")]
)
def test_default_routes(prefixes, inside):
    table = default_routes(7, prefixes, inside)
    rows = list(zip(table.prefix.tolist(), table.plen.tolist(), strict=True))
    assert len(rows) == len(set(rows)) == prefixes + 1
    assert rows[-1] == (0, 0), "every address has a route"
    outer = ipaddress.ip_network(inside)
    for row in rows[:-1]:
        assert ipaddress.ip_network(row).subnet_of(outer)
    assert table.nexthop.tolist() == list(range(prefixes + 1))
    assert len(set(table.nexthops)) == prefixes + 1
    assert all(ipaddress.ip_address(hop) in ipaddress.ip_network("172.16.0.0/12") for hop in table.nexthops)


def test_default_routes_have_the_stated_lengths():
    table = default_routes(1)
    assert set(table.plen[:-1].tolist()) == {8 + beyond for beyond in LENGTH_SHARES}
    assert sum(LENGTH_SHARES.values()) == 100
    for beyond, share in LENGTH_SHARES.items():
        assert abs((table.plen == 8 + beyond).sum() / 10 - share) < 6
    # About three quarters of the range have a route other than the default.
    addresses = np.random.default_rng(1).integers(10 << 24, 11 << 24, 2000)
    covered = np.zeros(2000, bool)
    for prefix, plen in zip(table.prefix[:-1].tolist(), table.plen[:-1].tolist(), strict=True):
        covered |= addresses >> (32 - plen) == prefix >> (32 - plen)
    assert 0.65 < covered.mean() < 0.85


def test_default_routes_come_from_the_seed():
    one, same, other = default_routes(1), default_routes(np.random.default_rng(1)), default_routes(2)
    assert one.prefix.tolist() == same.prefix.tolist() != other.prefix.tolist()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1, 0), "the number of prefixes must be from 1 to 524288, got 0"),
        (
            (1, 200, "192.0.2.0/24"),
            "192.0.2.0/24 has no room for 200 generated prefixes; use a shorter prefix or at most 128 of them",
        ),
        ((1, 10, "10.1.0.0/8"), "write 10.0.0.0/8"),
    ],
)
def test_impossible_default_routes(arguments, sentence):
    with pytest.raises(ValueError) as error:
        default_routes(*arguments)
    assert sentence in str(error.value)
