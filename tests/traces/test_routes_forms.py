"""Routing tables as tools print them."""

import bz2
import gzip
import lzma

import pytest

from traces.routes import read_routes


def rows(table):
    return [table.text(i) for i in range(table.plen.size)]


def read(tmp_path, text, **options):
    (tmp_path / "table").write_text(text)
    return read_routes(tmp_path / "table", **options)


def refused(tmp_path, text):
    with pytest.raises(ValueError) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)
    return str(error.value).replace(f"{tmp_path}/", "")


def test_pyasn(tmp_path):
    table = read(
        tmp_path, "; IP-ASN-DAT file\n; Original file : rib\n; \n1.0.0.0/24\t15169\n1.0.4.0/22\t56203\n1.0.5.0/24\t56203\n"
    )
    assert rows(table) == ["1.0.0.0/24 15169", "1.0.4.0/22 56203", "1.0.5.0/24 56203"]
    assert table.form == "pyasn .dat"
    assert table.notes() == ["no default route: addresses outside the prefixes are unreachable"]


IP_ROUTE = """\
default via 192.0.2.1 dev eth0 proto dhcp src 192.0.2.7 metric 100
default via 192.0.2.9 dev wlan0 proto dhcp metric 600
10.0.0.0/8 proto bird metric 32
\tnexthop via 192.0.2.2 dev eth1 weight 1 dead linkdown
\tnexthop via 192.0.2.3 dev eth2 weight 1
\tnexthop via 192.0.2.4 dev eth3 weight 1
10.1.0.0/16 nhid 24 via 192.0.2.5 dev eth1 proto zebra
10.2.0.0/16 dev eth4 proto kernel scope link src 10.2.0.1
10.3.0.0/16 dev eth5 proto kernel scope link src 10.3.0.1 dead linkdown
blackhole 10.4.0.0/16 proto static
unreachable default metric 4278198272
10.5.0.1 via inet6 fe80::1 dev eth6
local 192.0.2.7 dev eth0 table local proto kernel scope host src 192.0.2.7
broadcast 192.0.2.255 dev eth0 table local proto kernel scope link src 192.0.2.7
10.6.0.0/16 via 192.0.2.6 dev eth0 table 100
10.7.0.0/16 tos lowdelay via 192.0.2.6 dev eth0
throw 10.8.0.0/16
10.9.0.0/16 nhid 30 proto static
"""


def test_ip_route(tmp_path):
    table = read(tmp_path, IP_ROUTE)
    assert rows(table) == [
        "0.0.0.0/0 192.0.2.1",
        "10.0.0.0/8 192.0.2.3",
        "10.1.0.0/16 192.0.2.5",
        "10.2.0.0/16 eth4",
        "10.4.0.0/16 blackhole",
        "10.5.0.1/32 fe80::1%eth6",
        "10.9.0.0/16 nhid-30",
    ]
    assert table.form == "ip route show"
    assert table.duplicates == 2
    assert table.left_out == {
        "further next hops of multipath routes": 2,
        "marked dead": 1,
        "of type local": 1,
        "of type broadcast": 1,
        "of other tables than main": 1,
        "with a TOS": 1,
        "of type throw": 1,
    }


def test_ip_route_on_one_line_each(tmp_path):
    text = "default proto static \\\tnexthop via 192.0.2.1 dev a weight 1 \\\tnexthop via 192.0.2.2 dev b weight 1 \n"
    text += "10.0.0.0/8 dev c\n"
    table = read(tmp_path, text)
    assert rows(table) == ["0.0.0.0/0 192.0.2.1", "10.0.0.0/8 c"]


def test_the_lowest_metric_wins_wherever_it_stands(tmp_path):
    table = read(tmp_path, "default dev a metric 30\ndefault dev b metric 10\ndefault dev c metric 20\ndefault dev d metric 10\n")
    assert rows(table) == ["0.0.0.0/0 d"]
    assert table.duplicates == 3


def test_ip_6_route(tmp_path):
    text = (
        "2001:db8:1::/48 dev eth0 proto kernel metric 256 pref medium\n"
        "2001:db8:2::/48 via fe80::2 dev eth1 proto bird metric 32 pref medium\n"
        "2001:db8:3::/48 via 2001:db8:1::3 dev eth0 metric 1024 pref medium\n"
        "unreachable 2001:db8::/32 dev lo metric 1024 error -113 pref medium\n"
        "fe80::/64 dev eth0 proto kernel metric 256 pref medium\n"
        "default proto ra metric 1024 expires 1792sec pref medium\n"
        "\tnexthop via fe80::9 dev eth0 weight 1\n"
    )
    assert rows(read(tmp_path, text, family=6)) == [
        "2001:db8:1::/48 eth0",
        "2001:db8:2::/48 fe80::2%eth1",
        "2001:db8:3::/48 2001:db8:1::3",
        "2001:db8::/32 unreachable",
        "fe80::/64 eth0",
        "::/0 fe80::9%eth0",
    ]


