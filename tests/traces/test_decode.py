"""Link layers, IPv6 and tunnels, from frames put together by hand; ordinary ones against dpkt."""

import random
import struct

import dpkt
import numpy as np
import pytest
from oracles.frames import ADDRESSES, ethernet, ipv4, ipv6, sctp, tcp, udp

from models.flow import FIN, RST
from models.kernel import compiled
from traces.decode import decode_packet
from traces.link import DECODABLE, NAMES
from traces.reasons import FLAGS_SHIFT, REASON_MASK, REASONS

A, B = 0x0A000001, 0xC0A80102
A6, B6 = 0x20010DB8 << 96 | 1, 0xFD00 << 112 | 0xFFFF << 32 | 2
C, D = 0x01020304, 0x05060708
KEY = (A, B, 7 << 16 | 9, 17 << 24 | 5)
KEY6 = (*struct.unpack(">4I", A6.to_bytes(16, "big")), *struct.unpack(">4I", B6.to_bytes(16, "big")), 7 << 16 | 9, 17 << 24 | 5)
P4, P6 = ipv4(udp(7, 9), A, B), ipv6(udp(7, 9), A6, B6)
JUNK = b"\xee" * 7


def decode(frame, link=1, family=4, inner=False):
    """(reason, flow key, flags) of a frame that lies in the middle of other bytes."""
    data = np.frombuffer(JUNK + frame + JUNK, np.uint8)
    key = np.zeros((2, 4 if family == 4 else 10), np.uint32)
    found = int(decode_packet(data, len(JUNK), len(frame), link, family, int(inner), 5, key, 1))
    assert not key[0].any()
    reason = REASONS[found & REASON_MASK]
    return reason, tuple(key[1].tolist()) if reason in ("decoded", "later fragment, without ports") else None, found >> FLAGS_SHIFT


def key_of(frame, **options):
    reason, key, _ = decode(frame, **options)
    assert reason == "decoded", reason
    return key


def both(wrap, link=1):
    """`wrap(packet, ethertype)` makes a frame around either family."""
    assert key_of(wrap(P4, 0x0800), link=link) == KEY
    assert key_of(wrap(P6, 0x86DD), link=link, family=6) == KEY6
    assert decode(wrap(P6, 0x86DD), link=link)[0] == "ipv6"
    assert decode(wrap(P4, 0x0800), link=link, family=6)[0] == "ipv4"


def labels(*values):
    return b"".join(struct.pack(">I", value << 12 | (i == len(values) - 1) << 8 | 64) for i, value in enumerate(values))


PPP_OF = {0x0800: b"\x00\x21", 0x86DD: b"\x00\x57"}


def test_ethernet_with_stacked_tags_of_every_kind():
    both(lambda packet, kind: ethernet(packet, kind, (0x88A8, 0x8100, 0x9100, 0x9200)))


def test_snap():
    both(
        lambda packet, kind: (
            ADDRESSES + struct.pack(">H", 8 + len(packet)) + b"\xaa\xaa\x03\0\0\0" + struct.pack(">H", kind) + packet
        )
    )
    assert decode(ADDRESSES + b"\0\x10" + b"\x42\x42\x03" + b"\0" * 40)[0] == "802.3 frame without ethertype"


def test_mpls_labels_over_ip_and_over_a_pseudowire():
    both(lambda packet, kind: ethernet(labels(16, 17, 18) + packet, 0x8847))
    both(lambda packet, kind: ethernet(labels(16) + packet, 0x8848, (0x8100,)))
    both(lambda packet, kind: ethernet(labels(16) + b"\0\0\0\0" + ethernet(packet, kind, (0x8100,)), 0x8847))
    assert decode(ethernet(labels(16) + b"\x90" + P4, 0x8847))[0] == "other ethertype"
    assert decode(ethernet(labels(16, 17)[:6], 0x8847))[0] == "frame cut off before the IP header"


def test_pppoe_and_ppp():
    session = struct.pack(">BBHH", 0x11, 0, 1, 2)
    both(lambda packet, kind: ethernet(session + PPP_OF[kind] + packet, 0x8864))
    both(lambda packet, kind: session + PPP_OF[kind] + packet, 51)
    for link in (9, 50):
        both(lambda packet, kind: PPP_OF[kind] + packet, link)
        both(lambda packet, kind: b"\xff\x03" + PPP_OF[kind] + packet, link)
        both(lambda packet, kind: b"\xff\x03" + PPP_OF[kind][1:] + packet, link)  # protocol in one byte
        both(lambda packet, kind: b"\x02\x81" + labels(16) + packet, link)
    assert decode(b"\xc0\x21\x01\x01", link=9)[0] == "other ethertype"  # LCP
    assert decode(b"\xff\x03\x00", link=9)[0] == "frame cut off before the IP header"


