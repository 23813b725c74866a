"""From columns of text to arrays: the addresses, ports, protocols, times and counts of flow records, some thousands at a time.

Everything is converted in bulk; only when something in a block is wrong are its rows tried one by one, to name the first bad one.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from socket import AF_INET, AF_INET6, inet_pton
from typing import Any, NamedTuple

import numpy as np

from models.flow import PROTO_TCP, PROTO_UDP
from models.kernel import I64, U32
from traces.flow_times import LATEST_NS, Clock, short

MOST_PACKETS = 1 << 40
MOST_BYTES = 1 << 50
SMALLEST_IP_BYTES, MAX_IP_BYTES = 46, 65535
"""What a minimal Ethernet frame carries (taken where a table has no bytes), and the most that an IP packet can have."""

PROTO_UDPLITE, PROTO_SCTP = 136, 132
WITH_PORTS = (PROTO_TCP, PROTO_UDP, PROTO_SCTP, PROTO_UDPLITE)
"""The flow keys of other protocols have port 0, as those of captured packets do; records put the ICMP type there."""

PROTOCOLS = {
    "icmp": 1, "igmp": 2, "ggp": 3, "ipip": 4, "ipencap": 4, "ipv4": 4, "st": 5, "tcp": 6, "cbt": 7, "egp": 8, "igp": 9, "udp": 17,
    "dccp": 33, "ipv6": 41, "ipv6-route": 43, "ipv6-frag": 44, "rsvp": 46, "gre": 47, "esp": 50, "ah": 51, "skip": 57,
    "icmp6": 58, "icmpv6": 58, "ipv6-icmp": 58, "ipv6-nonxt": 59, "eigrp": 88, "ospf": 89, "ospfigp": 89, "etherip": 97,
    "encap": 98, "pim": 103, "ipcomp": 108, "vrrp": 112, "l2tp": 115, "isis": 124, "sctp": 132, "fc": 133,
    "udplite": 136, "udplt": 136,
    "mpls-in-ip": 137,
}  # fmt: skip
"""Numbers of the protocol names that flow tools print (IANA, /etc/protocols, nfdump), in lower case."""

UNKNOWN = -1

NUMBER_FIELDS = ("packets", "bytes", "reverse_packets", "reverse_bytes")
FIELDS = ("start", "duration", "end", "source", "destination", "sport", "dport", "protocol", "tos", *NUMBER_FIELDS)
"""Names under which columns are handed over; `reverse_` are the counts of the other direction, a flow of its own."""
NEEDED = ("start", "source", "destination", "protocol", "packets")

Columns = Mapping[str, Sequence[str]]


class Units(NamedTuple):
    """How the text of a file is to be taken."""

    family: int = 4  # 4 or 6; records of the other are left out
    interface: int = 1  # input interface of the flow keys
    start: int = 9  # digits from the unit of start and end down to ns
    duration: int = 9  # the same for durations
    unset: str = "-"  # what stands where a value is not known


class Part(NamedTuple):
    """Flows of one block of records."""

    start: I64  # int64[n], ns
    duration: I64  # int64[n], ns from the first to the last packet
    key: U32  # uint32[n, W]
    packets: I64  # int64[n]
    bytes: I64  # int64[n], from the IP header on, of all packets together
    left_out: dict[str, int]  # records that are no flow here, by reason
    changed: dict[str, int]  # records taken with a change, by reason


class BadRow(ValueError):
    """Row `row` of a block (from 0) cannot be used; the message says why."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class Converter:
    """Turns blocks of columns into flows; keeps what it has seen of seconds and protocols."""

    def __init__(self, units: Units) -> None:
        self.units = units
        self._kind, self._bytes = (AF_INET, 4) if units.family == 4 else (AF_INET6, 16)
        self._clock = Clock(units.unset)
        self._protocols: dict[str, int] = {}

    def convert(self, columns: Columns) -> Part:
        """The flows of a block. BadRow names the first row that cannot be used, counted from 0."""
        try:
            return self._convert(columns)
        except (ValueError, OverflowError):
            for row in range(len(columns["start"])):
                try:
                    self._convert({name: column[row : row + 1] for name, column in columns.items()})
                except (ValueError, OverflowError) as error:
                    raise BadRow(row, str(error)) from None
            raise

    def _convert(self, columns: Columns) -> Part:
        units = self.units
        rows = len(columns["start"])
        start = self._clock.times(columns["start"], units.start)
        not_known = np.zeros(rows, bool)
        if "duration" in columns:
            duration = self._clock.spans(columns["duration"], units.duration)
            not_known = duration == LATEST_NS
            duration[not_known] = 0
        elif "end" in columns:
            duration = self._clock.times(columns["end"], units.start) - start
        else:
            duration = np.zeros(rows, np.int64)
        protocol = np.array([self._protocol(text) for text in columns["protocol"]], np.int64)
        tos = _numbers("type of service", columns["tos"], 255, units.unset) if "tos" in columns else np.zeros(rows, np.int64)
        with_ports = np.isin(protocol, WITH_PORTS)
        sport, dport = (_ports(columns.get(name), with_ports) for name in ("sport", "dport"))
        source, destination = (self._words(columns[name]) for name in ("source", "destination"))
        last = (np.maximum(protocol, 0) << 24) | (tos << 16) | units.interface
        other = self._other(columns["source"]) | self._other(columns["destination"])
        both = _numbers("number of packets", columns["packets"], MOST_PACKETS, units.unset)
        total = both
        back = "reverse_packets" in columns
        if back:
            total = both + _numbers("number of packets", columns["reverse_packets"], MOST_PACKETS, units.unset)
        reasons = {
            f"IPv{10 - units.family} addresses": other,
            "unknown protocol name": protocol == UNKNOWN,
            "no packets": total == 0,
            "ends before it starts": duration < 0,
        }
        good = np.ones(rows, bool)
        left_out: dict[str, int] = {}
        for reason, wrong in reasons.items():
            if found := int((wrong & good).sum()):
                left_out[reason] = found
            good &= ~wrong
        changed: dict[str, int] = {}
        if found := int((not_known & good).sum()):
            changed["duration not known, taken as 0"] = found
        ends = source, destination, sport, dport
        parts = [self._direction(columns, "", start, duration, (*ends, last), good, changed)]
        if back:
            ends = destination, source, dport, sport
            parts.append(self._direction(columns, "reverse_", start, duration, (*ends, last), good, changed))
        start, duration, key, packets, length = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Part(start, duration, key, packets, length, left_out, changed)

    def _direction(
        self,
        columns: Columns,
        which: str,
        start: I64,
        duration: I64,
        key: tuple[Any, ...],
        good: Any,
        changed: dict[str, int],
    ) -> tuple[I64, I64, U32, I64, I64]:
        """The flows of one direction: records in which it has packets."""
        packets = _numbers("number of packets", columns[which + "packets"], MOST_PACKETS, self.units.unset)
        name = which + "bytes"
        length = SMALLEST_IP_BYTES * packets
        if name in columns:
            length = _numbers("number of bytes", columns[name], MOST_BYTES, self.units.unset)
        keep = good & (packets > 0)
        most = MAX_IP_BYTES * packets
        if found := int(((length > most) & keep).sum()):
            reason = f"more than {MAX_IP_BYTES:,} bytes a packet, cut to that"
            changed[reason] = changed.get(reason, 0) + found
        source, destination, sport, dport, last = key
        words = np.column_stack((source, destination, (sport << 16) | dport, last)).astype(np.uint32)
        return start[keep], duration[keep], words[keep], packets[keep], np.minimum(length, most)[keep]

    def _words(self, texts: Sequence[str]) -> U32:
        """Addresses as uint32[n, 1] or uint32[n, 4]; zeros for those of the other family."""
        try:
            packed = b"".join(map(partial(inet_pton, self._kind), texts))
        except (OSError, ValueError):
            packed = b"".join(map(self._packed, texts))
        return np.frombuffer(packed, ">u4").astype(np.uint32).reshape(len(texts), -1)

    def _packed(self, text: str) -> bytes:
        """An address as bytes, also one with spaces around it, or of the other family."""
        plain = text.strip()
        try:
            if (":" in plain) == (self._kind == AF_INET6):
                return inet_pton(self._kind, plain)
            inet_pton(AF_INET if self._kind == AF_INET6 else AF_INET6, plain)
        except (OSError, ValueError):
            raise ValueError(f"{short(text)} is not an IP address") from None
        return bytes(self._bytes)

    def _protocol(self, text: str) -> int:
        """Number of a protocol, UNKNOWN for a name that is none of ours."""
        number = self._protocols.get(text)
        if number is None:
            plain = text.strip().lower()
            number = int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 9 else PROTOCOLS.get(plain, UNKNOWN)
            if not plain or number > 255:
                raise ValueError(f"{short(text)} is not an IP protocol, which is a name or a number from 0 to 255")
            if len(self._protocols) < 1 << 12:
                self._protocols[text] = number
        return number

    def _other(self, texts: Sequence[str]) -> Any:
        """Which addresses are of the other family."""
        if self.units.family == 4 and ":" not in "".join(texts):
            return np.zeros(len(texts), bool)
        colon = self.units.family == 6
        return np.array([(":" in text) != colon for text in texts], bool)


