"""From a captured Ethernet frame to a flow key.

Ethernet II with any number of VLAN tags (802.1Q, 802.1ad and the older 0x9100, 0x9200), then IPv4 with options (RFC 791); ports
of TCP, UDP, UDPLite and SCTP, FIN and RST of TCP. A later fragment has no ports but the first one has, so their keys differ.
Everything else is refused with a reason that the source counts.
Left out: what tunnels carry (GRE, IP in IP, MPLS, PPPoE, VXLAN), IPv6, checksums, and other link layers.
"""

from models.flow import FIN, PROTO_TCP, PROTO_UDP, RST
from models.kernel import U8, U32, i64, kernel

REASONS = (
    "decoded",
    "arp",
    "ipv6",
    "802.3 frame without ethertype",
    "other ethertype",
    "frame cut off before the IP header",
    "IPv4 header cut off",
    "bad IPv4 header",
    "ports cut off",
)
"""What `decode_ethernet` can say of a frame, by the number it returns (before flags are added)."""

DECODED, ARP, IPV6, NO_ETHERTYPE, OTHER_ETHERTYPE, CUT_LINK, CUT_HEADER, BAD_HEADER, CUT_PORTS = 0, 1, 2, 3, 4, 5, 6, 7, 8

FLAGS_SHIFT = 4
"""A decoded frame returns its packet flags << FLAGS_SHIFT | DECODED."""

MAC_ADDRESSES = 12
ETHERTYPE_IPV4, ETHERTYPE_ARP, ETHERTYPE_IPV6 = 0x0800, 0x0806, 0x86DD
ETHERTYPE_MIN = 0x0600
"""Lower values are the length field of an 802.3 frame."""

PROTO_SCTP, PROTO_UDPLITE = 132, 136


@kernel
def big16(data: U8, at: int) -> int:
    """16 bits in network order."""
    return (i64(data[at]) << 8) | i64(data[at + 1])


@kernel
def big32(data: U8, at: int) -> int:
    """32 bits in network order."""
    return (big16(data, at) << 16) | big16(data, at + 2)


@kernel
def is_vlan(ethertype: int) -> bool:
    """True for the ethertypes of a VLAN tag."""
    return ethertype in (0x8100, 0x88A8, 0x9100, 0x9200)


@kernel
def has_ports(proto: int) -> bool:
    """True for the protocols whose first four bytes are source and destination port."""
    return proto in (PROTO_TCP, PROTO_UDP, PROTO_SCTP, PROTO_UDPLITE)


@kernel
def decode_ethernet(data: U8, at: int, captured: int, interface: int, key: U32, row: int) -> int:
    """Write the flow key of the frame data[at : at + captured] to key[row]; returns a reason, with flags if decoded."""
    end = at + captured
    at += MAC_ADDRESSES
    if at + 2 > end:
        return CUT_LINK
    ethertype = big16(data, at)
    at += 2
    while is_vlan(ethertype):
        if at + 4 > end:
            return CUT_LINK
        ethertype = big16(data, at + 2)
        at += 4
    if ethertype == ETHERTYPE_IPV4:
        return decode_ipv4(data, at, end, interface, key, row)
    if ethertype == ETHERTYPE_ARP:
        return ARP
    if ethertype == ETHERTYPE_IPV6:
        return IPV6
    if ethertype < ETHERTYPE_MIN:
        return NO_ETHERTYPE
    return OTHER_ETHERTYPE


@kernel
def decode_ipv4(data: U8, at: int, end: int, interface: int, key: U32, row: int) -> int:
    """The same for the IPv4 packet data[at : end]; bytes beyond the packet's own total length are padding."""
    if at >= end:
        return CUT_HEADER
    header = (i64(data[at]) & 15) * 4
    if i64(data[at]) >> 4 != 4 or header < 20:
        return BAD_HEADER
    if at + header > end:
        return CUT_HEADER
    total = big16(data, at + 2)
    # Some cards split large sends after the capture point and leave the length 0.
    if total == 0:
        total = end - at
    if total < header:
        return BAD_HEADER
    proto = i64(data[at + 9])
    ports = 0
    flags = 0
    if big16(data, at + 6) & 0x1FFF == 0 and has_ports(proto):
        segment = at + header
        if total < header + 4 or segment + 4 > end:
            return CUT_PORTS
        ports = big32(data, segment)
        if proto == PROTO_TCP and total >= header + 14 and segment + 14 <= end:
            bits = i64(data[segment + 13])
            flags = (FIN if bits & 1 != 0 else 0) | (RST if bits & 4 != 0 else 0)
    key[row, 0] = big32(data, at + 12)
    key[row, 1] = big32(data, at + 16)
    key[row, 2] = ports
    key[row, 3] = (proto << 24) | (i64(data[at + 1]) << 16) | interface
    return (flags << FLAGS_SHIFT) | DECODED
