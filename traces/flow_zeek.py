"""Zeek's conn.log, as its ASCII writer makes it: separated by tabs (or what #separator says), or as JSON lines.

A connection has two directions, and each in which packets went becomes a flow; the log does not say when the answer began, so both
have the connection's time and duration. Bytes are those from the IP header on (orig_ip_bytes), or of the payload where the log has
no others. Values that are not set are 0.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from traces.flow_csv import BadLine, Lines, plain_columns
from traces.flow_fields import Columns

ZEEK = {
    "start": ("ts",),
    "duration": ("duration",),
    "source": ("id.orig_h",),
    "destination": ("id.resp_h",),
    "sport": ("id.orig_p",),
    "dport": ("id.resp_p",),
    "protocol": ("proto",),
    "packets": ("orig_pkts",),
    "bytes": ("orig_ip_bytes", "orig_bytes"),
    "reverse_packets": ("resp_pkts",),
    "reverse_bytes": ("resp_ip_bytes", "resp_bytes"),
}
"""Zeek's names of our fields, the better one first."""

OPTIONAL = ("duration", "bytes", "reverse_bytes")
UNSET = "-"


class Header:
    """What the lines with # at the head of a log say."""

    def __init__(self) -> None:
        self.separator = "\t"
        self.unset = UNSET
        self.where: dict[str, int] = {}  # our field -> column
        self.width = 0

    def take(self, line: str) -> None:
        """Take note of one such line. ValueError for a log that is no conn.log or lacks what a flow needs."""
        if line.startswith("#separator"):
            text = line[len("#separator") :].strip(" ") or "\t"
            try:
                self.separator = text.encode("latin-1").decode("unicode_escape") if "\\x" in text else text
            except ValueError:
                raise ValueError(f"the separator {text!r} is not one; Zeek writes '#separator \\x09'") from None
            return
        name, _, rest = line.partition(self.separator)
        if name == "#unset_field":
            self.unset = rest
        elif name == "#path" and rest != "conn":
            raise ValueError(f"this is Zeek's log {rest!r}, flow records are in conn.log")
        elif name == "#fields":
            names = {column: i for i, column in enumerate(rest.split(self.separator))}
            self.width = rest.count(self.separator) + 1
            self.where = {}
            for field, known in ZEEK.items():
                at = next((names[column] for column in known if column in names), None)
                if at is not None:
                    self.where[field] = at
                elif field not in OPTIONAL:
                    raise ValueError(f"this log has no field {known[0]!r}, which a flow record needs")


def tsv_columns(blocks: Iterator[Lines], header: Header) -> Iterator[tuple[Sequence[int], Columns]]:
    """Blocks of lines as columns with their line numbers; header lines may come again, as in logs put together. BadLine."""
    for numbers, lines in blocks:
        at = 0
        while at < len(lines):
            if lines[at].startswith("#"):
                try:
                    header.take(lines[at])
                except ValueError as error:
                    raise BadLine(numbers[at], str(error)) from None
                at += 1
                continue
            stop = next((i for i in range(at, len(lines)) if lines[i].startswith("#")), len(lines))
            if not header.where:
                raise BadLine(numbers[at], "comes before the '#fields' line that names its values")
            some = numbers[at:stop]
            yield some, plain_columns(some, lines[at:stop], header.where, header.width, header.separator)
            at = stop


class _Connection(msgspec.Struct, gc=False):
    """The values of a line of JSON that matter here; numbers of seconds are kept as text, for floats would round them."""

    ts: msgspec.Raw
    source: str = msgspec.field(name="id.orig_h")
    destination: str = msgspec.field(name="id.resp_h")
    proto: str
    sport: int = msgspec.field(name="id.orig_p", default=0)
    dport: int = msgspec.field(name="id.resp_p", default=0)
    duration: msgspec.Raw = msgspec.Raw(b"-")
    orig_pkts: int = 0
    resp_pkts: int = 0
    orig_ip_bytes: int | None = None
    resp_ip_bytes: int | None = None
    orig_bytes: int = 0
    resp_bytes: int = 0


def json_columns(blocks: Iterator[Lines]) -> Iterator[tuple[Sequence[int], Columns]]:
    """Blocks of JSON lines as columns with their line numbers. BadLine for what is no connection."""
    decoder = msgspec.json.Decoder(_Connection)
    for numbers, lines in blocks:
        try:
            found = decoder.decode_lines("\n".join(lines)) if lines else []
        except (msgspec.MsgspecError, RecursionError):
            found = [_decode(decoder, number, line) for number, line in zip(numbers, lines, strict=True)]
        if len(found) != len(lines):
            found = [_decode(decoder, number, line) for number, line in zip(numbers, lines, strict=True)]
        columns: dict[str, Any] = {
            "start": [_text(one.ts) for one in found],
            "duration": [_text(one.duration) for one in found],
            "source": [one.source for one in found],
            "destination": [one.destination for one in found],
            "sport": [one.sport for one in found],
            "dport": [one.dport for one in found],
            "protocol": [one.proto for one in found],
            "packets": [one.orig_pkts for one in found],
            "bytes": [one.orig_bytes if one.orig_ip_bytes is None else one.orig_ip_bytes for one in found],
            "reverse_packets": [one.resp_pkts for one in found],
            "reverse_bytes": [one.resp_bytes if one.resp_ip_bytes is None else one.resp_ip_bytes for one in found],
        }
        yield numbers, columns


def _decode(decoder: "msgspec.json.Decoder[_Connection]", number: int, line: str) -> _Connection:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        text = " ".join(str(error).split())
        raise BadLine(number, f"is not a line of conn.log in JSON: {text[:200]}") from None


def _text(raw: msgspec.Raw) -> str:
    """The text of a JSON number or string."""
    return bytes(raw).decode().strip().strip('"')
