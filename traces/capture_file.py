"""What all formats of capture files share: the file, read in blocks so that memory does not depend on its size, and its counts.

Files packed with gzip, xz or bzip2 are known by their first bytes; offsets then count unpacked bytes. Damage ends the stream: the
packets before it are handed out, and `describe` says where it is; `strict` raises instead.
Left out: zstd, which is recognised, and the error says how to unpack it.
"""

import lzma
import os
import zlib
from io import BufferedReader
from typing import IO, Any, ClassVar

import numpy as np

from models.flow import WORDS_IPV4, WORDS_IPV6, PacketBatch
from models.kernel import I64, kernel
from traces.content import open_content, refuse_pipe
from traces.reasons import LATER_FRAGMENT, REASONS, REPLAYED
from traces.source import Source, check_words

BLOCK_BYTES = 4 << 20
UNPACK_BYTES = 1 << 16
"""Bytes unpacked at once: no more than these are lost before damage."""

# Fields of the scanners' var
AT, HAVE, LAST, RECORDS, WENT_BACK, PACKETS = 0, 1, 2, 3, 4, 5
VAR_SIZE = 6

READ_AGAIN = "a capture is read several times; save it to a file first"
"""Why a pipe is refused."""

SCANNED, NEED_DATA, TOO_LONG = 0, 1, 2
"""Why a scan ended: the batch is full; the next record is not whole in the block; a length beyond bounds. More by format."""


@kernel
def take_packet(batch: PacketBatch, var: I64, row: int, last: int, time: int, length: int, flags: int) -> int:
    """Give row `row`, whose key is written, its time, length and flags; returns its time, which is held if before `last`."""
    if time < last:
        time = last
        var[WENT_BACK] += 1
    batch.time[row] = time
    batch.length[row] = min(length, 0x7FFFFFFF)
    batch.flags[row] = flags
    return time


class CaptureError(ValueError):
    """A capture cannot be read. The message names the file, the place in it and the cure."""


