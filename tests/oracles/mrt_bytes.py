"""MRT records written by hand from RFC 6396, RFC 4271 and RFC 4760, for tests of what reads them."""

import ipaddress
import struct


def record(kind: int, subtype: int, body: bytes, seconds: int = 1_000_000) -> bytes:
    return struct.pack(">IHHI", seconds, kind, subtype, len(body)) + body


def packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def nlri(prefix: str) -> bytes:
    """Length and as many bytes as it takes; host bits of the last byte stay."""
    address, plen = prefix.split("/")
    return bytes([int(plen)]) + packed(address)[: (int(plen) + 7) // 8]


def attribute(kind: int, value: bytes, flags: int = 0x40) -> bytes:
    if len(value) > 255:
        return struct.pack(">BBH", flags | 0x10, kind, len(value)) + value
    return bytes([flags, kind, len(value)]) + value


def attributes(hop: str | None, as_bytes: int = 4) -> bytes:
    """ORIGIN, AS_PATH and, for an IPv4 next hop, NEXT_HOP; for an IPv6 one MP_REACH_NLRI in the short form of RFC 6396, 4.3.4."""
    found = attribute(1, b"\0") + attribute(2, b"\2\1" + (64500).to_bytes(as_bytes, "big"))
    if hop is not None and ":" in hop:
        return found + attribute(14, b"\x10" + packed(hop), 0x80)
    return found + (b"" if hop is None else attribute(3, packed(hop)))


def peer_index(*peers: str) -> bytes:
    body = packed("192.0.2.254") + struct.pack(">H", 4) + b"view" + struct.pack(">H", len(peers))
    for i, peer in enumerate(peers):
        body += bytes([2 | (":" in peer)]) + bytes(4) + packed(peer) + (64500 + i).to_bytes(4, "big")
    return record(13, 1, body)


def rib(prefix: str, *paths: tuple[int, str | None], add_path: bool = False) -> bytes:
    """RIB_IPV4_UNICAST or RIB_IPV6_UNICAST: (number of the peer, its next hop)."""
    body = struct.pack(">I", 7) + nlri(prefix) + struct.pack(">H", len(paths))
    for peer, hop in paths:
        found = attributes(hop)
        body += struct.pack(">HI", peer, 0) + (struct.pack(">I", 9) if add_path else b"") + struct.pack(">H", len(found)) + found
    return record(13, (4 if ":" in prefix else 2) + (6 if add_path else 0), body)


def table_dump(prefix: str, peer: str, hop: str | None) -> bytes:
    """A TABLE_DUMP record with 2-byte AS numbers."""
    address, plen = prefix.split("/")
    size = 16 if ":" in prefix else 4
    found = attributes(hop, 2)
    if size == 16 and hop is not None:
        reach = struct.pack(">HBB", 2, 1, 16) + packed(hop) + b"\0" + nlri(prefix)
        found = attribute(1, b"\0") + attribute(14, reach, 0x80)
    body = bytes(4) + packed(address) + bytes([int(plen), 1]) + bytes(4)
    body += packed(peer).ljust(size, b"\0") + struct.pack(">HH", 64500, len(found)) + found
    return record(12, 2 if size == 16 else 1, body)


def update(
    peer: str,
    withdrawn: list[str] = [],  # noqa: B006 - never changed
    announced: list[str] = [],  # noqa: B006
    hop: str | None = None,
    *,
    seconds: int = 1_000_000,
    microseconds: int | None = None,
    as4: bool = False,
) -> bytes:
    """A BGP4MP message with an UPDATE; IPv6 prefixes go into MP_REACH_NLRI and MP_UNREACH_NLRI."""
    six = [prefix for prefix in announced if ":" in prefix]
    six_gone = [prefix for prefix in withdrawn if ":" in prefix]
    four = b"".join(nlri(prefix) for prefix in announced if ":" not in prefix)
    gone = b"".join(nlri(prefix) for prefix in withdrawn if ":" not in prefix)
    found = b""
    if announced:
        found = attributes(None if hop is None or ":" in hop else hop, 4 if as4 else 2)
    if six and hop is not None:
        reach = struct.pack(">HBB", 2, 1, 16) + packed(hop) + b"\0" + b"".join(nlri(prefix) for prefix in six)
        found += attribute(14, reach, 0x80)
    if six_gone:
        found += attribute(15, struct.pack(">HB", 2, 1) + b"".join(nlri(prefix) for prefix in six_gone), 0x80)
    body = struct.pack(">H", len(gone)) + gone + struct.pack(">H", len(found)) + found + four
    return message(peer, 2, body, seconds=seconds, microseconds=microseconds, as4=as4)


def message(
    peer: str, kind: int, body: bytes, *, seconds: int = 1_000_000, microseconds: int | None = None, as4: bool = False
) -> bytes:
    """A BGP4MP or BGP4MP_ET record with any BGP message."""
    bgp = b"\xff" * 16 + struct.pack(">HB", 19 + len(body), kind) + body
    body = _session(peer, as4) + bgp
    if microseconds is None:
        return record(16, 4 if as4 else 1, body, seconds)
    return record(17, 4 if as4 else 1, struct.pack(">I", microseconds) + body, seconds)


def state_change(peer: str, old: int, new: int, *, seconds: int = 1_000_000) -> bytes:
    return record(16, 0, _session(peer, False) + struct.pack(">HH", old, new), seconds)


def _session(peer: str, as4: bool) -> bytes:
    size = 4 if as4 else 2
    local = "2001:db8::ff" if ":" in peer else "192.0.2.255"
    numbers = (64500).to_bytes(size, "big") + (64501).to_bytes(size, "big")
    return numbers + struct.pack(">HH", 0, 2 if ":" in peer else 1) + packed(peer) + packed(local)
