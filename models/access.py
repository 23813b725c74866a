"""The access log: what a structure touched and called, packet by packet, and nothing about what that costs.

One record is one int64: a run of adjacent cache lines, how they were touched and the function that the touch is
charged to. `touch` and its inverses `record_*` are the only code that knows the layout:

    bits 62..28 first line (byte address / 64)   27..12 lines after the first   11..3 function   2..0 kind

A structure writes records in the order of its accesses, adds to `calls` once per function call, and notes for each packet
where its lookup ended (`miss`) and where its work ended (`end`). Pricing happens elsewhere, so that one
structure can be priced on any machine.
"""

from typing import NamedTuple

import numpy as np

from models.functions import MAX_FUNCTIONS
from models.kernel import I64, NIL, i64, kernel

LINE = 64
"""Bytes of a cache line; every machine that dstlab knows has this size."""
LINE_SHIFT = 6

READ, WRITE, DMA = 0, 1, 2
"""Kinds of touch: a demand load, a store (which needs the line exclusively), a device's write that takes lines out of caches."""

MAX_RANGE = 1 << 16
"""Most lines that one record can hold; `touch_range` writes several records for more."""

USED, ON, UNKNOWN = 0, 1, 2
LAST_LINE = (1 << 35) - 1
"""The last line that a record can name."""


class AccessLog(NamedTuple):
    """A log of fixed room. Whoever writes checks `room` first; nothing here grows by itself."""

    record: I64  # int64[room], see the layout above
    head: I64  # int64[3]: records used; 1 if touches are recorded, 0 if the run is not priced; 1 after a call of no known function
    calls: I64  # int64[MAX_FUNCTIONS], calls of each function since the log was last emptied
    end: I64  # int64[batch], records used after packet i was finished
    miss: I64  # int64[batch], records used when the lookup of packet i had failed; NIL for a hit
    entry: I64  # int64[batch], simulated address of the dst entry that packet i leaves with; 0 if it has none
    answer: I64  # int64[batch], route given to packet i; DROPPED if the structure could not serve it


DROPPED = -1
"""Answer for a packet that the structure refused (the kernel's -ENOBUFS); the packet is an error, not a hit or a miss."""


def make_log(room: int, batch: int, on: bool = True) -> AccessLog:
    """An empty log for `room` records and batches of up to `batch` packets; with `on=False` touches cost nothing."""
    if room < 1 or batch < 1:
        raise ValueError(f"a log needs room for at least one record and one packet, got room={room}, batch={batch}")
    head = np.zeros(3, np.int64)
    head[ON] = 1 if on else 0
    return AccessLog(
        record=np.zeros(room, np.int64),
        head=head,
        calls=np.zeros(MAX_FUNCTIONS, np.int64),
        end=np.zeros(batch, np.int64),
        miss=np.full(batch, NIL, np.int64),
        entry=np.zeros(batch, np.int64),
        answer=np.full(batch, DROPPED, np.int64),
    )


@kernel
def touch(log: AccessLog, kind: int, function: int, address: int) -> None:
    """Record one access to the line that holds byte `address`. One record; the caller has checked `room`.

    What has no room is counted and not written, so that `overrun` can tell on a structure that did not check.
    """
    if log.head[ON] != 0:
        used = log.head[USED]
        if used < log.record.size:
            log.record[used] = (((address >> LINE_SHIFT) & LAST_LINE) << 28) | (function << 3) | kind
        log.head[USED] = used + 1


@kernel
def touch_range(log: AccessLog, kind: int, function: int, address: int, size: int) -> None:
    """Record a sweep over the lines of bytes [address, address + size). One record per MAX_RANGE lines begun."""
    if log.head[ON] != 0 and size > 0:
        line = (address >> LINE_SHIFT) & LAST_LINE
        left = ((address + size - 1) >> LINE_SHIFT) - (address >> LINE_SHIFT) + 1
        used = log.head[USED]
        while left > 0:
            lines = min(left, MAX_RANGE)
            if used < log.record.size:
                log.record[used] = (line << 28) | ((lines - 1) << 12) | (function << 3) | kind
            used += 1
            line += lines
            left -= lines
        log.head[USED] = used


@kernel
def call(log: AccessLog, function: int, times: int) -> None:
    """Add calls of a function. Costs no record. Calls count in an unpriced run too."""
    if 0 <= function < MAX_FUNCTIONS:
        log.calls[function] += times
    else:
        log.head[UNKNOWN] = 1


@kernel
def room(log: AccessLog) -> int:
    """Records that may still be written; without bound when touches are off."""
    if log.head[ON] == 0:
        return NIL
    return i64(log.record.size - log.head[USED])


@kernel
def record_line(record: int) -> int:
    """First cache line of a record."""
    return record >> 28


@kernel
def record_lines(record: int) -> int:
    """Number of adjacent lines of a record."""
    return ((record >> 12) & 0xFFFF) + 1


@kernel
def record_function(record: int) -> int:
    """Function that a record is charged to."""
    return (record >> 3) & 0x1FF


@kernel
def record_kind(record: int) -> int:
    """READ, WRITE or DMA."""
    return record & 7


def empty(log: AccessLog) -> None:
    """Forget the records and calls; what the log says of each packet stays until the next batch."""
    log.head[USED] = 0
    log.calls[:] = 0


def begin_batch(log: AccessLog, packets: int) -> None:
    """Forget what the log said of the packets of the last batch."""
    log.end[:packets] = 0
    log.miss[:packets] = NIL
    log.entry[:packets] = 0
    log.answer[:packets] = DROPPED


def overrun(log: AccessLog) -> str:
    """What a structure did to the log that it must not do, in words; empty if nothing."""
    if log.head[USED] > log.record.size:
        return (
            f"wrote {log.head[USED]} records into a log with room for {log.record.size}; "
            "records_per_packet must be at least what one lookup or one insertion touches"
        )
    if log.head[UNKNOWN] != 0:
        return "calls a function number that nobody registered; take it from models.functions.register"
    return ""
