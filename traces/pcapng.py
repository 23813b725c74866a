"""The pcapng capture format: sections of either byte order, interfaces with their own link type and clock, packet blocks.

Source: the IETF draft opsawg-pcapng. A file is a sequence of blocks (type, total length, body, total length again). A section
header begins a section, with its own byte order and its own interfaces; an interface description gives link type, snap length, and
in options the unit of its times (if_tsresol, a power of ten or of two) and seconds to add (if_tsoffset). Packets stand in enhanced,
simple and (older) packet blocks. A simple block has no time: it takes that of the packet before it. All other blocks are skipped.
The kernel scans packets and returns for headers and descriptions, which are read here.
Left out: packets and headers longer than the reader's block, name resolution, statistics, decryption secrets.
"""

import struct
from typing import Any, ClassVar

import numpy as np

from models.flow import PacketBatch
from models.kernel import I64, U8, i64, kernel
from traces.capture_file import (
    AT,
    HAVE,
    LAST,
    NEED_DATA,
    PACKETS,
    RECORDS,
    SCANNED,
    TOO_LONG,
    CaptureFile,
    take_packet,
)
from traces.decode import decode_packet
from traces.link import DECODABLE
from traces.pcap import read32
from traces.reasons import DECODED, FLAGS_SHIFT, LATER_FRAGMENT, REASON_MASK, UNKNOWN_LINK

BEGINS = b"\x0a\x0d\x0d\x0a"
SECTION_HEADER, INTERFACE, OLD_PACKET, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
BYTE_ORDER = 0x1A2B3C4D
MOST_INTERFACES = 1024
IF_TSRESOL, IF_TSOFFSET = 9, 14
OPTION_END = 0

# Columns of the interfaces
LINK, SNAPLEN, RESOLUTION, OFFSET = 0, 1, 2, 3
"""Link type (NOT_READ: one that is not decoded), snap length, exponent of the unit (below 0: of two), seconds to add."""
NOT_READ = -1

NEW_SECTION, NEW_INTERFACE, BAD_LENGTH, BAD_PACKET, NO_INTERFACE, LONG_BLOCK = 3, 4, 5, 6, 7, 8
"""Why a scan ended, beyond those of traces/capture_file.py."""

LATEST_NS = 1 << 62
LATEST_S = LATEST_NS // 1_000_000_000


@kernel
def to_ns(high: int, low: int, resolution: int, offset: int) -> int:
    """A time of 2 x 32 bits in its interface's unit as ns since 1970, at most LATEST_NS, at least 0."""
    if high >= 1 << 31:
        return LATEST_NS
    units = (high << 32) | low
    if resolution >= 0:
        seconds, rest = 0, 0
        if resolution > 18:
            seconds = 0
        else:
            each = i64(1)
            for _ in range(resolution):
                each *= 10
            seconds = units // each
            rest = units % each
            if resolution <= 9:
                for _ in range(9 - resolution):
                    rest *= 10
            else:
                for _ in range(resolution - 9):
                    rest //= 10
    else:
        bits = -resolution
        if bits > 62:
            seconds, rest = 0, 0
        else:
            seconds = units >> bits
            rest = units & ((i64(1) << bits) - 1)
            if bits > 30:
                rest >>= bits - 30
                bits = 30
            rest = (rest * 1_000_000_000) >> bits
    seconds += offset
    if seconds > LATEST_S - 1:
        return LATEST_NS
    if seconds < 0:
        return 0
    return seconds * 1_000_000_000 + rest


