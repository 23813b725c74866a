"""A capture file as a source of packets: classic pcap, read in blocks, so that memory does not depend on its size.

Left out: pcapng, compressed files and standard input; each is recognised and the error says how to convert.
"""

import os
from collections.abc import Sequence
from io import FileIO
from typing import Any

import numpy as np

from models.flow import WORDS_IPV4, WORDS_IPV6, PacketBatch
from traces.link import DECODABLE, NAMES
from traces.merge import MergedSource
from traces.pcap import (
    AT,
    HAVE,
    HEADER_BYTES,
    MAX_CAPTURED,
    NEED_DATA,
    PACKETS,
    RECORD_BYTES,
    RECORDS,
    TOO_LONG,
    VAR_SIZE,
    WENT_BACK,
    FileHeader,
    read32,
    read_header,
    scan,
)
from traces.reasons import LATER_FRAGMENT, REASONS, REPLAYED
from traces.source import Source, check_words

BLOCK_BYTES = 4 << 20

CONVERT = {
    b"\x0a\x0d\x0d\x0a": ("a pcapng file", "editcap -F pcap {path} NEW.pcap"),
    b"\x1f\x8b": ("compressed with gzip", "gunzip -k {path}"),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "zstd -d {path}"),
    b"\xfd7zXZ": ("compressed with xz", "xz -dk {path}"),
    b"BZh": ("compressed with bzip2", "bunzip2 -k {path}"),
}
"""First bytes of files that a user may well give, what they are, and the command that makes a classic capture of them."""

