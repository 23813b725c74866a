"""Source: what every kind of traffic looks like to the box, whether generated or captured.

A source yields batch after batch of packets in arrival order. The stream never depends on the room of the batches it is read
with: batches of 64 and of 4,096 packets give the same packets. Packets that cannot be served (another family, no flow
key) are left out and counted by reason, never silently dropped.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from models.flow import WORDS_IPV4, PacketBatch


class Source:
    """One stream of packets. `fill` must be given; a source that leaves nothing out needs no `skipped`."""

    words: int = WORDS_IPV4
    """Words of the flow keys it writes."""

    def fill(self, batch: PacketBatch) -> int:
        """Write the next packets into `batch`, as many as it has room for, and return how many; 0 at the end of the trace.

        Sets `packets[0]`, and `time` (ns, never less than that of the packet before), `key`, `length` and `flags` of each packet;
        `route` is left alone.
        """
        raise TypeError(f"{type(self).__name__} has no fill()")

    def skipped(self) -> dict[str, int]:
        """Packets left out so far, by reason; reasons that never occurred are not listed."""
        return {}

    def describe(self) -> dict[str, Any]:
        """What the source is and what it has noticed so far, as plain values for a result file."""
        return {"source": type(self).__name__}


def check_words(source: Source, batch: PacketBatch) -> None:
    """Refuse a batch whose flow keys have another width than the source writes (ValueError)."""
    if batch.key.shape[1] != source.words:
        raise ValueError(f"{type(source).__name__} writes flow keys of {source.words} words, the batch has {batch.key.shape[1]}")


def all_skipped(sources: Iterable[Source]) -> dict[str, int]:
    """Packets that several sources have left out, by reason."""
    total: Counter[str] = Counter()
    for source in sources:
        total.update(source.skipped())
    return dict(total)
