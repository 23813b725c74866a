"""What becomes of packets: hits, slow path, errors, wrong answers, time in the box and a checksum over the answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models.access import DROPPED, AccessLog
from models.flow import PacketBatch
from models.kernel import I64, NIL, i64, kernel

HITS, SLOWS, ERRORS, WRONG, WORST, SUM, COUNTED = range(7)

SUB = 16
BUCKETS = 40 * SUB
CHECK_MODULUS = (1 << 31) - 1


@dataclass(slots=True)
class Totals:
    """Packets since the box was made. offered = processed + dropped + queued; processed = hits + slow + errors."""

    offered: int = 0
    dropped: int = 0
    processed: int = 0
    queued: int = 0
    hits: int = 0
    slow: int = 0
    errors: int = 0
    wrong: int = 0

    def minus(self, other: Totals) -> Totals:
        """What was added since `other`."""
        return Totals(*(getattr(self, name) - getattr(other, name) for name in self.__dataclass_fields__))


class Ledger(NamedTuple):
    """Totals of one box. Latencies in ns: from the card's receive ring to the end of the packet's share of its poll."""

    total: I64  # int64[7]: hits, slow path, errors, wrong answers, worst latency, checksum, packets in the checksum
    latency: I64  # int64[BUCKETS], packets by latency; 16 buckets for each doubling


def make_ledger() -> Ledger:
    """An empty ledger."""
    return Ledger(np.zeros(7, np.int64), np.zeros(BUCKETS, np.int64))


def booked(ledger: Ledger) -> Totals:
    """What the ledger holds of the totals; what is offered, dropped and queued the ports know."""
    hits, slow, errors, wrong = (int(ledger.total[k]) for k in (HITS, SLOWS, ERRORS, WRONG))
    return Totals(processed=hits + slow + errors, hits=hits, slow=slow, errors=errors, wrong=wrong)


def forget_latency(ledger: Ledger) -> None:
    """Begin the latencies anew; the counters stay."""
    ledger.latency[:] = 0
    ledger.total[WORST] = 0


@kernel
def latency_bucket(ns: int) -> int:
    """Bucket of a latency: exact below 16 ns, within 1/16 above."""
    if ns < SUB:
        return max(ns, 0)
    shift = 0
    value = ns
    while value >= 2 * SUB:
        value >>= 1
        shift += 1
    return min((shift + 1) * SUB + (value - SUB), BUCKETS - 1)


def bucket_floor(bucket: int) -> int:
    """Least latency of a bucket, ns."""
    if bucket < SUB:
        return bucket
    shift, rest = divmod(bucket, SUB)
    return (SUB + rest) << (shift - 1)


@kernel
def account(ledger: Ledger, batch: PacketBatch, log: AccessLog, first: int, stop: int, begin: int, end: int) -> int:
    """Book packets [first, stop), which the CPU worked on from `begin` to `end` (ns) at an even pace. Returns how many hit.

    The checksum is over (packet index, route) in order; comparable only between runs without loss.
    """
    hits = 0
    total = ledger.total
    for i in range(first, stop):
        answer = log.answer[i]
        if answer == DROPPED:
            total[ERRORS] += 1
        else:
            if log.miss[i] == NIL:
                hits += 1
            else:
                total[SLOWS] += 1
            if answer != i64(batch.route[i]):
                total[WRONG] += 1
        total[SUM] = (total[SUM] * 31 + (answer + 2) * ((total[COUNTED] & 0xFFFF) + 1)) % CHECK_MODULUS
        total[COUNTED] += 1
        spent = begin + (end - begin) * (i - first + 1) // (stop - first) - batch.time[i]
        ledger.latency[latency_bucket(spent)] += 1
        if spent > total[WORST]:
            total[WORST] = spent
    total[HITS] += hits
    return hits


@kernel
def account_loop(ledger: Ledger, batch: PacketBatch, log: AccessLog, numbers: I64) -> Iterator[int]:
    """`account` over and over; numbers: first, stop, begin, end."""
    while True:
        yield account(ledger, batch, log, i64(numbers[0]), i64(numbers[1]), i64(numbers[2]), i64(numbers[3]))


def percentile(latency: I64, share: float) -> float | None:
    """Latency (ns) that `share` of the packets do not exceed, to the width of a bucket; None without packets."""
    packets = int(latency.sum())
    if packets == 0:
        return None
    at = int(np.searchsorted(np.cumsum(latency), share * packets))
    return (bucket_floor(at) + bucket_floor(at + 1)) / 2