MAGIC_BYTES = (b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1")


class CaptureError(ValueError):
    """A capture cannot be read. The message names the file, the place in it and the cure."""


class CaptureSource(Source):
    """The packets of one family in one capture, in the order of the file, as arrivals on `interface`.

    `family` is 4 or 6, with flow keys of 4 or 10 words. `inner` takes the packet inside a tunnel. Time is absolute (ns since 1970);
    where it goes back it is held, and `describe` counts how often. What has no flow key is counted by `skipped`. Raises
    CaptureError on opening a file that is no such capture, and from `fill` where a damaged record is reached, after the packets
    before it have been handed out.
    """

    def __init__(self, path: str | os.PathLike[str], interface: int = 1, *, family: int = 4, inner: bool = False) -> None:
        if family not in (4, 6):
            raise ValueError(f"packets are of family 4 or 6, got {family}")
        if not 0 <= interface <= 0xFFFF:
            raise ValueError(f"interface must be from 0 to 65535, got {interface}")
        self.path = os.fspath(path)
        self.interface = interface
        self.family = family
        self.inner = inner
        self.words = WORDS_IPV4 if family == 4 else WORDS_IPV6
        self._file = _open(self.path)
        try:
            self.header = _check_header(self.path, _read(self._file, self.path, HEADER_BYTES))
        except CaptureError:
            self._file.close()
            raise
        self._most = max(MAX_CAPTURED, min(self.header.snaplen, BLOCK_BYTES - RECORD_BYTES))
        self._block = np.zeros(BLOCK_BYTES, np.uint8)
        self._base = HEADER_BYTES  # offset in the file of the first byte of the block
        self._ended = False
        self._var = np.zeros(VAR_SIZE, np.int64)
        self._reasons = np.zeros(len(REASONS), np.int64)

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch with the next packets; fewer only at the end of the file or before a damaged record."""
        check_words(self, batch)
        header = self.header
        filled = 0
        while True:
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
            if why == NEED_DATA and not self._ended:
                self._read_on()
                continue
            break
        filled = int(filled)
        batch.packets[0] = filled
        if filled == 0:
            self._check_end(int(why))
        return filled

    def skipped(self) -> dict[str, int]:
        """Records without a flow key of the family, by reason."""
        return {REASONS[i]: int(count) for i, count in enumerate(self._reasons) if i not in REPLAYED and count}

    def describe(self) -> dict[str, Any]:
        """The file, its format, and what has been read so far."""
        header = self.header
        return {
            "source": "capture",
            "file": self.path,
            "interface": self.interface,
            "byte_order": "big" if header.big_endian else "little",
            "resolution": "ns" if header.unit_ns == 1 else "us",
            "link_type": header.link_type,
            "family": self.family,
            "inner": self.inner,
            "later_fragments": int(self._reasons[LATER_FRAGMENT]),
            "records": int(self._var[RECORDS]),
            "packets": int(self._var[PACKETS]),
            "time_went_back": int(self._var[WENT_BACK]),
        }

    def close(self) -> None:
        """Close the file. It is closed by itself at its end."""
        self._file.close()

    def _read_on(self) -> None:
        """Move what is left of the block to its front and fill it up from the file."""
        at, have = int(self._var[AT]), int(self._var[HAVE])
        left = have - at
        self._block[:left] = self._block[at:have].copy()
        self._base += at
        data = _read(self._file, self.path, BLOCK_BYTES - left)
        self._block[left : left + len(data)] = np.frombuffer(data, np.uint8)
        self._var[AT] = 0
        self._var[HAVE] = left + len(data)
        if len(data) < BLOCK_BYTES - left:
            self._ended = True
            self._file.close()

    def _check_end(self, why: int) -> None:
        """No packet could be given: accept a proper end of the file, raise for anything else."""
        at, have = int(self._var[AT]), int(self._var[HAVE])
        whole = int(self._var[RECORDS])
        place = f"{self.path}: record {whole + 1}, at byte {self._base + at},"
        cure = "copy the file again"
        if whole:
            cure += f", or keep what is before it with 'editcap -r {self.path} NEW.pcap 1-{whole}'"
        if why == TOO_LONG:
            captured = int(read32(self._block, at + 8, int(self.header.big_endian)))
            self._file.close()
            raise CaptureError(
                f"{place} says it holds {captured} bytes, more than the {self._most} that a packet of this file can have; "
                f"the file is damaged from there on: {cure}"
            )
        if at < have:
            raise CaptureError(f"{place} is cut off, the file ends after {have - at} bytes of it; {cure}")


def open_captures(paths: Sequence[str | os.PathLike[str]], *, family: int = 4, inner: bool = False) -> Source:
    """One capture, or several merged by time; capture i arrives on interface i + 1. Raises CaptureError."""
    sources = [CaptureSource(path, interface, family=family, inner=inner) for interface, path in enumerate(paths, 1)]
    return sources[0] if len(sources) == 1 else MergedSource(sources)


def _open(path: str) -> FileIO:
    """The file, unbuffered; every refusal of the operating system becomes a sentence."""
    try:
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        raise CaptureError(f"there is no file {path}; check the name of the capture") from None
    except IsADirectoryError:
        raise CaptureError(f"{path} is a directory; give the captures in it, for example {os.path.join(path, '*.pcap')}") from None
    except PermissionError:
        raise CaptureError(f"{path} may not be read; change its permissions (chmod +r) or copy it") from None
    except OSError as error:
        raise CaptureError(f"{path} cannot be read: {error.strerror}") from None


def _read(file: FileIO, path: str, size: int) -> bytes:
    """`size` bytes, fewer only at the end of the file; a pipe gives them in pieces."""
    pieces: list[bytes] = []
    while size > 0:
        try:
            piece = file.read(size)
        except OSError as error:
            raise CaptureError(f"{path} cannot be read: {error.strerror}") from None
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _check_header(path: str, data: bytes) -> FileHeader:
    """The header of a classic Ethernet capture; CaptureError for everything else, with what it is if that is known."""
    if not data:
        raise CaptureError(f"{path} is empty; capture again, for example with 'tcpdump -i eth0 -w {path}'")
    for first, (what, command) in CONVERT.items():
        if data.startswith(first):
            raise CaptureError(f"{path} is {what}; this version reads classic pcap only: run '{command.format(path=path)}' first")
    if not data.startswith(MAGIC_BYTES):
        raise CaptureError(
            f"{path} is not a capture: it begins with bytes {data[:4].hex(' ')}; "
            "give a classic pcap file, as 'tcpdump -w' writes it"
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
