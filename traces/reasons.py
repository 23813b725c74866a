"""What can become of a captured record: it has a flow key, or a reason why not. Sources count records by these."""

DECODED, ARP, IPV6, NO_ETHERTYPE, OTHER_ETHERTYPE, CUT_LINK, CUT_HEADER, BAD_HEADER, CUT_PORTS = range(9)
IPV4, CUT_HEADER6, BAD_HEADER6, TOO_MANY_HEADERS, LATER_FRAGMENT, EMPTY, UNKNOWN_LINK = range(9, 16)

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
    "ipv4",
    "IPv6 header cut off",
    "bad IPv6 header",
    "too many headers",
    "later fragment, without ports",
    "empty record",
    "of a link type that is not read",
)
"""Names of the reasons, as results show them."""

FLAGS_SHIFT = 4
"""A decoder returns packet flags << FLAGS_SHIFT | reason."""
REASON_MASK = (1 << FLAGS_SHIFT) - 1

REPLAYED = (DECODED, LATER_FRAGMENT)
"""Reasons of records that have a flow key. A later fragment has one without ports."""
