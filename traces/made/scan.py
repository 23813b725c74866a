"""A port scan: one source, one host or a few, port after port. One dst entry a host for a routing cache that looks up addresses,
a new flow with every packet for one that looks up the whole key.

Probes are TCP from one port, as nmap's SYN scan sends them. Left out: the shuffled order of ports, repeats, and answers.
"""

from typing import Any

import numpy as np

from models.flow import PROTO_TCP, PacketBatch
from models.kernel import I64, kernel
from traces.addresses import BITS, to_words
from traces.made.stream import (
    PACKETS,
    MadeSource,
    Stream,
    count_packets,
    make_header,
    make_stream,
    parse_prefix_of,
    rows_left,
    write_packet,
)

MOST_HOSTS = 1 << 24


@kernel
def scan(stream: Stream, hosts: I64, first_port: int, ports: int, at: int, batch: PacketBatch, start: int) -> int:
    """Packets to one port after the other from row `start` on, host after host; returns the rows then filled."""
    packets = rows_left(stream, batch, start)
    ports_word = stream.header.size - 2
    for row in range(start, start + packets):
        probe = stream.var[PACKETS] + row - start
        host = probe // ports
        write_packet(stream, batch, row)
        # Fewer than 2**24 hosts differ in the last word of the address only.
        batch.key[row, at] = hosts[0] + host % hosts[1]
        batch.key[row, ports_word] = stream.header[ports_word] | (first_port + probe - host * ports)
    count_packets(stream, packets)
    return start + packets


class PortScan(MadeSource):
    """An endless scan of `hosts` (a prefix, or one address) from `source`: first_port to last_port of each, then from the start.

    Packets are evenly spaced at `rate_pps`. ValueError for what cannot work.
    """

    def __init__(
        self,
        hosts: str | None = None,
        *,
        rate_pps: float = 500_000.0,
        source: str | None = None,
        first_port: int = 1,
        last_port: int = 65535,
        sport: int = 40000,
        family: int = 4,
        protocol: int = PROTO_TCP,
        packet_bytes: int = 74,
        interface: int = 1,
        start_ns: int = 0,
    ) -> None:
        if not 0 <= first_port <= last_port <= 0xFFFF:
            raise ValueError(f"ports must be from 0 to 65535 and in order, got {first_port} to {last_port}")
        target = hosts or ("198.51.100.1" if family == 4 else "2001:db8::1")
        sender = source or ("192.0.2.1" if family == 4 else "2001:db8:1::1")
        anywhere = "0.0.0.0" if family == 4 else "::"
        header = make_header(family, sender, anywhere, sport, 0, protocol, interface)
        network, plen = parse_prefix_of(target, family)
        many = 1 << (BITS[family] - plen)
        if many > MOST_HOSTS:
            raise ValueError(f"{target} holds more than {MOST_HOSTS:,} hosts; give a longer prefix")
        ends = (header.size - 2) // 2
        header[ends : 2 * ends] = [network] if family == 4 else to_words([network])[0]
        self._at = 2 * ends - 1
        self._hosts = np.array([header[self._at], many], np.int64)
        self._ports = first_port, last_port - first_port + 1
        stream = make_stream(rate_pps=rate_pps, header=header, draws=0, packet_bytes=packet_bytes, start_ns=start_ns)
        described: dict[str, Any] = {
            "source": "port scan",
            "hosts": target,
            "first_port": first_port,
            "last_port": last_port,
            "rate_pps": float(rate_pps),
            "source_address": sender,
            "family": family,
            "interface": interface,
            "packet_bytes": packet_bytes,
        }
        super().__init__(stream, None, described)

    def _write(self, batch: PacketBatch, start: int) -> int:
        return int(scan(self._stream, self._hosts, *self._ports, self._at, batch, start))
