"""Flow records, what NetFlow collectors and Zeek keep of traffic: read into arrays, ordered by start.

nfdump's CSV, Zeek's conn.log and any table with named columns are told apart by their first lines. Records that can be no flow
here (another family, no packets) are counted by reason; a line that cannot be read is refused with its number. Left out: sampling
(counts are taken as they stand), and that a collector cuts long flows into several records.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from models.flow import WORDS_IPV4, WORDS_IPV6
from models.kernel import I64, U32
from traces.addresses import BITS
from traces.content import CHUNK, LONGEST_LINE, open_content, read_some
from traces.flow_csv import BadLine, Lines, csv_columns, named_columns, nfdump_columns, split
from traces.flow_fields import BadRow, Columns, Converter, Units
from traces.flow_times import UNIT_DIGITS
from traces.flow_zeek import UNSET, Header, json_columns, tsv_columns

NOTHING: Mapping[str, int] = MappingProxyType({})
EXAMPLE = "start=ts,duration=td,source=sa,destination=da,sport=sp,dport=dp,protocol=pr,packets=pkts,bytes=byts"


class FlowRecordError(ValueError):
    """A file of flow records cannot be read. The message names the file, the line and the cure."""


class FlowRecords(NamedTuple):
    """Flows in order of start."""

    start: I64  # int64[n], ns since 1970
    duration: I64  # int64[n], ns from the first packet to the last
    key: U32  # uint32[n, W], flow keys
    packets: I64  # int64[n], at least 1
    bytes: I64  # int64[n], of all packets, from the IP header on
    form: str = "made"  # what kind of file it was read from
    records: int = 0  # records read; a record may be two flows
    left_out: Mapping[str, int] = NOTHING  # records that are no flow here, by reason
    changed: Mapping[str, int] = NOTHING  # records taken with a change, by reason


def read_flow_records(
    path: str | os.PathLike[str],
    *,
    family: int = 4,
    interface: int = 1,
    columns: Mapping[str, str] | None = None,
    time_unit: str = "s",
    duration_unit: str | None = None,
    delimiter: str = ",",
) -> FlowRecords:
    """The flows of a file, packed or not, as arrivals on `interface`; "-" is the standard input.

    `columns` names the column of each field (traces.flow_fields.FIELDS) for a table that is not nfdump's or Zeek's; it, the units
    ("s", "ms", "us", "ns") and the delimiter hold for such tables only. Start and end may be date and time too. FlowRecordError.
    """
    if family not in BITS:
        raise ValueError(f"flow records are of family 4 or 6, got {family}")
    if not 0 <= interface <= 0xFFFF:
        raise ValueError(f"interface must be from 0 to 65535, got {interface}")
    for unit in (time_unit, duration_unit or time_unit):
        if unit not in UNIT_DIGITS:
            raise ValueError(f"a unit of time is one of {', '.join(UNIT_DIGITS)}, got {unit!r}")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"a delimiter is one character, got {delimiter!r}")
    where = os.fspath(path)
    blocks = _blocks(where)
    units = Units(family, interface)
    first = next(blocks, None)
    if first is None:
        raise FlowRecordError(f"{where} is empty; give nfdump's '-o csv' output, Zeek's conn.log, or a table with named columns")
    numbers, lines = first
    head = lines[0]
    found: Iterator[tuple[Sequence[int], Columns]]
    try:
        if columns is not None:
            form = "table"
            units = Units(family, interface, UNIT_DIGITS[time_unit], UNIT_DIGITS[duration_unit or time_unit], "")
            header = split(head.lstrip("#"), delimiter)
            at = named_columns(header, columns)
            found = csv_columns(_after(numbers, lines, blocks), at, len(header), delimiter)
        elif head.startswith(("#separator", "#fields")):
            form = "zeek tsv"
            log = Header()
            found = _with_unset(tsv_columns(_whole(numbers, lines, blocks), log), log)
            units = Units(family, interface, unset=UNSET)
        elif head.startswith("{"):
            form = "zeek json"
            found = json_columns(_whole(numbers, lines, blocks))
        else:
            form = "nfdump"
            header = head.split(",")
            known = nfdump_columns(header)
            if known is None:
                raise ValueError(
                    f"begins with {head[:60]!r}, which is neither nfdump's CSV nor Zeek's conn.log; "
                    f"for another table name its columns, for example {EXAMPLE}"
                )
            found = csv_columns(_after(numbers, lines, blocks), known, len(header), ",")
        return _collect(found, Converter(units), form)
    except FlowRecordError:
        raise
    except BadLine as error:
        raise FlowRecordError(f"{where}, line {error.line}: {error}") from None
    except ValueError as error:
        raise FlowRecordError(f"{where} {error}") from None


def join_flows(parts: Sequence[FlowRecords], words: int) -> FlowRecords:
    """Several sets of flows as one, by start; equal starts stay in the order given."""
    empty = np.zeros(0, np.int64)
    start, duration, packets, length = (
        np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in ("start", "duration", "packets", "bytes")
    )
    key = np.concatenate([np.zeros((0, words), np.uint32), *(part.key for part in parts)])
    left_out: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for part in parts:
        left_out.update(part.left_out)
        changed.update(part.changed)
    order = np.argsort(start, kind="stable")
    return FlowRecords(
        start[order],
        duration[order],
        key[order],
        packets[order],
        length[order],
        parts[0].form if parts else "made",
        sum(part.records for part in parts),
        dict(sorted(left_out.items())),
        dict(sorted(changed.items())),
    )


def _collect(found: Iterator[tuple[Sequence[int], Columns]], converter: Converter, form: str) -> FlowRecords:
    """All blocks as one."""
    parts: list[FlowRecords] = []
    for numbers, columns in found:
        try:
            part = converter.convert(columns)
        except BadRow as error:
            raise BadLine(numbers[error.row], str(error)) from None
        parts.append(FlowRecords(*part[:5], form, len(numbers), part.left_out, part.changed))
    return join_flows(parts, WORDS_IPV4 if converter.units.family == 4 else WORDS_IPV6)._replace(form=form)


def _blocks(where: str) -> Iterator[Lines]:
    """Lines that are not empty, with their numbers, a megabyte at a time. FlowRecordError for what is no text."""
    number, rest = 1, b""
    try:
        with open_content("/dev/stdin" if where == "-" else where, "file of flow records") as stream:
            while True:
                chunk = read_some(stream, where, CHUNK)
                data = rest + chunk
                cut = data.rfind(b"\n") + 1 if chunk else len(data)
                data, rest = data[:cut], data[cut:]
                if len(rest) > LONGEST_LINE:
                    raise FlowRecordError(f"{where}, line {number + data.count(10)}, is longer than {LONGEST_LINE} bytes")
                try:
                    lines = data.decode().replace("\r\n", "\n").split("\n")
                except UnicodeDecodeError as error:
                    raise FlowRecordError(
                        f"{where}, line {number + data.count(10, 0, error.start)}, is not text; flow records are lines of text"
                    ) from None
                if not lines[-1]:
                    lines.pop()
                numbers: Sequence[int] = range(number, number + len(lines))
                number += data.count(10)
                if "" in lines:
                    numbers = [place for place, line in zip(numbers, lines, strict=True) if line]
                    lines = [line for line in lines if line]
                if lines:
                    yield numbers, lines
                if not chunk:
                    return
    except FlowRecordError:
        raise
    except ValueError as error:
        raise FlowRecordError(str(error)) from None


def _whole(numbers: Sequence[int], lines: Sequence[str], blocks: Iterator[Lines]) -> Iterator[Lines]:
    yield numbers, lines
    yield from blocks


def _after(numbers: Sequence[int], lines: Sequence[str], blocks: Iterator[Lines]) -> Iterator[Lines]:
    """Without the header line."""
    yield numbers[1:], lines[1:]
    yield from blocks


def _with_unset(found: Iterator[tuple[Sequence[int], Columns]], log: Header) -> Iterator[tuple[Sequence[int], Columns]]:
    """Columns of a log in which another text than "-" may stand for what is not set."""
    for numbers, columns in found:
        if log.unset != UNSET:
            changed: dict[str, Any] = {
                field: [UNSET if text == log.unset else text for text in texts] for field, texts in columns.items()
            }
            yield numbers, changed
        else:
            yield numbers, columns