def test_route_n(tmp_path):
    text = (
        "Kernel IP routing table\n"
        "Destination     Gateway         Genmask         Flags Metric Ref    Use Iface\n"
        "0.0.0.0         192.0.2.1       0.0.0.0         UG    100    0        0 eth0\n"
        "0.0.0.0         192.0.2.9       0.0.0.0         UG    600    0        0 wlan0\n"
        "10.0.0.0        -               255.0.0.0       !     0      -        0 -\n"
        "10.1.0.0        0.0.0.0         255.255.0.0     U     0      0        0 eth1\n"
        "10.1.2.3        192.0.2.2       255.255.255.255 UGH   0      0        0 eth0\n"
        "10.2.0.0        0.0.0.0         255.254.0.0     G     0      0        0 eth1\n"
    )
    table = read(tmp_path, text)
    assert rows(table) == ["0.0.0.0/0 192.0.2.1", "10.0.0.0/8 unreachable", "10.1.0.0/16 eth1", "10.1.2.3/32 192.0.2.2"]
    assert (table.form, table.duplicates, table.left_out) == ("route -n", 1, {"not up": 1})


@pytest.mark.parametrize("brackets", [True, False])
def test_route_6_n(tmp_path, brackets):
    text = (
        "Kernel IPv6 routing table\n"
        "Destination                    Next Hop                   Flag Met Ref Use If\n"
        "2001:db8:1::/48                [::]                       U    256 1     0 eth0\n"
        "2001:db8:2::/48                fe80::2                    UG   1024 2    0 eth1\n"
        "[::]/0                         2001:db8:1::9              UG   1024 5    0 eth0\n"
        "2001:db8:1::1/128              [::]                       Un   0   3     0 lo\n"
        "ff00::/8                       [::]                       U    256 3     0 eth0\n"
        "[::]/0                         [::]                       !n   -1  1     0 lo\n"
    )
    table = read(tmp_path, text if brackets else text.replace("[", "").replace("]", ""), family=6)
    assert rows(table) == ["2001:db8:1::/48 eth0", "2001:db8:2::/48 fe80::2%eth1", "::/0 2001:db8:1::9", "ff00::/8 eth0"]
    assert (table.form, table.left_out) == ("route -6 -n", {"of type local": 1})


SHOW_IP_ROUTE = """\
router# show ip route
Codes: K - kernel route, C - connected, S - static, R - RIP,
       O - OSPF, I - IS-IS, B - BGP, E - EIGRP, N - NHRP,
       > - selected route, * - FIB route, q - queued, r - rejected, b - backup

VRF default:
S>* 0.0.0.0/0 [1/0] via 192.0.2.1, eth0, weight 1, 01:02:03
K * 0.0.0.0/0 [0/100] via 192.0.2.9, eth0, 01:02:03
O   10.0.0.0/8 [110/20] via 192.0.2.5, eth1, weight 1, 00:01:00
B>* 10.0.0.0/8 [20/0] via 192.0.2.2, eth1, weight 1, 00:01:00
  *                   via 192.0.2.3, eth2, weight 1, 00:01:00
B>  10.1.0.0/16 [200/0] via 198.51.100.1 (recursive), weight 1, 00:01:00
  *                       via 192.0.2.4, eth3, weight 1, 00:01:00
C>* 10.2.0.0/16 is directly connected, eth4, 00:02:00
S>* 10.3.0.0/16 [1/0] unreachable (blackhole), weight 1, 00:01:00
S>* 10.4.0.0/16 [1/0] unreachable (ICMP unreachable), weight 1, 00:01:00
O[7]>* 10.5.0.0/16 [110/20] via 192.0.2.6, eth5, weight 1, 00:01:00
S>r 10.6.0.0/16 [1/0] via 192.0.2.7, eth5, weight 1, 00:01:00

VRF red:
S>* 10.7.0.0/16 [1/0] via 192.0.2.8, eth6, weight 1, 00:01:00
router#
"""


def test_show_ip_route(tmp_path):
    table = read(tmp_path, SHOW_IP_ROUTE)
    assert rows(table) == [
        "0.0.0.0/0 192.0.2.1",
        "10.0.0.0/8 192.0.2.2",
        "10.1.0.0/16 192.0.2.4",
        "10.2.0.0/16 eth4",
        "10.3.0.0/16 blackhole",
        "10.4.0.0/16 unreachable",
        "10.5.0.0/16 192.0.2.6",
    ]
    assert table.form == "show ip route"
    assert table.left_out == {
        "not selected (no >)": 2,
        "further next hops of multipath routes": 1,
        "selected but not in the kernel (no *)": 1,
        "of other VRFs than the first": 1,
    }


