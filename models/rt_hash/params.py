"""Parameters of the routing cache, under the kernel's names (/proc/sys/net/ipv4/route, boot option rhash_entries)."""

from dataclasses import dataclass

from models.flush import MAX_DELAY_S, MIN_DELAY_S
from models.interface import param
from models.rt_hash.state import LAYOUTS

_ROUTE_C = "net/ipv4/route.c, 2.6.20"

ELASTICITY_MAX = 32
"""Longest chain bound whose worst packet still fits the log room that every structure may count on."""


@dataclass(frozen=True)
class RtHashParams:
    """What `rt_hash` can be set to. ValueError with one sentence for what cannot work."""

    rhash_entries: int = param(32768, "buckets of the hash table", "buckets", "i386 with at least 896 MB of low memory")
    gc_thresh: int = param(0, "entries above which each insertion asks for collection; 0: rhash_entries", "entries", _ROUTE_C)
    max_size: int = param(0, "entries at which packets are refused; 0: 16 * rhash_entries", "entries", _ROUTE_C)
    gc_elasticity: int = param(8, "entries a chain may hold before an insertion evicts one", "entries", _ROUTE_C)
    gc_timeout_s: float = param(300.0, "start value and cap of expire", "s", _ROUTE_C)
    gc_interval_s: float = param(60.0, "period of rt_check_expire", "s", _ROUTE_C)
    gc_min_interval_s: float = param(0.5, "least time between collections, and the increment of expire", "s", _ROUTE_C)
    min_delay_s: float = param(MIN_DELAY_S, "how long a flush waits for further route changes", "s", _ROUTE_C)
    max_delay_s: float = param(MAX_DELAY_S, "how long a flush can be put off by them", "s", _ROUTE_C)
    secret_interval_s: float = param(600.0, "period of the rebuild under a new hash secret", "s", _ROUTE_C)
    secret: int = param(-1, "hash secret, 0 for a hash without one; -1: drawn, and anew by each flush", "", "route.c, rt_hash_rnd")
    check_buckets: int = param(1024, "buckets that one rt_check_expire visits before its tick is over", "buckets", "estimated")
    layout: str = param("2.6.20", "field offsets of struct rtable: 2.6.20 or 2.6.21", "", "include/net/dst.h, route.h, i386")

    def __post_init__(self) -> None:
        buckets = self.rhash_entries
        if buckets < 1 or buckets & (buckets - 1):
            nearest = min((1 << i for i in range(26)), key=lambda power: (abs(power - buckets), -power))
            raise ValueError(f"buckets must be a power of two, got rhash_entries={buckets}; the nearest is {nearest}")
        if buckets > 1 << 25:
            raise ValueError(f"rhash_entries must be at most {1 << 25}, got {buckets}")
        if not 1 <= self.gc_elasticity <= ELASTICITY_MAX:
            raise ValueError(f"gc_elasticity must be 1 to {ELASTICITY_MAX} entries, got {self.gc_elasticity}")
        for name in ("gc_thresh", "max_size", "gc_timeout_s", "gc_interval_s", "gc_min_interval_s", "min_delay_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("gc_interval_s", "secret_interval_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is the period of a timer and must be above zero, got {getattr(self, name)}")
        if not -1 <= self.secret < 1 << 32:
            raise ValueError(f"secret must be from 0 to {(1 << 32) - 1}, or -1 for one that is drawn, got {self.secret}")
        if self.check_buckets < 1:
            raise ValueError(f"check_buckets must be at least 1, got {self.check_buckets}")
        if self.max_delay_s < self.min_delay_s:
            raise ValueError(f"max_delay_s must not be below min_delay_s, got {self.max_delay_s} and {self.min_delay_s}")
        if self.entries_max < self.threshold:
            raise ValueError(f"max_size must not be below gc_thresh, got {self.entries_max} and {self.threshold}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"layout must be {' or '.join(LAYOUTS)}, got {self.layout!r}")

    @property
    def threshold(self) -> int:
        """gc_thresh in entries, its default put in."""
        return self.gc_thresh or self.rhash_entries

    @property
    def entries_max(self) -> int:
        """max_size in entries, its default put in."""
        return self.max_size or 16 * self.rhash_entries
