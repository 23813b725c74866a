"""Several sources as one by shares: every packet is the next one of a source drawn by its share, whatever the sources' own times.

So that an attack can be said as a part of the traffic. For sources each at a rate of its own see MergedSource.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.flow import PacketBatch
from models.kernel import NIL, kernel
from traces.made.alias import Alias, make_alias, pick
from traces.made.stream import BLOCK, DRAWN, PACKETS, VAR_SIZE, Stream, count_packets, draw_again, rows_left
from traces.merge import ENDED, FILLED, HEAD, MergeState, make_buffers
from traces.pace import EVEN_SIZE, set_even, tick
from traces.source import Source, all_skipped, check_words


@kernel
def mix(stream: Stream, shares: Alias, state: MergeState, batch: PacketBatch, start: int) -> tuple[int, int]:
    """Packets from row `start` on; returns a source whose buffer is dry (NIL: none) and the rows filled."""
    packets = rows_left(stream, batch, start)
    for row in range(start, start + packets):
        source = pick(shares, stream.draws[stream.var[DRAWN] + row - start, 0])
        at = state.var[source, HEAD]
        if at == state.var[source, FILLED]:
            count_packets(stream, row - start)
            return source, row
        batch.time[row] = tick(stream.clock)
        for word in range(batch.key.shape[1]):
            batch.key[row, word] = state.key[source, at, word]
        batch.length[row] = state.length[source, at]
        batch.flags[row] = state.flags[source, at]
        state.var[source, HEAD] = at + 1
    count_packets(stream, packets)
    return NIL, start + packets


class Mixture(Source):
    """Packets of `parts`, (share, source) each, evenly spaced at `rate_pps`; shares need no certain sum.

    Ends before the first packet of a source that has none left, for then the shares cannot be kept. `rng` must be the mixture's
    own. ValueError for no parts, for parts of different families and for shares that are none.
    """

    def __init__(
        self,
        parts: Sequence[tuple[float, Source]],
        *,
        rate_pps: float = 500_000.0,
        rng: np.random.Generator,
        start_ns: int = 0,
    ) -> None:
        if not parts:
            raise ValueError("there is nothing to mix; give at least one share and source")
        self.parts = list(parts)
        sources = [source for _, source in parts]
        self._state, self._buffers = make_buffers(sources)
        self.words = sources[0].words
        self._rng = rng
        self._rate_pps = rate_pps
        self._shares = make_alias(np.array([share for share, _ in parts], np.float64))
        clock = np.zeros(EVEN_SIZE, np.int64)
        set_even(clock, rate_pps, start_ns)
        var = np.zeros(VAR_SIZE, np.int64)
        var[DRAWN] = BLOCK
        empty = np.zeros(0, np.int64)
        self._stream = Stream(np.zeros((BLOCK, 1), np.int64), clock, empty, empty, var)

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch; fewer only at the end. An error of a source is raised once the packets before it have been handed out."""
        check_words(self, batch)
        stream = self._stream
        filled = 0
        while filled < batch.time.size:
            draw_again(stream, self._rng)
            dry, filled = mix(stream, self._shares, self._state, batch, filled)
            if dry == NIL:
                continue
            if self._state.var[dry, ENDED]:
                break
            try:
                got = self.parts[dry][1].fill(self._buffers[dry])
            except ValueError:
                if filled == 0:
                    raise
                break
            self._state.var[dry] = 0, got, int(got == 0)
        batch.packets[0] = filled
        return int(filled)

    @property
    def packets(self) -> int:
        """Packets sent so far."""
        return int(self._stream.var[PACKETS])

    def skipped(self) -> dict[str, int]:
        """Sums over the sources."""
        return all_skipped(source for _, source in self.parts)

    def describe(self) -> dict[str, Any]:
        """The rate, and each source with its share."""
        whole = sum(share for share, _ in self.parts)
        return {
            "source": "mixture",
            "rate_pps": float(self._rate_pps),
            "parts": [{"share": share / whole, "of": source.describe()} for share, source in self.parts],
        }