def test_show_ip_route_of_quagga_without_header(tmp_path):
    text = (
        "K>* 0.0.0.0/0 via 192.0.2.1, eth0\nO   10.0.0.0/24 [110/10] is directly connected, eth1, 00:10:00\n"
        "C>* 10.0.0.0/24 is directly connected, eth1\nO>* 10.1.0.0/24 [110/20] via 10.0.0.2, eth1, 00:09:00\n"
        "  *                      via 10.0.0.3, eth1, 00:09:00\nS   10.2.0.0/24 [1/0] via 10.9.9.9 inactive\n"
    )
    assert rows(read(tmp_path, text)) == ["0.0.0.0/0 192.0.2.1", "10.0.0.0/24 eth1", "10.1.0.0/24 10.0.0.2"]


def test_show_ipv6_route(tmp_path):
    text = "S>* ::/0 [1/0] via 2001:db8::1, eth0, weight 1, 00:01:00\n"
    text += "O>* 2001:db8:1::/48 [110/20] via fe80::2, eth1, weight 1, 00:01:00\n"
    assert rows(read(tmp_path, text, family=6)) == ["::/0 2001:db8::1", "2001:db8:1::/48 fe80::2%eth1"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("10.0.0.0/8 dev a\n10.0.0.0/33 dev b\n", "table, line 2: '10.0.0.0/33' is not a prefix"),
        ("10.0.0.0/8 dev a\nwhat ever it is\n", "table, line 2: 'what' is not an IPv4 address"),
        ("10.0.0.0/8 dev a metric x\n", "table, line 1: the metric 'x' is not a number"),
        ("10.0.0.0/8 dev a\nblackhole\n", "table, line 2: 'blackhole' without a prefix"),
        ("\n10.0.0.0/8 dev a\n\tnexthop via b\n", ""),
        (
            "\tnexthop via a dev b\n\tnexthop via c dev d\n",
            "table, line 1: 'nexthop' belongs to a route, but none stands before it",
        ),
        ("Destination Gateway Genmask Flags Metric Ref Use Iface\n1 2 3\n", "table, line 2: 3 columns, expected the 7 or 8"),
        (
            "Destination Gateway Genmask Flags Metric Ref Use Iface\n10.0.0.0 0.0.0.0 255.0.255.0 U 0 0 0 a\n",
            "table, line 2: '255.0.255.0' is no netmask",
        ),
        (
            "Destination Gateway Genmask Flags Metric Ref Use Iface\nlocalhost * 255.0.0.0 U 0 0 0 a\n",
            "table, line 2: 'localhost' is not an IPv4 address",
        ),
        (
            "C>* 10.0.0.0/8 is directly connected, a\nnonsense\n",
            "table, line 2: 'nonsense' is no line of `show ip route`; remove it",
        ),
        ("C>* 10.0.0.0/44 is directly connected, a\n", "table, line 1: '10.0.0.0/44' is not a prefix"),
        (
            "C   10.0.0.0/4 is directly connected, a\n",
            "table (show ip route) holds no IPv4 route that can be used; 1 left out: not s",
        ),
    ],
)
def test_sentences(tmp_path, text, sentence):
    if sentence:
        assert sentence in refused(tmp_path, text)
    else:
        assert rows(read(tmp_path, text)) == ["10.0.0.0/8 b"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_tables(tmp_path, pack):
    text = "".join(f"10.{i >> 8}.{i & 255}.0/24 hop{i}\n" for i in range(3000)).encode()
    (tmp_path / "packed").write_bytes(pack(text))
    table = read_routes(tmp_path / "packed")
    assert table.plen.size == 3000
    assert table.text(2999) == "10.11.183.0/24 hop2999"
    for cut in (20, len(pack(text)) // 2, len(pack(text)) - 1):
        (tmp_path / "packed").write_bytes(pack(text)[:cut])
        with pytest.raises(ValueError, match="packed is damaged: it cannot be unpacked after byte"):
            read_routes(tmp_path / "packed")


def test_lines_are_whole_across_the_pieces_that_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("traces.content.CHUNK", 7)
    monkeypatch.setattr("traces.routes.read.CHUNK", 11)
    assert rows(read(tmp_path, "10.0.0.0/8 first\r\n\r\n10.1.0.0/16 second\r\n10.2.0.0/16 third")) == [
        "10.0.0.0/8 first",
        "10.1.0.0/16 second",
        "10.2.0.0/16 third",
    ]


def test_what_is_no_text(tmp_path):
    for content in (b"10.0.0.0/8 a\n\0\0\n", b"1" * 70000, b"10.0.0.0/8 \xff\n"):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ValueError, match="x is not text; a routing table has one"):
            read_routes(tmp_path / "x")
    with pytest.raises(ValueError, match="holds no peers, so there is no peer"):
        read(tmp_path, "10.0.0.0/8 a\n", peer="10.0.0.1")
