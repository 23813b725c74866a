"""Times and durations of flow records, from columns of text to int64 nanoseconds.

A time is a number of some unit, or date and time of day (UTC unless a zone is given). The usual forms are read in bulk; floats take
part only where they hold every digit. Anything else is read digit by digit.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from models.kernel import I64

UNIT_DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Decimal digits from a unit of time down to a nanosecond."""

LATEST_NS = 1 << 62
"""Times are below this (2116); as a duration it says that none is known."""

FLOAT_EXACT_S = 1e6
"""Up to so many seconds nine decimals survive a float: 1e15 ns times the two roundings of 2**-53 is less than half of one."""


class _Seconds(dict[str, int]):
    """Date and time of day to the second as ns since 1970, each parsed once; those of records come again and again."""

    def __missing__(self, text: str) -> int:
        if len(self) > 1 << 16:
            self.clear()
        try:
            if len(text) != 19:
                raise ValueError
            moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
        except ValueError:
            raise ValueError(f"{short(text)} is not a time such as 2024-06-28 23:17:41.250") from None
        self[text] = found = int(moment.timestamp()) * 10**9
        return found


class Clock:
    """Reads times; `unset` stands where a duration is not known."""

    def __init__(self, unset: str) -> None:
        self._unset = unset
        self._seconds = _Seconds()

    def times(self, texts: Sequence[str], digits: int) -> I64:
        """Times since 1970 in ns."""
        if not texts:
            return np.zeros(0, np.int64)
        try:
            found = self._dates(texts) if texts[0][4:5] == "-" else _microseconds(texts, digits)
        except (ValueError, OverflowError):
            found = None
        if found is None:
            times = [self._time(text, digits) for text in texts]
            if not 0 <= min(times) <= max(times) < LATEST_NS:
                raise ValueError(f"the time {short(texts[0])} is not between 1970 and 2116; is the unit of time right?")
            found = np.array(times, np.int64)
        return found

    def _dates(self, texts: Sequence[str]) -> I64 | None:
        """Date and time of day in the usual form, up to nanoseconds; None for any other."""
        seconds = self._seconds
        times = np.array([seconds[text[:19]] for text in texts], np.int64)
        tails = [text[19:] for text in texts]
        if any(tails):
            if not all(tail[0] == "." if tail else True for tail in tails):
                return None
            part = np.array([float(tail) if tail else 0.0 for tail in tails])
            if not ((part >= 0) & (part < 1)).all():
                return None
            times += np.rint(part * 1e9).astype(np.int64)
        return times if times.min() >= 0 and times.max() < LATEST_NS else None

    def _time(self, text: str, digits: int) -> int:
        """One time, however it is written: a number of units, or date and time of day with or without a zone."""
        plain = text.strip()
        if plain[4:5] != "-":
            return decimal_ns(text, digits)
        tail = plain[19:].removesuffix("Z")
        if not tail or (tail[0] == "." and tail[1:].isdigit()):
            return self._seconds[plain[:19]] + decimal_ns("0" + tail, 9)
        try:
            moment = datetime.fromisoformat(plain)
        except ValueError:
            raise ValueError(f"{short(text)} is not a time such as 2024-06-28 23:17:41.250") from None
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000

    def spans(self, texts: Sequence[str], digits: int) -> I64:
        """Durations in ns, LATEST_NS for those that are not known."""
        unset = self._unset
        try:
            # A float holds so many digits.
            part = np.array([LATEST_NS if text == unset else float(text) for text in texts]) if digits == 9 else np.zeros(0)
            known = part != LATEST_NS
            if digits == 9 and (np.abs(part[known]) < FLOAT_EXACT_S).all():
                spans = np.full(part.size, LATEST_NS, np.int64)
                spans[known] = np.rint(part[known] * 1e9)
                return spans
        except ValueError:
            pass
        found = [LATEST_NS if text in (unset, "") else _span(text, digits) for text in texts]
        if found and not -LATEST_NS < min(found) <= max(found) <= LATEST_NS:
            raise ValueError(f"the duration {short(texts[0])} is more than 146 years; is the unit of time right?")
        return np.array(found, np.int64)


def _microseconds(texts: Sequence[str], digits: int) -> I64 | None:
    """Seconds with six decimals, as Zeek writes them; None for any others. Floats hold these until 2038 exactly."""
    if digits != 9 or not all(text[-7:-6] == "." for text in texts):
        return None
    seconds = np.array(list(map(float, texts)))
    if not ((seconds >= 0) & (seconds < 1 << 31)).all():
        return None
    return np.rint(seconds * 1e6).astype(np.int64) * 1000


def decimal_ns(text: str, digits: int) -> int:
    """A decimal number of units of 10**digits ns, exactly, cut to whole nanoseconds. ValueError."""
    whole, _, fraction = text.partition(".")
    if whole and whole != "-" and (not fraction or fraction.isdigit()):
        try:
            if len(whole) < 26:
                return int(whole + fraction[:digits].ljust(digits, "0"))
        except ValueError:
            pass
    try:
        number = Decimal(text.strip())
        if number.is_finite() and number.adjusted() < 25:
            return int(number.scaleb(digits))
    except InvalidOperation:
        pass
    raise ValueError(f"{short(text)} is not a time: write a number, or date and time such as 2024-06-28 23:17:41.250")


def _span(text: str, digits: int) -> int:
    """A duration: a number of units, or hours:minutes:seconds."""
    if ":" not in text:
        return decimal_ns(text, digits)
    hours, _, rest = text.strip().partition(":")
    minutes, _, seconds = rest.partition(":")
    try:
        return (int(hours) * 3600 + int(minutes) * 60) * 10**9 + decimal_ns(seconds, 9)
    except ValueError:
        raise ValueError(f"{short(text)} is not a duration: write a number, or hours:minutes:seconds") from None


def short(text: Any) -> str:
    """A value as it stands in a sentence."""
    shown = repr(text)
    return shown if len(shown) <= 40 else shown[:37] + "..."
