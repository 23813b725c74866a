"""What a packet carries in a tunnel: where the packet inside begins, and of which family it is.

GRE with checksum, key and sequence number (RFC 2784, 2890) over IP, Ethernet (NVGRE, RFC 7637) or MPLS, and PPTP's GRE (RFC 2637);
VXLAN (RFC 7348, UDP port 4789); GTP-U (3GPP TS 29.281, UDP port 2152); IP in IP (RFC 2003, 2473); 6in4 (RFC 4213).
A payload that is not IP is no tunnel of IP: the packet around it is then the innermost.
Left out: ESP, L2TP, Geneve, ERSPAN, Teredo, and GRE with source routes.
"""

from models.flow import PROTO_UDP
from models.kernel import U8, i64, kernel
from traces.link import ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_TEB, big16, by_version, network_layer, ppp

NO_TUNNEL = -1
IPIP, SIX_IN_FOUR, GRE = 4, 41, 47
VXLAN_PORT, GTP_PORT = 4789, 2152
GRE_PPP = 0x880B
MOST_GTP_EXTENSIONS = 16


@kernel
def _gre(data: U8, at: int, end: int) -> tuple[int, int]:
    if at + 4 > end:
        return at, NO_TUNNEL
    bits, kind = big16(data, at), big16(data, at + 2)
    version = bits & 7
    at += 4
    if bits & 0x4000 != 0 or version > 1:
        return at, NO_TUNNEL
    at += (4 if bits & 0x8000 != 0 else 0) + (4 if bits & 0x2000 != 0 else 0) + (4 if bits & 0x1000 != 0 else 0)
    if version == 1:
        at += 4 if bits & 0x0080 != 0 else 0
        if kind != GRE_PPP:
            return at, NO_TUNNEL
        at, kind = ppp(data, at, end)
    return network_layer(data, at, end, kind)


@kernel
def _gtp(data: U8, at: int, end: int) -> tuple[int, int]:
    """`at` is where the GTP header begins. Of version 1, and only what carries a user's packet."""
    if at + 8 > end or i64(data[at]) >> 4 != 3 or data[at + 1] != 0xFF:
        return at, NO_TUNNEL
    optional = i64(data[at]) & 7
    at += 8
    if optional != 0:
        if at + 4 > end:
            return at, NO_TUNNEL
        following = i64(data[at + 3]) if optional & 4 != 0 else 0
        at += 4
        for _ in range(MOST_GTP_EXTENSIONS):
            if following == 0:
                break
            if at >= end or data[at] == 0:
                return at, NO_TUNNEL
            size = 4 * i64(data[at])
            if at + size > end:
                return at, NO_TUNNEL
            following = i64(data[at + size - 1])
            at += size
        if following != 0:
            return at, NO_TUNNEL
    return by_version(data, at, end)


@kernel
def _udp(data: U8, at: int, end: int) -> tuple[int, int]:
    if at + 8 > end:
        return at, NO_TUNNEL
    source, destination = big16(data, at), big16(data, at + 2)
    if destination == VXLAN_PORT:
        if at + 16 > end or data[at + 8] & 0x08 == 0:
            return at, NO_TUNNEL
        return network_layer(data, at + 16, end, ETHERTYPE_TEB)
    if destination == GTP_PORT or source == GTP_PORT:
        return _gtp(data, at + 8, end)
    return at, NO_TUNNEL


@kernel
def inside(data: U8, at: int, end: int, proto: int) -> tuple[int, int]:
    """Where the packet in the payload data[at : end] of an IP packet begins, and ETHERTYPE_IPV4 or ETHERTYPE_IPV6, or NO_TUNNEL."""
    kind = NO_TUNNEL
    if proto == IPIP:
        kind = ETHERTYPE_IPV4
    elif proto == SIX_IN_FOUR:
        kind = ETHERTYPE_IPV6
    elif proto == GRE:
        at, kind = _gre(data, at, end)
    elif proto == PROTO_UDP:
        at, kind = _udp(data, at, end)
    if kind < 0 or at >= end:
        return at, NO_TUNNEL
    return at, kind