@kernel
def scan_blocks(
    block: U8,
    var: I64,
    reasons: I64,
    big_endian: int,
    interfaces: I64,
    known: int,
    family: int,
    inner: int,
    interface: int,
    batch: PacketBatch,
    start: int,
) -> tuple[int, int]:
    """Decode packet blocks from var[AT] on into the batch from row `start` on; returns why it ended and the rows filled.

    `interfaces`: int64[n, 4], of which `known` are described so far. Records count packets alone.
    """
    at, have, last = i64(var[AT]), i64(var[HAVE]), i64(var[LAST])
    row = start
    why = SCANNED
    while row < batch.time.size:
        if at + 12 > have:
            why = NEED_DATA
            break
        kind = read32(block, at, big_endian)
        if kind == SECTION_HEADER:
            if at + 28 > have:
                why = NEED_DATA
                break
            why = NEW_SECTION
            break
        size = read32(block, at + 4, big_endian)
        if size < 12 or size & 3 != 0:
            why = BAD_LENGTH
            break
        if size > block.size:
            why = TOO_LONG if kind in (ENHANCED, SIMPLE, OLD_PACKET, INTERFACE) else LONG_BLOCK
            break
        if at + size > have:
            why = NEED_DATA
            break
        if read32(block, at + size - 4, big_endian) != size:
            why = BAD_LENGTH
            break
        if kind == INTERFACE:
            why = NEW_INTERFACE
            break
        if kind not in (ENHANCED, SIMPLE, OLD_PACKET):
            at += size
            continue
        if size < (16 if kind == SIMPLE else 32):
            why = BAD_PACKET
            break
        which = 0
        if kind == ENHANCED:
            which = read32(block, at + 8, big_endian)
        elif kind == OLD_PACKET:
            first = 8 if big_endian != 0 else 9
            which = (i64(block[at + first]) << 8) | i64(block[at + 17 - first])
        if which >= known:
            why = NO_INTERFACE
            break
        time = last
        if kind == SIMPLE:
            begin, length = at + 12, read32(block, at + 8, big_endian)
            captured = min(length, size - 16)
            if interfaces[which, SNAPLEN] > 0:
                captured = min(captured, i64(interfaces[which, SNAPLEN]))
        else:
            begin, length = at + 28, read32(block, at + 24, big_endian)
            captured = read32(block, at + 20, big_endian)
            if captured > size - 32:
                why = BAD_PACKET
                break
            high, low = read32(block, at + 12, big_endian), read32(block, at + 16, big_endian)
            time = to_ns(high, low, i64(interfaces[which, RESOLUTION]), i64(interfaces[which, OFFSET]))
        link = i64(interfaces[which, LINK])
        found = UNKNOWN_LINK
        if link != NOT_READ:
            arrives = min(interface + which, 0xFFFF)
            found = decode_packet(block, begin, captured, link, family, inner, arrives, batch.key, row)
        reason = found & REASON_MASK
        reasons[reason] += 1
        if reason in (DECODED, LATER_FRAGMENT):
            last = take_packet(batch, var, row, last, time, length, found >> FLAGS_SHIFT)
            row += 1
        var[RECORDS] += 1
        at += size
    var[AT] = at
    var[LAST] = last
    var[PACKETS] += row - start
    return why, row