def _numbers(what: str, texts: Sequence[str], most: int, unset: str) -> I64:
    """Counts from 0 to `most`; what is not set is 0."""
    try:
        numbers = np.array(list(map(int, texts)), np.int64)
    except (ValueError, OverflowError):
        try:
            numbers = np.array([0 if text in (unset, "") else int(text) for text in texts], np.int64)
        except (ValueError, OverflowError):
            raise ValueError(f"the {what} {short(texts[0])} is not a whole number from 0 to {most}") from None
    if numbers.size and not 0 <= numbers.min() <= numbers.max() <= most:
        raise ValueError(f"the {what} {short(texts[0])} is not a whole number from 0 to {most}")
    return numbers


def _ports(texts: Sequence[str] | None, with_ports: Any) -> I64:
    """Ports, 0 where the protocol has none."""
    if texts is None:
        return np.zeros(len(with_ports), np.int64)
    try:
        ports = np.array(list(map(int, texts)), np.int64)
    except (ValueError, OverflowError):
        try:
            ports = np.array([int(text) if has else 0 for text, has in zip(texts, with_ports, strict=True)], np.int64)
        except (ValueError, OverflowError):
            raise ValueError(f"the port {short(texts[0])} is not a number from 0 to 65535") from None
    ports[~with_ports] = 0
    if ports.size and not 0 <= ports.min() <= ports.max() <= 0xFFFF:
        raise ValueError(f"the port {short(texts[0])} is not a number from 0 to 65535")
    return ports