class CaptureFile(Source):
    """The packets of one family in one capture, in the order of the file. Formats derive from it; see `open_captures`.

    `family` is 4 or 6, with flow keys of 4 or 10 words. `inner` takes the packet inside a tunnel. Time is absolute (ns since 1970);
    where it goes back it is held, and `describe` counts how often. What has no flow key is counted by `skipped`.
    """

    format: ClassVar[str] = ""

    def __init__(
        self,
        path: str | os.PathLike[str],
        interface: int = 1,
        *,
        family: int = 4,
        inner: bool = False,
        strict: bool = False,
    ) -> None:
        """Packets arrive on `interface`. CaptureError for what is no such capture; with `strict`, from `fill`, for damage."""
        if family not in (4, 6):
            raise ValueError(f"packets are of family 4 or 6, got {family}")
        if not 0 <= interface <= 0xFFFF:
            raise ValueError(f"interface must be from 0 to 65535, got {interface}")
        self.path = os.fspath(path)
        self.interface = interface
        self.family = family
        self.inner = inner
        self.strict = strict
        self.words = WORDS_IPV4 if family == 4 else WORDS_IPV6
        self.damage = ""  # what is wrong with the file and where; empty as long as nothing is
        self._block = np.zeros(BLOCK_BYTES, np.uint8)
        self._base = 0  # offset in the file of the first byte of the block
        self._ended = False
        self._unpacked_to_damage = False
        self._var: I64 = np.zeros(VAR_SIZE, np.int64)
        self._reasons: I64 = np.zeros(len(REASONS), np.int64)
        self._file = open_packed(self.path)
        try:
            self._begin()
        except CaptureError:
            self._file.close()
            raise

    # -- what a format gives -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Read whatever stands before the first record, with `_take`. CaptureError."""

    def _scan(self, batch: PacketBatch, filled: int) -> tuple[int, int]:
        """Decode records of the block into the batch from row `filled` on: why it ended, and the rows filled."""
        raise TypeError(f"{type(self).__name__} has no _scan()")

    def _go_on(self, why: int) -> str:
        """Deal with a reason of the format's own. Returns what is damaged ("" if scanning can go on), without the place."""
        return ""

    def _cure(self) -> str:
        """What a user can do about damage."""
        return "copy the file again"

    # -- what it does with it ------------------------------------------------------------------------------------------

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch with the next packets; fewer only at the end of the file or before damage."""
        check_words(self, batch)
        filled = 0
        while not self.damage:
            why, filled = (int(value) for value in self._scan(batch, filled))
            if why == SCANNED:
                break
            if why == NEED_DATA:
                if not self._ended:
                    self._read_on()
                    continue
                left = int(self._var[HAVE] - self._var[AT])
                if self._unpacked_to_damage:
                    self._end(f"cannot be unpacked whole: the packing is damaged or cut off; {self._cure()}")
                elif left:
                    self._end(f"is cut off, the file ends after {left} bytes of it; {self._cure()}")
                break
            wrong = self._go_on(why)
            if wrong:
                self._end(f"{wrong}; {self._cure()}")
        batch.packets[0] = filled
        if filled == 0 and self.damage and self.strict:
            raise CaptureError(self.damage)
        return filled

    def skipped(self) -> dict[str, int]:
        """Records without a flow key of the family, by reason."""
        return {REASONS[i]: int(count) for i, count in enumerate(self._reasons) if i not in REPLAYED and count}

    def describe(self) -> dict[str, Any]:
        """The file, its format, and what has been read so far."""
        return {
            "source": "capture",
            "file": self.path,
            "format": self.format,
            "interface": self.interface,
            "family": self.family,
            "inner": self.inner,
            "records": int(self._var[RECORDS]),
            "packets": int(self._var[PACKETS]),
            "later_fragments": int(self._reasons[LATER_FRAGMENT]),
            "time_went_back": int(self._var[WENT_BACK]),
            "damage": [self.damage] if self.damage else [],
        }

    def close(self) -> None:
        """Close the file. It is closed by itself at its end."""
        self._file.close()

    def _end(self, wrong: str) -> None:
        """Stop for good at the record that begins at var[AT]."""
        self.damage = f"{self.path}: record {int(self._var[RECORDS]) + 1}, at byte {self._base + int(self._var[AT])}, {wrong}"
        self._file.close()

    def _take(self, size: int) -> bytes:
        """The next bytes of the file's beginning, fewer only at its end."""
        data = self._read(size)
        if self._unpacked_to_damage:
            raise CaptureError(f"{self.path} cannot be unpacked: its packing is damaged or cut off; copy the file again")
        self._base += len(data)
        return data

    def _read_on(self) -> None:
        """Move what is left of the block to its front and fill it up from the file."""
        at, have = int(self._var[AT]), int(self._var[HAVE])
        left = have - at
        self._block[:left] = self._block[at:have].copy()
        self._base += at
        self._var[AT], self._var[HAVE] = 0, left
        data = self._read(self._block.size - left)
        self._block[left : left + len(data)] = np.frombuffer(data, np.uint8)
        self._var[HAVE] = left + len(data)
        if len(data) < self._block.size - left:
            self._ended = True
            self._file.close()

    def _read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end of the file; a pipe gives them in pieces. Packing that is damaged ends it too."""
        pieces: list[bytes] = []
        packed = not isinstance(self._file, BufferedReader)
        while size > 0:
            try:
                piece = self._file.read(min(size, UNPACK_BYTES) if packed else size)
            except (EOFError, OSError, ValueError, lzma.LZMAError, zlib.error) as error:
                if not packed:
                    raise CaptureError(f"{self.path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
                self._unpacked_to_damage = True
                break
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def open_packed(path: str) -> IO[bytes]:
    """The file's content, unpacked; every refusal of the operating system becomes a sentence (CaptureError)."""
    try:
        refuse_pipe(path, READ_AGAIN)
        file = open_content(path, "capture", f"the captures in it, for example {os.path.join(path, '*.pcap')}")
    except ValueError as error:
        raise CaptureError(str(error)) from None
    if isinstance(file, BufferedReader) and file.peek(4).startswith(b"\x28\xb5\x2f\xfd"):
        file.close()
        raise CaptureError(f"{path} is compressed with zstd, which is not read; run 'zstd -d {path}' first")
    return file