class PcapngSource(CaptureFile):
    """The packets of a pcapng capture. Interface k of a section is input interface `interface` + k. See CaptureFile."""

    format: ClassVar[str] = "pcapng"

    def _begin(self) -> None:
        self._big_endian = 0
        self._interfaces = np.zeros((MOST_INTERFACES, 4), np.int64)
        self._known = 0
        self.sections = 0
        self.links: set[int] = set()

    def _scan(self, batch: PacketBatch, filled: int) -> tuple[int, int]:
        why, filled = scan_blocks(
            self._block,
            self._var,
            self._reasons,
            self._big_endian,
            self._interfaces,
            self._known,
            self.family,
            int(self.inner),
            self.interface,
            batch,
            filled,
        )
        return why, filled

    def _go_on(self, why: int) -> str:
        at = int(self._var[AT])
        if why == NEW_SECTION:
            return self._section(at)
        size = int(read32(self._block, at + 4, self._big_endian))
        if why == NEW_INTERFACE:
            return self._describe_interface(self._block[at : at + size].tobytes())
        if why == LONG_BLOCK:
            return self._skip(at, size)
        if why == NO_INTERFACE:
            return f"names an interface that its section does not describe (it describes {self._known})"
        if why == BAD_PACKET:
            return f"says it holds more than its block of {size} bytes"
        if why == TOO_LONG:
            return f"is a block of {size} bytes, more than the {self._block.size} that are read at once"
        return _ends_wrong(size)

    def _skip(self, at: int, size: int) -> str:
        """Read over a block of a kind that is skipped and that is longer than what is read at once."""
        have = int(self._var[HAVE])
        tail = self._block[have - 4 : have].tobytes()
        left = size - (have - at)
        while left > 0:
            piece = b"" if self._ended else self._read(min(left, self._block.size))
            if not piece:
                self._ended = True
                return f"is cut off, the file ends after {size - left} bytes of it"
            tail = (tail + piece)[-4:]
            left -= len(piece)
        if struct.unpack(">I" if self._big_endian else "<I", tail)[0] != size:
            return _ends_wrong(size)
        self._base += at + size
        self._var[AT] = self._var[HAVE] = 0
        return ""

    def _section(self, at: int) -> str:
        """Take a section header; its length may not be known yet, and its byte order is its own."""
        head = self._block[at : at + 28].tobytes()
        orders = [order for order in "<>" if struct.unpack_from(order + "I", head, 8)[0] == BYTE_ORDER]
        if not orders:
            return f"is a section header whose byte order cannot be told ({head[8:12].hex(' ')})"
        size, _, major = struct.unpack_from(orders[0] + "IIH", head, 4)
        if size < 28 or size % 4:
            return f"is a section header of {size} bytes"
        if major != 1:
            return f"is a section of pcapng format {major}, and 1 is read"
        if size > self._block.size:
            return f"is a section header of {size} bytes, more than the {self._block.size} that are read at once"
        while at + size > int(self._var[HAVE]) and not self._ended:
            self._read_on()
            at = int(self._var[AT])
        if at + size > int(self._var[HAVE]):
            return f"is cut off, the file ends after {int(self._var[HAVE]) - at} bytes of it"
        self._big_endian = int(orders[0] == ">")
        if int(read32(self._block, at + size - 4, self._big_endian)) != size:
            return f"is a section header that says it has {size} bytes and does not end so"
        self._var[AT] = at + size
        self._known = 0
        self.sections += 1
        return ""

    def _describe_interface(self, body: bytes) -> str:
        """Take an interface description."""
        order = ">" if self._big_endian else "<"
        if len(body) < 20:
            return f"is an interface description of {len(body)} bytes"
        if self._known == MOST_INTERFACES:
            return f"describes interface {MOST_INTERFACES + 1} of its section, more than are read"
        link, _, snaplen = struct.unpack_from(order + "HHI", body, 8)
        resolution, offset, at = 6, 0, 16
        while at + 4 <= len(body) - 4:
            code, size = struct.unpack_from(order + "HH", body, at)
            at += 4
            if code == OPTION_END:
                break
            if at + size > len(body) - 4:
                return f"is an interface description whose option {code} is longer than the block"
            if code == IF_TSRESOL and size >= 1:
                resolution = -(body[at] & 0x7F) if body[at] & 0x80 else body[at]
            elif code == IF_TSOFFSET and size >= 8:
                offset = max(-(1 << 40), min(1 << 40, struct.unpack_from(order + "q", body, at)[0]))
            at += -(-size // 4) * 4
        self.links.add(link)
        self._interfaces[self._known] = link if link in DECODABLE else NOT_READ, snaplen, resolution, offset
        self._known += 1
        self._var[AT] += len(body)
        return ""

    def describe(self) -> dict[str, Any]:
        """The file, its format, and what has been read so far."""
        return super().describe() | {"sections": self.sections, "link_types": sorted(self.links)}


def _ends_wrong(size: int) -> str:
    return f"is a block that says it has {size} bytes and does not end so; the file is damaged from there on"
