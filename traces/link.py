"""From a captured record to its network layer: link layers, VLAN tags, MPLS labels, PPP.

Link types by the numbers of the tcpdump group's list (LINKTYPE_*): Ethernet (IEEE 802.3, 802.1Q, 802.1ad and the older tags 0x9100
and 0x9200, SNAP of RFC 1042), BSD null and loop, raw IP, Linux cooked v1 and v2, PPP (RFC 1661, 1662), PPPoE (RFC 2516), Cisco
HDLC. MPLS is RFC 3032; what lies under the last label says no type, so it is judged by its first four bits, as routers do: 4 and 6
are IP, 0 is the control word of a pseudowire (RFC 4385) with an Ethernet frame behind.
Left out: IEEE 802.11, DSA switch tags, USB, and whatever else is no way of IP; refused by name when a capture is opened.
"""

from models.kernel import U8, i64, kernel
from traces.reasons import ARP, CUT_LINK, NO_ETHERTYPE, OTHER_ETHERTYPE, TOO_MANY_HEADERS

NULL, ETHERNET, PPP, RAW_12, RAW_14, PPP_HDLC, PPP_ETHER, RAW, C_HDLC, LOOP = 0, 1, 9, 12, 14, 50, 51, 101, 104, 108
LINUX_SLL, RAW_IPV4, RAW_IPV6, LINUX_SLL2 = 113, 228, 229, 276
DECODABLE = (NULL, ETHERNET, PPP, RAW_12, RAW_14, PPP_HDLC, PPP_ETHER, RAW, C_HDLC, LOOP, LINUX_SLL, RAW_IPV4, RAW_IPV6, LINUX_SLL2)
"""Link types that `network_layer` understands."""

NAMES = {
    0: "NULL", 1: "ETHERNET", 3: "AX25", 6: "IEEE802_5", 7: "ARCNET_BSD", 8: "SLIP", 9: "PPP", 10: "FDDI", 12: "RAW", 14: "RAW",
    50: "PPP_HDLC", 51: "PPP_ETHER", 100: "ATM_RFC1483", 101: "RAW", 104: "C_HDLC", 105: "IEEE802_11", 107: "FRELAY", 108: "LOOP",
    113: "LINUX_SLL", 117: "PFLOG", 119: "IEEE802_11_PRISM", 127: "IEEE802_11_RADIOTAP", 138: "APPLE_IP_OVER_IEEE1394",
    147: "USER0", 189: "USB_LINUX", 192: "PPI", 195: "IEEE802_15_4_WITHFCS", 220: "USB_LINUX_MMAPPED", 227: "CAN_SOCKETCAN",
    228: "IPV4", 229: "IPV6", 239: "NFLOG", 249: "USBPCAP", 251: "BLUETOOTH_LE_LL", 252: "WIRESHARK_UPPER_PDU", 253: "NETLINK",
    271: "VSOCK", 276: "LINUX_SLL2", 281: "DSA_TAG_BRCM", 282: "DSA_TAG_BRCM_PREPEND", 284: "DSA_TAG_DSA", 285: "DSA_TAG_EDSA",
}  # fmt: skip
"""Names of the link types most often met, those that are refused included."""

ETHERTYPE_IPV4, ETHERTYPE_ARP, ETHERTYPE_IPV6 = 0x0800, 0x0806, 0x86DD
ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM, ETHERTYPE_PPPOE, ETHERTYPE_TEB = 0x8847, 0x8848, 0x8864, 0x6558
ETHERTYPE_MIN = 0x0600
"""Lower values are the length field of an 802.3 frame."""
MAC_ADDRESSES = 12
MOST_LAYERS = 32
"""Tags, labels and frames in frames that one record may have; no network stacks as many."""


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
def by_version(data: U8, at: int, end: int) -> tuple[int, int]:
    """What a packet without a type is, by its version: (where it begins, ETHERTYPE_IPV4 or ETHERTYPE_IPV6, else minus a reason)."""
    if at >= end:
        return at, -CUT_LINK
    version = i64(data[at]) >> 4
    if version == 4:
        return at, ETHERTYPE_IPV4
    if version == 6:
        return at, ETHERTYPE_IPV6
    return at, -OTHER_ETHERTYPE


