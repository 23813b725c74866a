"""From a captured record to a flow key of IPv4 or IPv6.

IPv4 with options (RFC 791); IPv6 with hop-by-hop, routing and destination options, fragment header and AH (RFC 8200, 4302). Ports
of TCP, UDP, UDPLite and SCTP, FIN and RST of TCP. A later fragment has no ports but the first one has, so their keys differ, as a
router without reassembly sees them. Everything else is refused with a reason (traces/reasons.py).
Left out: checksums, ports behind ESP, and in later fragments what follows the fragment header.
"""

from models.flow import FIN, PROTO_TCP, PROTO_UDP, RST
from models.kernel import U8, U32, i64, kernel
from traces.link import ETHERTYPE_IPV4, big16, big32, link_layer, network_layer
from traces.reasons import (
    BAD_HEADER,
    BAD_HEADER6,
    CUT_HEADER,
    CUT_HEADER6,
    CUT_PORTS,
    DECODED,
    EMPTY,
    FLAGS_SHIFT,
    IPV4,
    IPV6,
    LATER_FRAGMENT,
    TOO_MANY_HEADERS,
)
from traces.tunnel import NO_TUNNEL, inside

PROTO_SCTP, PROTO_UDPLITE = 132, 136
HOP_BY_HOP, ROUTING, FRAGMENT, AH, DESTINATION = 0, 43, 44, 51, 60
IPV6_HEADER = 40
MOST_EXTENSIONS = 16
MOST_TUNNELS = 8


@kernel
def has_ports(proto: int) -> bool:
    """True for the protocols whose first four bytes are source and destination port."""
    return proto in (PROTO_TCP, PROTO_UDP, PROTO_SCTP, PROTO_UDPLITE)


@kernel
def ipv4_payload(data: U8, at: int, end: int) -> tuple[int, int, int, int, int]:
    """(reason, protocol, where the payload begins, where it ends, bytes that were sent of it) of the IPv4 packet data[at : end].

    The reason is DECODED or LATER_FRAGMENT, or says why the rest is nothing. Bytes beyond the packet's own length are padding.
    """
    if at >= end:
        return CUT_HEADER, 0, at, at, 0
    header = (i64(data[at]) & 15) * 4
    if i64(data[at]) >> 4 != 4 or header < 20:
        return BAD_HEADER, 0, at, at, 0
    if at + header > end:
        return CUT_HEADER, 0, at, at, 0
    total = big16(data, at + 2)
    # Some cards split large sends after the capture point and leave the length 0.
    if total == 0:
        total = end - at
    if total < header:
        return BAD_HEADER, 0, at, at, 0
    reason = DECODED if big16(data, at + 6) & 0x1FFF == 0 else LATER_FRAGMENT
    return reason, i64(data[at + 9]), at + header, min(end, at + total), total - header


@kernel
def ipv6_payload(data: U8, at: int, end: int) -> tuple[int, int, int, int, int]:
    """The same for the IPv6 packet data[at : end]; the protocol is that behind all extension headers."""
    if at >= end or at + IPV6_HEADER > end:
        return CUT_HEADER6, 0, at, at, 0
    if i64(data[at]) >> 4 != 6:
        return BAD_HEADER6, 0, at, at, 0
    sent = big16(data, at + 4)
    proto = i64(data[at + 6])
    at += IPV6_HEADER
    if sent == 0:  # a jumbogram, or one that the card will split
        sent = end - at
    stop = min(end, at + sent)
    for _ in range(MOST_EXTENSIONS):
        if proto not in (HOP_BY_HOP, ROUTING, DESTINATION, FRAGMENT, AH):
            return DECODED, proto, at, stop, sent
        if at + 8 > stop:
            return CUT_HEADER6 if sent >= 8 else BAD_HEADER6, 0, at, at, 0
        following = i64(data[at])
        length = 8
        if proto == AH:
            length = (i64(data[at + 1]) + 2) * 4
        elif proto != FRAGMENT:
            length = (i64(data[at + 1]) + 1) * 8
        elif big16(data, at + 2) & 0xFFF8 != 0:
            return LATER_FRAGMENT, following, at + 8, stop, sent - 8
        if length > sent:
            return BAD_HEADER6, 0, at, at, 0
        if at + length > stop:
            return CUT_HEADER6, 0, at, at, 0
        proto = following
        at += length
        sent -= length
    return TOO_MANY_HEADERS, 0, at, at, 0


@kernel
def _payload(data: U8, at: int, end: int, kind: int) -> tuple[int, int, int, int, int]:
    if kind == ETHERTYPE_IPV4:
        return ipv4_payload(data, at, end)
    return ipv6_payload(data, at, end)


@kernel
def decode_ip(data: U8, at: int, end: int, kind: int, family: int, inner: int, interface: int, key: U32, row: int) -> int:
    """Write the flow key of the IP packet data[at : end] to key[row]; returns flags << FLAGS_SHIFT | reason.

    `kind` is ETHERTYPE_IPV4 or ETHERTYPE_IPV6, `inner` other than 0 takes the innermost packet of a tunnel.
    """
    reason, proto, begin, stop, sent = _payload(data, at, end, kind)
    if inner != 0:
        for _ in range(MOST_TUNNELS):
            if reason != DECODED:
                break
            within, kind_within = inside(data, begin, stop, proto)
            if kind_within == NO_TUNNEL:
                break
            at, end, kind = within, stop, kind_within
            reason, proto, begin, stop, sent = _payload(data, at, end, kind)
    if (kind == ETHERTYPE_IPV4) != (family == 4):
        return IPV4 if kind == ETHERTYPE_IPV4 else IPV6
    if reason != DECODED and reason != LATER_FRAGMENT:
        return reason
    ports = flags = 0
    if reason == DECODED and has_ports(proto):
        if sent < 4 or begin + 4 > stop:
            return CUT_PORTS
        ports = big32(data, begin)
        if proto == PROTO_TCP and begin + 14 <= stop:
            bits = i64(data[begin + 13])
            flags = (FIN if bits & 1 != 0 else 0) | (RST if bits & 4 != 0 else 0)
    if family == 4:
        key[row, 0] = big32(data, at + 12)
        key[row, 1] = big32(data, at + 16)
        tos = i64(data[at + 1])
    else:
        for word in range(8):
            key[row, word] = big32(data, at + 8 + 4 * word)
        tos = (big16(data, at) >> 4) & 0xFF
    words = key.shape[1]
    key[row, words - 2] = ports
    key[row, words - 1] = (proto << 24) | (tos << 16) | interface
    return (flags << FLAGS_SHIFT) | reason


@kernel
def decode_packet(data: U8, at: int, captured: int, link: int, family: int, inner: int, interface: int, key: U32, row: int) -> int:
    """Write the flow key of the record data[at : at + captured] to key[row]; returns flags << FLAGS_SHIFT | reason.

    `link` is a link type of traces/link.py's DECODABLE; `family` 4 or 6, with keys of 4 or 10 words (models/flow.py); packets of
    the other family are refused as such. With `inner` not 0 the key is that of the innermost packet of a tunnel (traces/tunnel.py).
    """
    if captured == 0:
        return EMPTY
    end = at + captured
    at, kind = link_layer(data, at, end, link)
    at, kind = network_layer(data, at, end, kind)
    if kind < 0:
        return -kind
    return decode_ip(data, at, end, kind, family, inner, interface, key, row)
