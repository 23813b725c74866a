"""Churn made from a seed, at the rates of one peer of February 2007.

Source: RIPE's collector at LINX, updates.20070211.0141 (15 minutes from 01:41 UTC), peer 195.66.226.35, which sent the most
updates: 1,062 changes, counted by `traces.churn.read_updates`. It sends what has changed about every half minute, as BGP's
advertisement timer has it, and most of the time little has: a few bursts hold most changes. A change is of a prefix that did not
change before, anywhere in the table or beside the one before, or of one that did; those that changed often do so again.
"""

import numpy as np

from models.kernel import I64
from traces.churn import WITHDRAWN, Churn
from traces.routes.table import RouteTable

BURSTS = [
    *[1, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 8, 11, 14, 14, 16, 17, 17, 19, 20, 35, 36, 36, 38, 40, 41, 59],
    580,
]
"""Changes of each of the peer's 34 bursts, in order of size."""
GAPS_S = [1, *[25] * 2, *[26] * 5, *[27] * 7, *[28] * 3, *[29] * 9, *[30] * 5, 31]
"""Seconds from each burst to the next."""
JITTER_S = 0.25
NEW = 877 / 1062
"""Share of the changes whose prefix had not changed before."""
WITHDRAWALS = 19 / 1062
"""Share of the changes that withdraw a prefix."""
BESIDE = 1 - 1 / 1.57
"""Of the new prefixes of a burst so many lie beside the one before: they came in runs of 1.57 rows of the table in the mean."""
BURST_NS = 500_000_000
"""A burst is spread over this time; the file's own clock counts whole seconds."""
MOST = 20_000_000


def made_churn(seed: int | np.random.Generator, table: RouteTable, seconds: float, *, scale: float = 1.0) -> Churn:
    """Changes of `table` over so many seconds; every change is one of the state before, which begins as the table is.

    `scale` multiplies the changes of every burst. Next hops are numbered as in the table; default routes never change. ValueError
    for a table without other prefixes and for impossible numbers.
    """
    if not seconds > 0 or not scale > 0:
        raise ValueError(f"changes of routes need a time and a scale above 0, got {seconds} and {scale}")
    if seconds * scale * sum(BURSTS) / 900 > MOST:
        raise ValueError(f"{seconds} s at scale {scale} are more than {MOST:,} changes; ask for less")
    rows = np.flatnonzero(table.plen > 0)
    if not rows.size:
        raise ValueError("changes of routes need a table with prefixes other than the default route")
    rng = np.random.default_rng(seed)
    time_ns = _times(rng, seconds, scale)
    row = rows[_places(rng, time_ns, rows.size)]
    return Churn(
        time_ns=time_ns,
        prefix=table.prefix[row],
        plen=table.plen[row],
        nexthop=np.array(_hops(rng, row.tolist(), table), np.int64),
        nexthops=list(table.nexthops),
        family=table.family,
        span_ns=round(seconds * 1e9),
    )


def _times(rng: np.random.Generator, seconds: float, scale: float) -> I64:
    """Times of the changes in order: bursts of the peer's sizes, at a random phase."""
    rounds = int(seconds / sum(GAPS_S)) + 2
    gaps = np.concatenate([rng.permutation(GAPS_S) for _ in range(rounds)]) + rng.uniform(-JITTER_S, JITTER_S, rounds * len(GAPS_S))
    begin = np.cumsum(gaps) - rng.uniform(0, sum(GAPS_S))
    bursts = begin.size
    # Every burst and every gap of the peer comes once before any comes again: the largest burst holds half of all changes.
    sizes = np.concatenate([rng.permutation(BURSTS) for _ in range(bursts // len(BURSTS) + 1)])[:bursts] * scale
    whole = np.floor(sizes + rng.random(bursts)).astype(np.int64)
    burst = np.repeat((begin * 1e9).astype(np.int64), whole)
    times = np.sort(burst + rng.integers(0, BURST_NS, burst.size))
    kept: I64 = times[(times >= 0) & (times < seconds * 1e9)]
    return kept


def _places(rng: np.random.Generator, time_ns: I64, rows: int) -> I64:
    """Which of the table's rows each change is of."""
    n = time_ns.size
    again = rng.random(n) >= NEW
    beside = rng.random(n) < BESIDE
    fresh = rng.integers(0, rows, n)
    before = (rng.random(n) * np.arange(n)).astype(np.int64)  # any change before: rows that changed often are drawn often
    places = fresh.tolist()
    for i, (repeat, near, earlier) in enumerate(zip(again.tolist(), beside.tolist(), before.tolist(), strict=True)):
        if i and repeat:
            places[i] = places[earlier]
        elif i and near and time_ns[i] - time_ns[i - 1] < BURST_NS:
            places[i] = (places[i - 1] + 1) % rows
    return np.array(places, np.int64)


def _hops(rng: np.random.Generator, rows: list[int], table: RouteTable) -> list[int]:
    """The next hop of each change: another than before, or WITHDRAWN; what was withdrawn comes back first."""
    n, hops = len(rows), len(table.nexthops)
    shared = np.cumsum(np.bincount(table.nexthop, minlength=hops) + 1e-9)
    drawn: list[int] = np.searchsorted(shared, rng.random(n) * shared[-1], side="right").clip(max=hops - 1).tolist()
    gone = (rng.random(n) < WITHDRAWALS).tolist()
    other = rng.integers(1, max(hops, 2), n).tolist()
    state: dict[int, int] = {}
    for i, row in enumerate(rows):
        now = state.get(row, int(table.nexthop[row]))
        if now != WITHDRAWN and (gone[i] or hops == 1):
            state[row] = WITHDRAWN
        else:
            state[row] = drawn[i] if drawn[i] != now else (now + other[i]) % hops
        drawn[i] = state[row]
    return drawn
