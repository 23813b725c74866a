"""Parameters of unicache. Its source was never published with the figures: what is not in public text is inferred and says so."""

from dataclasses import dataclass

from models.interface import param

_README = "unicache2 README, R. Olsson"


@dataclass(frozen=True)
class UnicacheParams:
    """What `unicache` can be set to. ValueError with one sentence for what cannot work."""

    gc_thresh: int = param(262_144, "leaves at which an insertion collects first", "leaves", f"name: {_README}; value inferred")
    gc_goal: int = param(8192, "leaves that one passive collection removes", "leaves", f"name: {_README}; value inferred")
    gc_scan: int = param(8, "leaves looked at for each one removed: the longest unused of them goes", "leaves", "inferred")
    max_size: int = param(
        0, "route entries at which packets are refused; 0: 4 * gc_thresh", "entries", f"{_README}: ip_rt_max_size"
    )
    gc_interval_s: float = param(
        60.0, "period of the timer's collection", "s", "as rt_check_expire of net/ipv4/route.c, 2.6.20; inferred"
    )
    gc_timeout_s: float = param(
        300.0, "idle time after which the timer removes a leaf", "s", "as net/ipv4/route.c, 2.6.20; inferred"
    )
    active_gc: bool = param(
        True, "remove a flow at TCP FIN or RST or the generator's end mark", "", f"{_README}; the mark is inferred"
    )
    max_root_bits: int = param(19, "bits of the largest tnode; 0: no bound", "bits", "i386, 2.6.20: pages of order 10 at most")
    inflate_threshold: int = param(50, "a tnode doubles if its double is at least so full", "%", "net/ipv4/fib_trie.c, 2.6.20")
    halve_threshold: int = param(25, "a tnode halves below this filling", "%", "net/ipv4/fib_trie.c, 2.6.20")
    inflate_threshold_root: int = param(25, "the same for the root", "%", "net/ipv4/fib_trie.c, 2.6.20")
    halve_threshold_root: int = param(15, "the same for the root", "%", "net/ipv4/fib_trie.c, 2.6.20")

    def __post_init__(self) -> None:
        for name in ("gc_thresh", "gc_goal", "gc_scan"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.gc_goal > self.gc_thresh:
            raise ValueError(f"gc_goal must not be above gc_thresh ({self.gc_thresh}), got {self.gc_goal}")
        for name in ("gc_interval_s", "gc_timeout_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above zero seconds, got {getattr(self, name)}")
        if self.entries_max < self.gc_thresh:
            raise ValueError(f"max_size must not be below gc_thresh ({self.gc_thresh}), got {self.entries_max}")

    @property
    def entries_max(self) -> int:
        """max_size in entries, its default put in."""
        return self.max_size or 4 * self.gc_thresh