@pytest.mark.parametrize("order", ["<", ">"])
def test_bsd_families(order):
    for link in (0, 108):
        for six in (10, 24, 28, 30):
            both(lambda packet, kind, six=six: struct.pack(order + "I", 2 if kind == 0x0800 else six) + packet, link)
        assert decode(struct.pack(order + "I", 7) + P4, link=link)[0] == "other ethertype"
        assert decode(b"\2\0\0", link=link)[0] == "frame cut off before the IP header"


def test_raw_ip_by_version_and_by_type():
    for link in (12, 14, 101):
        both(lambda packet, kind: packet, link)
        assert decode(b"\x50" + P4[1:], link=link)[0] == "other ethertype"
    assert key_of(P4, link=228) == KEY
    assert key_of(P6, link=229, family=6) == KEY6
    assert decode(P6, link=228)[0] == "bad IPv4 header"
    assert decode(P4 + b"\0" * 40, link=229, family=6)[0] == "bad IPv6 header"


def test_linux_cooked():
    both(lambda packet, kind: b"\0\4\0\1\0\6" + b"\0" * 8 + struct.pack(">H", kind) + packet, 113)
    both(lambda packet, kind: b"\0\4\0\1\0\6" + b"\0" * 8 + b"\x81\0\0\x05" + struct.pack(">H", kind) + packet, 113)
    both(lambda packet, kind: struct.pack(">HHIHBB", kind, 0, 3, 1, 0, 6) + b"\0" * 8 + packet, 276)
    assert decode(struct.pack(">HHIHBB", 4, 0, 3, 1, 0, 6) + b"\0" * 8 + P4, link=276)[0] == "802.3 frame without ethertype"


def test_cisco_hdlc():
    both(lambda packet, kind: b"\x0f\0" + struct.pack(">H", kind) + packet, 104)


def test_every_decodable_link_type_has_a_name_and_survives_any_cut():
    assert set(DECODABLE) <= set(NAMES)
    whole = ethernet(labels(1, 2) + P4, 0x8847, (0x8100,))
    for link in DECODABLE:
        assert decode(b"", link=link)[0] == "empty record"
        for cut in range(1, len(whole)):
            for family in (4, 6):
                decode(whole[:cut], link=link, family=family, inner=True)


# -- IPv6 ----------------------------------------------------------------------------------------------------------------

FRAGMENT_0, LATER = struct.pack(">HI", 1, 7), struct.pack(">HI", 8 | 1, 7)


def test_ports_and_flags_behind_extension_headers():
    chain = ((0, b"\1\4\0\0\0\0"), (60, b"\0" * 13), (43, b"\0" * 6), (44, FRAGMENT_0), (51, b"\0" * 22), (60, b""))
    frame = ethernet(ipv6(tcp(7, 9, 0x15), A6, B6, 6, 0xB8, chain), 0x86DD)
    reason, key, flags = decode(frame, family=6)
    assert (reason, key, flags) == ("decoded", (*KEY6[:9], 6 << 24 | 0xB8 << 16 | 5), FIN | RST)
    assert key_of(ethernet(ipv6(sctp(7, 9), A6, B6, 132), 0x86DD), family=6)[8:] == (7 << 16 | 9, 132 << 24 | 5)
    assert key_of(ethernet(ipv6(b"\x80\0\0\0", A6, B6, 58), 0x86DD), family=6)[8:] == (0, 58 << 24 | 5)
    assert key_of(ethernet(ipv6(b"", A6, B6, 59), 0x86DD), family=6)[8:] == (0, 59 << 24 | 5)


