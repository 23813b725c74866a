"""Frames and classic capture files built with struct alone, and their flow keys as dpkt reads them.

Nothing here is shared with the package's own decoder.
"""

import io
import socket
import struct

import dpkt

ADDRESSES = b"\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02"


def ethernet(payload: bytes, ethertype: int = 0x0800, vlans: tuple[int, ...] = ()) -> bytes:
    """A frame; `vlans` are the ethertypes of its VLAN tags, outermost first."""
    tags = b"".join(struct.pack(">HH", tag, 100 + i) for i, tag in enumerate(vlans))
    return ADDRESSES + tags + struct.pack(">H", ethertype) + payload


def ipv4(
    payload: bytes,
    source: int,
    destination: int,
    proto: int = 17,
    tos: int = 0,
    offset: int = 0,
    more: bool = False,
    options: bytes = b"",
    total: int | None = None,
) -> bytes:
    """An IPv4 packet; offset in units of 8 bytes, options a multiple of 4 bytes long."""
    words = 5 + len(options) // 4
    length = words * 4 + len(payload) if total is None else total
    fragment = offset | (0x2000 if more else 0)
    head = struct.pack(">BBHHHBBHII", 0x40 | words, tos, length, 7, fragment, 64, proto, 0, source, destination)
    return head + options + payload


def ipv6(
    payload: bytes,
    source: int,
    destination: int,
    following: int = 17,
    tclass: int = 0,
    extensions: tuple[tuple[int, bytes], ...] = (),
    length: int | None = None,
) -> bytes:
    """An IPv6 packet; each extension header is (its number, its bytes from the third on) and is padded to a multiple of 8."""
    chain = b""
    for i, (number, body) in enumerate(extensions):
        after = extensions[i + 1][0] if i + 1 < len(extensions) else following
        if number == 44:
            chain += bytes([after, 0]) + body
            continue
        size = -(-(2 + len(body)) // 8) * 8
        words = size // 4 - 2 if number == 51 else size // 8 - 1
        chain += (bytes([after, words]) + body).ljust(size, b"\0")
    first = extensions[0][0] if extensions else following
    sent = len(chain + payload) if length is None else length
    head = struct.pack(">IHBB", 6 << 28 | tclass << 20 | 0x12345, sent, first, 64)
    return head + source.to_bytes(16, "big") + destination.to_bytes(16, "big") + chain + payload


def udp(sport: int, dport: int, data: bytes = b"data") -> bytes:
    return struct.pack(">HHHH", sport, dport, 8 + len(data), 0) + data


def tcp(sport: int, dport: int, flags: int = 0x10, data: bytes = b"") -> bytes:
    return struct.pack(">HHIIBBHHH", sport, dport, 1, 2, 0x50, flags, 1000, 0, 0) + data


def sctp(sport: int, dport: int) -> bytes:
    return struct.pack(">HHII", sport, dport, 1, 0) + b"\x00\x00\x00\x04"


def pcap(
    frames: list[tuple[int, bytes]], order: str = "<", nano: bool = False, snaplen: int = 262144, link: int = 1, minor: int = 4
) -> bytes:
    """A capture of (time in ns, frame). Frames longer than the snap length are cut."""
    unit = 1 if nano else 1000
    out = [struct.pack(order + "IHHiIII", 0xA1B23C4D if nano else 0xA1B2C3D4, 2, minor, 0, 0, snaplen, link)]
    for time, frame in frames:
        kept = frame[:snaplen]
        out.append(struct.pack(order + "IIII", time // 10**9, time % 10**9 // unit, len(kept), len(frame)) + kept)
    return b"".join(out)


def block(order: str, kind: int, body: bytes) -> bytes:
    """A block of a pcapng file."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + size + body + size


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", options: bytes = b"") -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options)


def interface(order: str = "<", link: int = 1, snaplen: int = 0, resolution: int | None = None, offset: int | None = None) -> bytes:
    options = b""
    if resolution is not None:
        options += option(order, 9, bytes([resolution]))
    if offset is not None:
        options += option(order, 14, struct.pack(order + "q", offset))
    return block(order, 1, struct.pack(order + "HHI", link, 0, snaplen) + options + (bytes(4) if options else b""))


def enhanced(units: int, frame: bytes, order: str = "<", which: int = 0, length: int | None = None) -> bytes:
    head = struct.pack(order + "5I", which, units >> 32, units & 0xFFFFFFFF, len(frame), len(frame) if length is None else length)
    return block(order, 6, head + frame + bytes(-len(frame) % 4))


def simple(frame: bytes, order: str = "<", length: int | None = None) -> bytes:
    return block(order, 3, struct.pack(order + "I", len(frame) if length is None else length) + frame)


def old_packet(units: int, frame: bytes, order: str = "<", which: int = 0) -> bytes:
    head = struct.pack(order + "HHIIII", which, 0xABCD, units >> 32, units & 0xFFFFFFFF, len(frame), len(frame))
    return block(order, 2, head + frame)


def keys_by_dpkt(capture: bytes, interface: int = 1) -> list[tuple[int, tuple[int, int, int, int], int]]:
    """(time ns, flow key, FIN | RST << 1) of every IPv4 packet, by dpkt's reader and parsers."""
    found = []
    # Of files in microseconds dpkt gives floats, good to the microsecond; of files in nanoseconds, decimals.
    for time, data in dpkt.pcap.Reader(io.BytesIO(capture)):
        time_ns = round(time * 10**6) * 1000 if isinstance(time, float) else int(time * 10**9)
        layer = dpkt.ethernet.Ethernet(data).data
        if not isinstance(layer, dpkt.ip.IP):
            continue
        ports = flags = 0
        if not layer.offset and isinstance(layer.data, dpkt.udp.UDP | dpkt.tcp.TCP | dpkt.sctp.SCTP):
            ports = layer.data.sport << 16 | layer.data.dport
            if isinstance(layer.data, dpkt.tcp.TCP):
                flags = layer.data.flags & 1 | (layer.data.flags & 4) >> 1
        source, destination = (int.from_bytes(socket.inet_aton(socket.inet_ntoa(a)), "big") for a in (layer.src, layer.dst))
        found.append((time_ns, (source, destination, ports, layer.p << 24 | layer.tos << 16 | interface), flags))
    return found
