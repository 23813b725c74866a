"""Flow records as delimited text: what nfdump prints with `-o csv`, and any other table whose columns the user names.

nfdump's column sets of versions to 1.7.4 (`ts,te,td,sa,da,...`) and since (`firstSeen,duration,proto,srcAddr,...`, in any order)
are known by the header line. Its times carry no zone and are taken as UTC. The summary that older versions add ends the table.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter

from traces.flow_fields import FIELDS, NEEDED, Columns

NFDUMP = {
    "start": ("ts", "firstSeen"),
    "duration": ("td", "duration"),
    "end": ("te", "lastSeen"),
    "source": ("sa", "srcAddr"),
    "destination": ("da", "dstAddr"),
    "sport": ("sp", "srcPort"),
    "dport": ("dp", "dstPort"),
    "protocol": ("pr", "proto"),
    "tos": ("stos", "tos", "srcTos"),
    "packets": ("ipkt", "packets", "inPackets"),
    "bytes": ("ibyt", "bytes", "inBytes"),
    "reverse_packets": ("opkt", "outPackets"),
    "reverse_bytes": ("obyt", "outBytes"),
}
"""Columns of nfdump by our names; the first name is that of version 1.6."""

SUMMARY = "Summary"

Lines = tuple[Sequence[int], Sequence[str]]
"""Line numbers from 1, and the lines."""


class BadLine(ValueError):
    """Line `line` of a file (from 1) cannot be used; the message says why."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def nfdump_columns(header: Sequence[str]) -> dict[str, int] | None:
    """Where nfdump's columns are, by our names; None if the header line is not nfdump's."""
    names = {name.strip(): i for i, name in reversed(list(enumerate(header)))}
    found = {field: names[name] for field, known in NFDUMP.items() for name in known if name in names}
    return found if all(field in found for field in NEEDED) else None


def named_columns(header: Sequence[str], columns: Mapping[str, str]) -> dict[str, int]:
    """Where the columns are that a user named. ValueError for names that are not there and fields that are missing or not ours."""
    names = {name.strip(): i for i, name in reversed(list(enumerate(header)))}
    for field, name in columns.items():
        if field not in FIELDS:
            raise ValueError(f"there is no field {field!r} of a flow record; the fields are {', '.join(FIELDS)}")
        if name not in names:
            raise ValueError(f"has no column {name!r}; its columns are {', '.join(header)}"[:600])
    for field in NEEDED:
        if field not in columns:
            raise ValueError(f"needs a column for {field!r}; name it, for example {field}=COLUMN")
    if "reverse_bytes" in columns and "reverse_packets" not in columns:
        raise ValueError("has a column for 'reverse_bytes' and none for 'reverse_packets'; name both")
    return {field: names[name] for field, name in columns.items()}


def split(line: str, delimiter: str) -> list[str]:
    """The values of one line. ValueError if a quoted one does not end on it."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"the values cannot be told apart: {error}") from None


def csv_columns(
    blocks: Iterator[Lines], where: Mapping[str, int], width: int, delimiter: str
) -> Iterator[tuple[Sequence[int], Columns]]:
    """Blocks of lines after the header as columns, with their line numbers. BadLine for one that has not `width` values."""
    for numbers, lines in blocks:
        # Found by its first letters, for it has other columns.
        end = next((i for i, line in enumerate(lines) if line.startswith(SUMMARY)), None)
        if end is not None:
            numbers, lines = numbers[:end], lines[:end]
        if lines:
            if any('"' in line for line in lines):
                yield numbers, _columns(_quoted(numbers, lines, width, delimiter), where)
            else:
                yield numbers, plain_columns(numbers, lines, where, width, delimiter)
        if end is not None:
            for _ in blocks:  # to the end, that a damaged file is noticed
                pass
            return


def plain_columns(numbers: Sequence[int], lines: Sequence[str], where: Mapping[str, int], width: int, delimiter: str) -> Columns:
    """Columns of lines without quotes. BadLine for one that has not `width` values."""
    between = width - 1
    for number, line in zip(numbers, lines, strict=True):
        if line.count(delimiter) != between:
            raise BadLine(number, _other_width(line.count(delimiter) + 1, width))
    # In one list, for to keep one for each line would take twice the time; what is right of the last column stays in one piece.
    last = min(max(where.values()) + 1, between)
    values = list(chain.from_iterable(line.split(delimiter, last) for line in lines))
    return {field: values[at :: last + 1] for field, at in where.items()}


def _columns(rows: Sequence[Sequence[str]], where: Mapping[str, int]) -> Columns:
    return dict(zip(where, zip(*map(itemgetter(*where.values()), rows), strict=True), strict=True))


def _quoted(numbers: Sequence[int], lines: Sequence[str], width: int, delimiter: str) -> list[list[str]]:
    """The values of lines some of which are in quotes."""
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
        if len(rows) == len(lines) and all(len(row) == width for row in rows):
            return rows
    except csv.Error:
        pass
    for number, line in zip(numbers, lines, strict=True):
        try:
            found = len(split(line, delimiter))
        except ValueError as error:
            raise BadLine(number, str(error)) from None
        if found != width:
            raise BadLine(number, _other_width(found, width))
    raise BadLine(numbers[0], "or one after it has a value that goes on over the end of the line")


def _other_width(found: int, width: int) -> str:
    return f"has {found} values where the head of the table names {width}; mend the line or take it out"
