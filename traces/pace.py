"""The arithmetic of arrival times: int64 nanoseconds with exact remainders, so that a day of packets drifts by nothing.

Two clocks. An even one steps by 1e15 / rate_micro ns (the rate in millionths of a packet per second), which is rarely whole: the
remainder is carried. One that follows a trace takes its gaps: those that go back count as none, those above a limit are shortened
to it, and each is divided by a speed in millionths, again with the remainder carried.
"""

from models.kernel import I64, kernel

MICRO = 1_000_000
NANOSECONDS_MICRO = 1_000_000_000 * MICRO
LATEST_NS = 1 << 62
"""No packet may arrive later than this (146 years)."""

SLOWEST, FASTEST = 1e-6, 1e9
"""Packets per second of an even clock."""

# Fields of an even clock
EVEN_TIME, EVEN_REST, STEP, STEP_REST, RATE_MICRO = 0, 1, 2, 3, 4
EVEN_SIZE = 5
# Fields of a clock that follows a trace
TIME, REST, BEFORE, SPEED_MICRO, LONGEST, WENT_BACK, SHORTENED, CUT_NS = 0, 1, 2, 3, 4, 5, 6, 7
FOLLOW_SIZE = 8


@kernel
def tick(clock: I64) -> int:
    """The time of the next packet of an even clock, ns; the caller sees to it that it stays below LATEST_NS."""
    time = clock[EVEN_TIME]
    clock[EVEN_TIME] = time + clock[STEP]
    clock[EVEN_REST] += clock[STEP_REST]
    if clock[EVEN_REST] >= clock[RATE_MICRO]:
        clock[EVEN_REST] -= clock[RATE_MICRO]
        clock[EVEN_TIME] += 1
    return int(time)


@kernel
def even_times(clock: I64, times: I64, start: int, stop: int) -> int:
    """Set times[start : stop]; returns the row of the first that would come after LATEST_NS, else `stop`."""
    for row in range(start, stop):
        if clock[EVEN_TIME] > LATEST_NS:
            return row
        times[row] = tick(clock)
    return stop


@kernel
def followed_times(clock: I64, times: I64, start: int, stop: int) -> int:
    """Turn times[start : stop] of a trace into arrivals; the same result."""
    speed = clock[SPEED_MICRO]
    for row in range(start, stop):
        gap = times[row] - clock[BEFORE]
        if gap < 0:
            gap = 0
            clock[WENT_BACK] += 1
        else:
            clock[BEFORE] = times[row]
        if gap > clock[LONGEST]:
            clock[CUT_NS] += gap - clock[LONGEST]
            clock[SHORTENED] += 1
            gap = clock[LONGEST]
        # gap * MICRO / speed: neither product leaves 63 bits, for a speed is below MICRO * MICRO.
        whole = gap // speed
        rest = clock[REST] + gap % speed * MICRO
        if whole > (LATEST_NS - clock[TIME]) // MICRO:
            return row
        clock[TIME] += whole * MICRO + rest // speed
        clock[REST] = rest % speed
        if clock[TIME] > LATEST_NS:
            return row
        times[row] = clock[TIME]
    return stop


def set_even(clock: I64, rate_pps: float, start_ns: int = 0) -> None:
    """Begin an even clock. ValueError for a rate outside SLOWEST .. FASTEST."""
    # Written so that NaN is refused too.
    if not SLOWEST <= rate_pps <= FASTEST:
        raise ValueError(f"the rate must be from {SLOWEST:g} to {FASTEST:g} packets per second, got {rate_pps:g}")
    rate_micro = round(rate_pps * MICRO)
    clock[EVEN_TIME] = start_ns
    clock[EVEN_REST] = 0
    clock[STEP], clock[STEP_REST] = divmod(NANOSECONDS_MICRO, rate_micro)
    clock[RATE_MICRO] = rate_micro
