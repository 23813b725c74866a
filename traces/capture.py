"""Captures as sources of packets: classic pcap here, pcapng in traces/pcapng.py; the file's first bytes decide."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar

from models.flow import PacketBatch
from traces.capture_file import AT, RECORDS, CaptureError, CaptureFile, open_packed
from traces.link import DECODABLE, NAMES
from traces.merge import MergedSource
from traces.pcap import HEADER_BYTES, MAX_CAPTURED, RECORD_BYTES, FileHeader, read32, read_header, scan
from traces.pcapng import BEGINS, PcapngSource
from traces.source import Source

MAGIC_BYTES = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1")


class CaptureSource(CaptureFile):
    """The packets of a classic capture (pcap). See CaptureFile."""

    format: ClassVar[str] = "pcap"

    def _begin(self) -> None:
        self.header = _check_header(self.path, self._take(HEADER_BYTES))
        self._most = max(MAX_CAPTURED, min(self.header.snaplen, self._block.size - RECORD_BYTES))

    def _scan(self, batch: PacketBatch, filled: int) -> tuple[int, int]:
        header = self.header
        why, filled = scan(
            self._block,
            self._var,
            self._reasons,
            int(header.big_endian),
            header.unit_ns,
            self._most,
            header.link_type,
            self.family,
            int(self.inner),
            self.interface,
            batch,
            filled,
        )
        return why, filled

    def _go_on(self, why: int) -> str:
        captured = int(read32(self._block, int(self._var[AT]) + 8, int(self.header.big_endian)))
        return (
            f"says it holds {captured} bytes, more than the {self._most} that a packet of this file can have; "
            "the file is damaged from there on"
        )

    def _cure(self) -> str:
        whole = int(self._var[RECORDS])
        keep = f", or keep what is before it with 'editcap -r {self.path} NEW.pcap 1-{whole}'" if whole else ""
        return f"copy the file again{keep}"

    def describe(self) -> dict[str, Any]:
        """The file, its format, and what has been read so far."""
        header = self.header
        return super().describe() | {
            "byte_order": "big" if header.big_endian else "little",
            "resolution": "ns" if header.unit_ns == 1 else "us",
            "link_type": header.link_type,
        }


def open_capture(
    path: str | os.PathLike[str], interface: int = 1, *, family: int = 4, inner: bool = False, strict: bool = False
) -> CaptureFile:
    """One capture of either format. Raises CaptureError."""
    where = os.fspath(path)
    with open_packed(where) as file:
        try:
            begins = file.read(4)
        except (EOFError, OSError, ValueError):
            begins = b""
    kind = PcapngSource if begins == BEGINS else CaptureSource
    return kind(where, interface, family=family, inner=inner, strict=strict)


def open_captures(paths: Sequence[str | os.PathLike[str]], *, family: int = 4, inner: bool = False, strict: bool = False) -> Source:
    """One capture, or several merged by time; capture i arrives on interface i + 1. Raises CaptureError."""
    sources = [open_capture(path, interface, family=family, inner=inner, strict=strict) for interface, path in enumerate(paths, 1)]
    return sources[0] if len(sources) == 1 else MergedSource(sources)


def _check_header(path: str, data: bytes) -> FileHeader:
    """The header of a classic capture; CaptureError for everything else, with what it is if that is known."""
    if not data:
        raise CaptureError(f"{path} is empty; capture again, for example with 'tcpdump -i eth0 -w {path}'")
    if not data.startswith(MAGIC_BYTES):
        raise CaptureError(
            f"{path} is not a capture: it begins with bytes {data[:4].hex(' ')}; "
            "give a pcap or pcapng file, as 'tcpdump -w' or Wireshark writes it"
        )
    if len(data) < HEADER_BYTES:
        raise CaptureError(f"{path} is cut off at byte {len(data)}, within the file header of {HEADER_BYTES}; copy the file again")
    header = read_header(data)
    assert header is not None
    if (header.major, header.minor) != (2, 4):
        raise CaptureError(
            f"{path} has pcap format {header.major}.{header.minor}, this version reads 2.4; "
            f"run 'editcap -F pcap {path} NEW.pcap' first"
        )
    if header.link_type not in DECODABLE:
        name = NAMES.get(header.link_type, "a name not known here")
        raise CaptureError(
            f"{path} has link type {header.link_type} ({name}), which holds no IP packets or is not read; "
            "capture on an Ethernet, PPP or 'any' interface, for example with 'tcpdump -i eth0'"
        )
    return header


__all__ = ["CaptureError", "CaptureSource", "open_capture", "open_captures"]