def test_a_later_fragment_has_no_ports():
    for frame, family in (
        (ethernet(ipv6(udp(7, 9), A6, B6, 17, 0, ((44, LATER),)), 0x86DD), 6),
        (ethernet(ipv4(udp(7, 9), A, B, offset=8)), 4),
    ):
        reason, key, _ = decode(frame, family=family)
        assert reason == "later fragment, without ports"
        assert key[-2:] == (0, 17 << 24 | 5)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (P6[:39], "IPv6 header cut off"),
        (P6[:40], "ports cut off"),
        (P6[:43], "ports cut off"),
        (b"\x40" + P6[1:], "bad IPv6 header"),
        (ipv6(udp(7, 9), A6, B6, 17, 0, ((0, b"\0" * 14),))[:52], "IPv6 header cut off"),
        (ipv6(b"\x11\x63" + b"\0" * 6, A6, B6, 0), "bad IPv6 header"),  # says 800 bytes of options in 8
        (ipv6(b"", A6, B6, 0, length=4) + b"\0" * 8, "bad IPv6 header"),
        (ipv6(udp(7, 9), A6, B6, 17, 0, ((60, b"\0" * 6),) * 17), "too many headers"),
        (ipv6(udp(7, 9), A6, B6, 17, length=3), "ports cut off"),
    ],
)
def test_what_is_wrong_with_an_ipv6_packet(packet, reason):
    assert decode(ethernet(packet, 0x86DD), family=6)[0] == reason


def test_a_length_of_zero_means_all_that_is_there():
    assert key_of(ethernet(ipv6(udp(7, 9), A6, B6, length=0), 0x86DD), family=6) == KEY6


# -- tunnels -------------------------------------------------------------------------------------------------------------


def gre(payload, kind, bits=0, extra=b""):
    return ipv4(struct.pack(">HH", bits, kind) + extra + payload, C, D, 47)


def gtp(payload, flags=0x30, message=0xFF, extra=b""):
    return udp(2152, 2152, struct.pack(">BBHI", flags, message, len(extra + payload), 1) + extra + payload)


def vxlan(frame, flags=8):
    return udp(1000, 4789, struct.pack(">II", flags << 24, 5 << 8) + frame)


