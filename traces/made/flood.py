"""Packets that are alike but for one address, which is drawn anew for each."""

from typing import Any

import numpy as np

from models.flow import PacketBatch
from models.kernel import I64, kernel
from traces.made.places import DRAWS, Places, as_places, write_address
from traces.made.stream import DRAWN, MadeSource, Stream, count_packets, make_stream, rows_left, write_packet


@kernel
def flood(stream: Stream, places: Places, at: int, batch: PacketBatch, start: int) -> int:
    """Packets whose address at word `at` is drawn, from row `start` on; returns the rows then filled."""
    packets = rows_left(stream, batch, start)
    for row in range(start, start + packets):
        write_packet(stream, batch, row)
        write_address(places, stream.draws, stream.var[DRAWN] + row - start, batch.key, row, at)
    count_packets(stream, packets)
    return start + packets


class AddressFlood(MadeSource):
    """An endless, even stream of packets with one flow key but for the address at word `at`, which is drawn from `where`."""

    def __init__(
        self,
        where: Any,
        name: str,
        *,
        at: int,
        header: I64,
        family: int,
        rate_pps: float,
        packet_bytes: int,
        interface: int,
        start_ns: int,
        rng: np.random.Generator,
        described: dict[str, Any],
    ) -> None:
        """`where`: a prefix, several, or Places; it is called `name` in `describe`. ValueError for what cannot work."""
        self._at = at
        self._places = as_places(where, family)
        stream = make_stream(rate_pps=rate_pps, header=header, draws=DRAWS[family], packet_bytes=packet_bytes, start_ns=start_ns)
        described[name] = where if isinstance(where, str) else f"{self._places.network.shape[0]} prefixes"
        shared = {"rate_pps": float(rate_pps), "family": family, "interface": interface, "packet_bytes": packet_bytes}
        super().__init__(stream, rng, described | shared)

    def _write(self, batch: PacketBatch, start: int) -> int:
        return int(flood(self._stream, self._places, self._at, batch, start))