@kernel
def ppp(data: U8, at: int, end: int) -> tuple[int, int]:
    """The ethertype that a PPP frame's protocol stands for (0: none of interest), and where its payload begins.

    Address and control (0xff 0x03) may stand first, and a protocol below 256 may be written in one byte.
    """
    if at + 2 <= end and data[at] == 0xFF and data[at + 1] == 3:
        at += 2
    if at >= end:
        return at, -CUT_LINK
    if data[at] & 1 == 1:
        protocol = i64(data[at])
        at += 1
    elif at + 2 <= end:
        protocol = big16(data, at)
        at += 2
    else:
        return at, -CUT_LINK
    if protocol == 0x0021:
        return at, ETHERTYPE_IPV4
    if protocol == 0x0057:
        return at, ETHERTYPE_IPV6
    if protocol in (0x0281, 0x0283):
        return at, ETHERTYPE_MPLS
    return at, -OTHER_ETHERTYPE


@kernel
def bsd_family(data: U8, at: int, end: int) -> tuple[int, int]:
    """BSD null and loop: an address family of four bytes, in whichever byte order the machine had."""
    if at + 4 > end:
        return at, -CUT_LINK
    family = big32(data, at)
    if family > 0xFFFF:
        family = (i64(data[at + 1]) << 8) | i64(data[at])
    if family == 2:
        return at + 4, ETHERTYPE_IPV4
    if family in (10, 24, 28, 30):  # Linux, NetBSD and OpenBSD, FreeBSD, macOS
        return at + 4, ETHERTYPE_IPV6
    return at, -OTHER_ETHERTYPE


@kernel
def ethertype_at(data: U8, at: int, end: int) -> tuple[int, int]:
    """An ethertype that stands at `at`, and where its payload begins; of an 802.3 frame that of its SNAP header."""
    if at + 2 > end:
        return at, -CUT_LINK
    kind = big16(data, at)
    at += 2
    if kind >= ETHERTYPE_MIN:
        return at, kind
    if at + 8 <= end and big32(data, at) == 0xAAAA0300 and big16(data, at + 4) == 0:
        return at + 8, big16(data, at + 6)
    return at, -NO_ETHERTYPE


@kernel
def link_layer(data: U8, at: int, end: int, link: int) -> tuple[int, int]:
    """Where what the link layer carries begins, and its ethertype, or minus a reason; `link` is one of DECODABLE."""
    if link == ETHERNET:
        return ethertype_at(data, at + MAC_ADDRESSES, end)
    if link in (RAW, RAW_12, RAW_14):
        return by_version(data, at, end)
    if link == RAW_IPV4:
        return at, ETHERTYPE_IPV4
    if link == RAW_IPV6:
        return at, ETHERTYPE_IPV6
    if link in (NULL, LOOP):
        return bsd_family(data, at, end)
    if link in (PPP, PPP_HDLC):
        return ppp(data, at, end)
    if link == PPP_ETHER:
        return at, ETHERTYPE_PPPOE
    if link == C_HDLC:
        return ethertype_at(data, at + 2, end)
    if link == LINUX_SLL:
        return ethertype_at(data, at + 14, end)
    if at + 20 > end:
        return at, -CUT_LINK
    kind = big16(data, at)  # LINUX_SLL2
    return at + 20, kind if kind >= ETHERTYPE_MIN else -NO_ETHERTYPE


@kernel
def past_labels(data: U8, at: int, end: int) -> tuple[int, int]:
    """Behind an MPLS label stack: IP by its version, or ETHERTYPE_TEB for a frame in a pseudowire."""
    while True:
        if at + 4 > end:
            return at, -CUT_LINK
        last = i64(data[at + 2]) & 1
        at += 4
        if last == 1:
            break
    if at + 4 <= end and i64(data[at]) >> 4 == 0:
        return at + 4, ETHERTYPE_TEB
    return by_version(data, at, end)


@kernel
def network_layer(data: U8, at: int, end: int, kind: int) -> tuple[int, int]:
    """Go on from an ethertype to IP: (where it begins, ETHERTYPE_IPV4 or ETHERTYPE_IPV6); minus a reason in place of the second."""
    for _ in range(MOST_LAYERS):
        if kind < 0 or kind in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
            return at, kind
        if is_vlan(kind):
            at, kind = ethertype_at(data, at + 2, end)
        elif kind in (ETHERTYPE_MPLS, ETHERTYPE_MPLS_UPSTREAM):
            at, kind = past_labels(data, at, end)
        elif kind == ETHERTYPE_TEB:
            at, kind = ethertype_at(data, at + MAC_ADDRESSES, end)
        elif kind == ETHERTYPE_PPPOE:
            at, kind = ppp(data, at + 6, end)
        elif kind == ETHERTYPE_ARP:
            return at, -ARP
        else:
            return at, -OTHER_ETHERTYPE
    return at, -TOO_MANY_HEADERS