TUNNELS = {
    "ipip": lambda p, k: ipv4(p, C, D, 4 if k == 0x0800 else 41),
    "in IPv6": lambda p, k: ipv6(p, 1, 2, 4 if k == 0x0800 else 41),
    "gre": lambda p, k: gre(p, k),
    "gre with checksum, key, number": lambda p, k: gre(p, k, 0xB000, b"\0" * 12),
    "gre over Ethernet": lambda p, k: gre(ethernet(p, k, (0x8100,)), 0x6558, 0x2000, b"\0\0\1\0"),
    "gre over MPLS": lambda p, k: gre(labels(3) + p, 0x8847),
    "pptp": lambda p, k: gre(b"\xff\x03" + PPP_OF[k] + p, 0x880B, 0x3081, b"\0" * 12),
    "vxlan": lambda p, k: ipv4(vxlan(ethernet(p, k)), C, D),
    "vxlan over IPv6": lambda p, k: ipv6(vxlan(ethernet(p, k)), 1, 2),
    "gtp": lambda p, k: ipv4(gtp(p), C, D),
    "gtp with number": lambda p, k: ipv4(gtp(p, 0x32, extra=b"\0\1\0\0"), C, D),
    "gtp with two extensions": lambda p, k: ipv4(gtp(p, 0x34, extra=b"\0\0\0\x85\1\0\0\xc0\2" + b"\0" * 6 + b"\0"), C, D),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_the_packet_inside(name):
    wrap = TUNNELS[name]
    for packet, kind, key, family in ((P4, 0x0800, KEY, 4), (P6, 0x86DD, KEY6, 6)):
        outer = wrap(packet, kind)
        frame = ethernet(outer, 0x0800 if outer[0] >> 4 == 4 else 0x86DD)
        assert key_of(frame, family=family, inner=True) == key
        assert decode(frame, family=10 - family, inner=True)[0] == ("ipv4" if family == 4 else "ipv6")
        twice = wrap(outer, 0x0800 if outer[0] >> 4 == 4 else 0x86DD)
        assert key_of(ethernet(twice, 0x0800 if twice[0] >> 4 == 4 else 0x86DD), family=family, inner=True) == key
        if outer[0] >> 4 == 4:
            assert key_of(frame)[:2] == (C, D)


@pytest.mark.parametrize(
    "outer",
    [
        gre(P4, 0x0806),
        gre(P4, 0x0800, 0x4000),  # source routes
        gre(P4, 0x0800, 2),
        gre(b"", 0x0800),
        gre(P4, 0x0800, 1),
        ipv4(b"\0\0\x08", C, D, 47),
        ipv4(vxlan(ethernet(P4), 0), C, D),
        ipv4(vxlan(ethernet(b"\0" * 28, 0x0806)), C, D),
        ipv4(udp(1000, 4790, b"\x08" + b"\0" * 7 + ethernet(P4)), C, D),
        ipv4(gtp(P4, message=1), C, D),
        ipv4(gtp(P4, 0x20), C, D),
        ipv4(gtp(P4, 0x34, extra=b"\0\0\0\x85\0\0\0\0"), C, D),  # an extension of no length
        ipv4(gtp(P4, 0x34, extra=b"\0\0\0\x85\xff\0\0\0"), C, D),
        ipv4(udp(2152, 2152, b"\x30"), C, D),
        ipv4(P4, C, D, 4, offset=3),  # a later fragment of a tunnel
    ],
)
def test_what_is_no_tunnel_of_ip_is_keyed_by_itself(outer):
    reason, key, _ = decode(ethernet(outer), inner=True)
    assert reason in ("decoded", "later fragment, without ports")
    assert key[:2] == (C, D)


def test_a_packet_inside_that_is_cut_off_has_no_key():
    assert decode(ethernet(ipv4(P4, C, D, 4))[: 14 + 20 + 19], inner=True)[0] == "IPv4 header cut off"


def test_tunnels_in_tunnels_end_somewhere():
    packet = P4
    for _ in range(8):
        packet = ipv4(packet, C, D, 4)
    assert key_of(ethernet(packet), inner=True) == KEY
    assert key_of(ethernet(ipv4(packet, C, D, 4)), inner=True)[:2] == (C, D)


# -- against dpkt, and against anything ----------------------------------------------------------------------------------


def test_random_packets_agree_with_dpkt():
    draw = random.Random(1)
    for _ in range(400 if compiled() else 100):
        proto = draw.choice([6, 17, 58, 132])
        payload = {6: tcp, 17: udp, 132: sctp}.get(proto, lambda s, d: b"\x80\0" + b"\0" * 6)(*draw.choices(range(65536), k=2))
        chain = tuple((number, b"\0" * 6) for number in draw.sample((0, 43, 60), draw.randrange(4)))
        chain = tuple(sorted(chain, key=lambda part: part[0] != 0))
        packet = ipv6(payload, draw.getrandbits(128), draw.getrandbits(128), proto, draw.getrandbits(8), chain)
        frame = ethernet(packet, 0x86DD, draw.choice([(), (0x8100,), (0x88A8, 0x8100)]))
        layer = dpkt.ethernet.Ethernet(frame).data
        ports = layer.data.sport << 16 | layer.data.dport if proto != 58 else 0
        tclass = layer.fc
        expected = (*struct.unpack(">8I", layer.src + layer.dst), ports, proto << 24 | tclass << 16 | 5)
        assert key_of(frame, family=6) == expected


def test_no_bytes_whatever_lead_out_of_the_frame():
    """What a frame says never depends on what lies around it, not even if it would go on there."""
    draw = random.Random(2)
    snap = ADDRESSES + b"\0\x50\xaa\xaa\x03\0\0\0\x08\0" + P4
    seeds = [ethernet(wrap(P4, 0x0800)) for wrap in TUNNELS.values()]
    seeds += [snap, ethernet(P6, 0x86DD), ethernet(labels(5) + P4, 0x8847), P4, P6]
    for _ in range(20_000 if compiled() else 2_500):
        frame = bytearray(draw.choice(seeds))
        for _ in range(draw.randrange(3)):
            frame[draw.randrange(len(frame))] = draw.choice((0, 1, 4, 0x2F, 0x60, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        cut = draw.choice((len(frame), draw.randrange(len(frame) + 1)))
        frame, rest = bytes(frame[:cut]), bytes(frame[cut:])
        link, family, inner = draw.choice((1, draw.choice(DECODABLE))), draw.choice((4, 6)), draw.randrange(2)
        said = []
        for after in (b"\0", b"\xff", rest):
            data = np.frombuffer(after * 64 + frame + after * 64 + b"\0" * 64, np.uint8)
            key = np.zeros((1, 4 if family == 4 else 10), np.uint32)
            at = 64 * len(after)
            said.append((int(decode_packet(data, at, len(frame), link, family, inner, 5, key, 0)), key.tolist()))
            assert said[-1][0] & REASON_MASK < len(REASONS)
        assert said[0] == said[1] == said[2], (frame.hex(), link, family, inner)
