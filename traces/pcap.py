"""The classic capture file format (libpcap, format 2.4): its header, and a kernel that scans its records.

Source: pcap-savefile(5) of libpcap and the IETF draft opsawg-pcap. A file is a header of 24 bytes, then records: a header of 16
bytes (seconds, fraction, captured length, original length) and the captured bytes. The magic number gives the byte order and
the unit of the fraction.
Left out: the time zone field (always 0 in practice), the length of a captured checksum, and formats before 2.4.
"""

import struct
from typing import NamedTuple

from models.flow import PacketBatch
from models.kernel import I64, U8, i64, kernel
from traces.capture_file import AT, HAVE, LAST, NEED_DATA, PACKETS, RECORDS, SCANNED, TOO_LONG, take_packet
from traces.decode import decode_packet
from traces.reasons import DECODED, FLAGS_SHIFT, LATER_FRAGMENT, REASON_MASK

HEADER_BYTES = 24
RECORD_BYTES = 16
MAX_CAPTURED = 262144
"""Longest captured length that is believed even if the file's snap length is shorter (libpcap's MAXIMUM_SNAPLEN)."""

MAGIC = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
"""Magic number to nanoseconds in a unit of the fraction."""


class FileHeader(NamedTuple):
    """What the file header says."""

    big_endian: bool
    unit_ns: int  # nanoseconds in a unit of the fraction
    major: int
    minor: int
    snaplen: int
    link_type: int


def read_header(data: bytes) -> FileHeader | None:
    """The header at the start of a file of at least HEADER_BYTES; None if it is no classic capture."""
    for order in "<>":
        (magic,) = struct.unpack_from(order + "I", data)
        if magic in MAGIC:
            major, minor, _, _, snaplen, network = struct.unpack_from(order + "HHiIII", data, 4)
            # The upper half tells the length of the checksum.
            return FileHeader(order == ">", MAGIC[magic], major, minor, snaplen, network & 0xFFFF)
    return None


@kernel
def read32(data: U8, at: int, big_endian: int) -> int:
    """32 bits in the byte order of the file."""
    a, b, c, d = i64(data[at]), i64(data[at + 1]), i64(data[at + 2]), i64(data[at + 3])
    if big_endian != 0:
        return (a << 24) | (b << 16) | (c << 8) | d
    return (d << 24) | (c << 16) | (b << 8) | a


@kernel
def scan(
    block: U8,
    var: I64,
    reasons: I64,
    big_endian: int,
    unit_ns: int,
    most: int,
    link: int,
    family: int,
    inner: int,
    interface: int,
    batch: PacketBatch,
    start: int,
) -> tuple[int, int]:
    """Decode records of the block from var[AT] on into the batch from row `start` on; returns why it ended and the rows filled.

    Time that goes back is held at the last packet's and counted. `reasons` is counted up for every record. `link`, `family`,
    `inner` and `interface` are as in traces/decode.py.
    """
    at, have, last = i64(var[AT]), i64(var[HAVE]), i64(var[LAST])
    row = start
    why = SCANNED
    while row < batch.time.size:
        if at + RECORD_BYTES > have:
            why = NEED_DATA
            break
        captured = read32(block, at + 8, big_endian)
        if captured > most:
            why = TOO_LONG
            break
        if at + RECORD_BYTES + captured > have:
            why = NEED_DATA
            break
        found = decode_packet(block, at + RECORD_BYTES, captured, link, family, inner, interface, batch.key, row)
        reason = found & REASON_MASK
        reasons[reason] += 1
        if reason in (DECODED, LATER_FRAGMENT):
            time = read32(block, at, big_endian) * 1_000_000_000 + read32(block, at + 4, big_endian) * unit_ns
            last = take_packet(batch, var, row, last, time, read32(block, at + 12, big_endian), found >> FLAGS_SHIFT)
            row += 1
        var[RECORDS] += 1
        at += RECORD_BYTES + captured
    var[AT] = at
    var[LAST] = last
    var[PACKETS] += row - start
    return why, row
