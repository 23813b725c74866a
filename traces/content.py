"""A file's content whatever it is packed with: lines of text with their numbers, or bytes.

Lines are handed out as they are read, so that a packed file never stands in memory as a whole.
"""

import bz2
import gzip
import lzma
import os
import stat
import zlib
from collections.abc import Iterator
from typing import IO, cast

CHUNK = 1 << 20
LONGEST_LINE = 1 << 16


def open_content(path: str | os.PathLike[str], what: str = "routing table", within: str = "") -> IO[bytes]:
    """Open a file; gzip, xz and bzip2 are known by their first bytes. ValueError says why it cannot be opened.

    `what` the file should be; `within`: what to give instead of a directory, if not that itself.
    """
    where = os.fspath(path)
    try:
        raw = open(where, "rb")  # noqa: SIM115 - the caller closes it
        magic = raw.peek(6)[:6]
    except FileNotFoundError:
        raise ValueError(f"there is no file {where}; check the name of the {what}") from None
    except IsADirectoryError:
        raise ValueError(f"{where} is a directory; give {within or f'the {what} itself'}") from None
    except PermissionError:
        raise ValueError(f"{where} may not be read; change its permissions (chmod +r) or copy it") from None
    except OSError as error:
        raise ValueError(f"{where} cannot be read: {error.strerror or error}") from None
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(raw))
    if magic.startswith(b"\xfd7zXZ"):
        return lzma.open(raw)
    if magic.startswith(b"BZh"):
        return bz2.open(raw)
    return raw


def refuse_pipe(path: str | os.PathLike[str], why: str = "routes are read several times; save them to a file first") -> None:
    """ValueError for a pipe, where a file must be read several times. Before it is opened: without a writer that would wait."""
    where = os.fspath(path)
    try:
        pipe = stat.S_ISFIFO(os.stat(where).st_mode)
    except OSError:
        return  # opening it says what is wrong
    if pipe:
        raise ValueError(f"{where} is a pipe, and {why}")


def read_some(stream: IO[bytes], where: str, size: int) -> bytes:
    """Up to `size` bytes, fewer only at the end. ValueError for damage of the packing and for errors of the device."""
    try:
        return stream.read(size)
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        text = " ".join(str(error).split())
        raise ValueError(f"{where} is damaged: it cannot be unpacked after byte {stream.tell():,} ({text})") from None
    except OSError as error:
        raise ValueError(f"{where} cannot be read: {error.strerror or error}") from None


def text_lines(stream: IO[bytes], where: str, start: bytes = b"") -> Iterator[tuple[int, str]]:
    """Lines with their numbers, from 1, without their ends; `start` is what was read from the stream before. ValueError."""
    number, rest = 0, start
    while True:
        chunk = read_some(stream, where, CHUNK)
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop() if chunk else b""
        for line in lines:
            number += 1
            if len(line) > LONGEST_LINE or b"\0" in line:
                raise not_text(where)
            try:
                yield number, line.decode().rstrip("\r")
            except UnicodeDecodeError:
                raise not_text(where) from None
        if len(rest) > LONGEST_LINE:
            raise not_text(where)
        if not chunk:
            return


def not_text(where: str) -> ValueError:
    """The sentence for a file that is no routing table of any known kind."""
    return ValueError(f"{where} is not text; a routing table has one 'PREFIX [NEXTHOP]' per line, or is an MRT dump")
