"""When a routing cache that has been asked to flush does so.

Models rt_cache_flush, net/ipv4/route.c, 2.6.20. A change of routes does not empty the cache at once: the flush waits min_delay
for more of them, each puts it off again, but never beyond max_delay after the first. A change that a process makes (a routing
daemon) when less than max_delay - min_delay is left of that time is not waited for: the flush runs at once.
"""

NS = 1_000_000_000
MIN_DELAY_S, MAX_DELAY_S = 2.0, 10.0


class FlushTimer:
    """The flush timer of one cache. Times in ns."""

    def __init__(self, min_delay_s: float = MIN_DELAY_S, max_delay_s: float = MAX_DELAY_S) -> None:
        """ValueError for a delay below 0."""
        if min_delay_s < 0 or max_delay_s < 0:
            raise ValueError(f"a flush cannot be {min(min_delay_s, max_delay_s):g} s in the past")
        self.min_delay = round(min_delay_s * NS)
        self.max_delay = round(max_delay_s * NS)
        self.due: int | None = None  # when the flush is to run; None: nobody has asked
        self._deadline = 0

    def ask(self, now: int, *, by_process: bool = True) -> int:
        """A change of routes at `now`; returns when the flush is to run (`now`: at once)."""
        delay = self.min_delay
        if self.due is None:
            self._deadline = now + self.max_delay
        else:
            left = self._deadline - now
            if by_process and left < self.max_delay - self.min_delay:
                left = 0
            delay = min(delay, left)
        self.due = now + max(0, delay)
        return self.due

    def done(self) -> None:
        """The flush has run."""
        self.due = None
