"""The simulated memory: a map of regions, each handed out once.

Addresses are bytes in a simulated physical memory; they decide which objects share a cache line or a TLB page, and nothing of
the host enters. Large regions begin in large pages of their own, small ones share one, as what a kernel allocates at boot does.
"""

from bisect import bisect_right

PAGE = 4096
LARGE_PAGE = 4 << 20

MOST = 1 << 41
"""End of the simulated memory, bytes: the highest address that a record of the access log can hold."""

SMALL = 256 << 10
"""Regions of at most so many bytes share large pages: what boot allocates lies together."""
STAGGER = 5 * PAGE
"""Distance in cache sets between the starts of large regions, so that their first objects do not fight for one set."""


class SimulatedMemory:
    """A map of the simulated memory: regions by name, handed out once and never overlapping."""

    def __init__(self, base: int = LARGE_PAGE) -> None:
        self._next = base
        self._small = self._small_end = 0
        self._large = 0
        self._starts: list[int] = []
        self._sorted: list[tuple[int, int, str]] = []  # base, end, name, by base
        self.regions: list[tuple[str, int, int]] = []  # name, base, size in bytes

    def region(self, name: str, size: int) -> int:
        """Base address of a new region of at least `size` bytes: page-aligned, small ones side by side in one large page."""
        if size < 1:
            raise ValueError(f"region {name} needs at least one byte, got {size}")
        if self._next + size > MOST:
            raise ValueError(
                f"region {name} of {size:,} bytes is more than a simulated memory of {MOST >> 40} TiB holds; ask for less"
            )
        pages = -(-size // PAGE) * PAGE
        if size <= SMALL:
            if self._small + pages > self._small_end:
                self._small = self._take(LARGE_PAGE)
                self._small_end = self._small + LARGE_PAGE
            base = self._small
            self._small += pages
        else:
            shift = self._large * STAGGER % (1 << 20)
            self._large += 1
            base = self._take(pages + shift) + shift
        at = bisect_right(self._starts, base)
        self._starts.insert(at, base)
        self._sorted.insert(at, (base, base + size, name))
        self.regions.append((name, base, size))
        return base

    def _take(self, size: int) -> int:
        base = self._next
        self._next += -(-size // LARGE_PAGE) * LARGE_PAGE
        return base

    def owner(self, address: int) -> str | None:
        """Name of the region that holds a byte, None if nobody was given it."""
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        _, end, name = self._sorted[at]
        return name if address < end else None
