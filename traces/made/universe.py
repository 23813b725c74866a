"""Packets of a fixed set of flows, each of one that is drawn."""

from typing import Any

import numpy as np
import numpy.typing as npt

from models.flow import PacketBatch
from models.kernel import U32, i64, kernel
from traces.made.alias import Alias, make_alias, pick
from traces.made.stream import DRAWN, MadeSource, Stream, count_packets, rows_left, write_packet


@kernel
def from_universe(stream: Stream, keys: U32, alias: Alias, batch: PacketBatch, start: int) -> int:
    """Packets of flows drawn from a universe, from row `start` on; returns the rows then filled."""
    packets = rows_left(stream, batch, start)
    for row in range(start, start + packets):
        write_packet(stream, batch, row)
        flow = pick(alias, stream.draws[stream.var[DRAWN] + row - start, 0])
        for word in range(keys.shape[1]):
            batch.key[row, word] = i64(keys[flow, word])
    count_packets(stream, packets)
    return start + packets


class Universe(MadeSource):
    """An endless, even stream of packets of given flows, flow k with a share in proportion to weights[k]."""

    def __init__(
        self,
        stream: Stream,
        rng: np.random.Generator,
        described: dict[str, Any],
        keys: U32,
        weights: npt.NDArray[np.float64],
    ) -> None:
        """`keys`: uint32[flows, W]; `weights`: float64[flows]. The stream has one draw for each packet."""
        super().__init__(stream, rng, described)
        self.keys = keys
        self._alias = make_alias(weights)

    def _write(self, batch: PacketBatch, start: int) -> int:
        return int(from_universe(self._stream, self.keys, self._alias, batch, start))
