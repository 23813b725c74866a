"""Several sources as one stream in order of time: captures of several interfaces, or several senders.

Each source has a buffer; a kernel takes the earliest head again and again until a buffer runs dry. On equal times the source
that was given first goes first, so the merged stream is always the same.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from models.flow import PacketBatch
from models.kernel import I32, I64, NIL, U8, U32, kernel
from traces.source import Source, all_skipped, check_words

BUFFER = 4096

# Columns of MergeState.var
HEAD, FILLED, ENDED = 0, 1, 2


class MergeState(NamedTuple):
    """The buffers of k sources."""

    time: I64  # int64[k, BUFFER], as in PacketBatch
    key: U32  # uint32[k, BUFFER, W]
    length: I32  # int32[k, BUFFER]
    flags: U8  # uint8[k, BUFFER]
    var: I64  # int64[k, 3], next packet of the buffer, packets in it, 1 if the source has ended


@kernel
def merge(state: MergeState, batch: PacketBatch, start: int) -> tuple[int, int]:
    """Move packets into the batch from row `start` on; returns a source whose buffer is dry (NIL: none) and the rows filled."""
    sources = state.time.shape[0]
    row = start
    while row < batch.time.size:
        first = NIL
        for k in range(sources):
            if state.var[k, HEAD] == state.var[k, FILLED]:
                if state.var[k, ENDED] == 0:
                    return k, row
            elif first == NIL or state.time[k, state.var[k, HEAD]] < state.time[first, state.var[first, HEAD]]:
                first = k
        if first == NIL:
            break
        at = state.var[first, HEAD]
        batch.time[row] = state.time[first, at]
        for word in range(batch.key.shape[1]):
            batch.key[row, word] = state.key[first, at, word]
        batch.length[row] = state.length[first, at]
        batch.flags[row] = state.flags[first, at]
        state.var[first, HEAD] = at + 1
        row += 1
    return NIL, row


def make_buffers(sources: Sequence[Source]) -> tuple[MergeState, list[PacketBatch]]:
    """Empty buffers, and each as a batch to be filled. ValueError for no sources and for several families."""
    if not sources:
        raise ValueError("there is nothing to merge; give at least one source")
    widths = sorted({source.words for source in sources})
    if len(widths) > 1:
        raise ValueError(f"sources with flow keys of {widths[0]} and {widths[1]} words cannot be merged; give them one family")
    k = len(sources)
    state = MergeState(
        time=np.zeros((k, BUFFER), np.int64),
        key=np.zeros((k, BUFFER, widths[0]), np.uint32),
        length=np.zeros((k, BUFFER), np.int32),
        flags=np.zeros((k, BUFFER), np.uint8),
        var=np.zeros((k, 3), np.int64),
    )
    batches = [
        PacketBatch(
            np.zeros(1, np.int64), state.time[i], state.key[i], state.length[i], state.flags[i], np.full(BUFFER, -1, np.int32)
        )
        for i in range(k)
    ]
    return state, batches


class MergedSource(Source):
    """The packets of several sources by time; all must have keys of the same width (ValueError).

    An error of a source is raised once all packets before it have been handed out.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._state, self._buffers = make_buffers(sources)
        self.words = sources[0].words
        self.sources = list(sources)

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch; fewer only when every source has ended."""
        check_words(self, batch)
        filled = 0
        while True:
            dry, filled = merge(self._state, batch, filled)
            if dry == NIL:
                break
            try:
                got = self.sources[dry].fill(self._buffers[dry])
            except ValueError:
                # What was merged before the damage is handed out first; the next call comes here again.
                if filled == 0:
                    raise
                break
            self._state.var[dry] = 0, got, int(got == 0)
        filled = int(filled)
        batch.packets[0] = filled
        return filled

    def skipped(self) -> dict[str, int]:
        """Sums over the sources."""
        return all_skipped(self.sources)

    def describe(self) -> dict[str, Any]:
        """The description of each source."""
        return {"source": "merged", "sources": [source.describe() for source in self.sources]}
