"""Churn: changes of routes in time, as one peer of a BGP collector sent them.

A collector's file (MRT BGP4MP and BGP4MP_ET, RFC 6396) holds the updates of many peers; a router has one best route for each
prefix, so one peer's updates stand for what its FIB saw. Only a change reaches a FIB: another next hop, a prefix that is new, one
that goes. An announcement that changes nothing but attributes is counted and left out. What the peer had announced before the file
begins is not known: the first update of a prefix counts as a change whatever it says.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from models.kernel import I64
from traces.addresses import BITS, format_address, format_either, from_words, parse_either, to_words
from traces.content import open_content, read_some, refuse_pipe
from traces.mrt import (
    BGP4MP,
    BGP4MP_ET,
    MP_REACH,
    MP_UNREACH,
    NEXT_HOP,
    Record,
    Undecodable,
    address_text,
    choose_peer,
    code,
    damaged,
    decode,
    looks_like_mrt,
    need_mrtparse,
    next_hop,
    records,
)
from traces.routes.table import NOTHING

WITHDRAWN = -1
MESSAGES = {1: 2, 4: 4, 8: 2, 9: 4}
"""Subtypes of BGP4MP with what a peer sent, and the bytes of an AS number in each (8 and 9: with add-path, RFC 8050)."""
STATE_CHANGES = {0: 2, 5: 4}
UPDATE = 2
LONGEST_MESSAGE = 65535 + 64


class Churn(NamedTuple):
    """Changes of routes in order of time."""

    time_ns: I64  # int64[n], ns after start_ns, never less than that of the change before
    prefix: Any  # int64[n], network address, host order; IPv6: uint32[n, 4], high word first
    plen: I64  # int64[n], prefix length
    nexthop: I64  # int64[n], index into nexthops, WITHDRAWN where the prefix goes
    nexthops: list[str]  # distinct next hops
    family: int = 4  # 4 or 6
    start_ns: int = 0  # time of the file's first record, ns since 1970; 0 for generated changes
    span_ns: int = 0  # from there to its last record, or the time that was asked for
    left_out: Mapping[str, int] = NOTHING  # what was not taken, by reason
    remarks: tuple[str, ...] = ()  # choices made while reading, for instance which peer

    def text(self, change: int) -> str:
        """Change `change` as `SECONDS PREFIX NEXTHOP`."""
        hop = int(self.nexthop[change])
        name = "withdrawn" if hop == WITHDRAWN else self.nexthops[hop]
        return f"{int(self.time_ns[change]) / 1e9:.6f} {self.prefix_text(change)} {name}"

    def prefix_text(self, change: int) -> str:
        """The prefix of a change."""
        if self.family == 4:
            return f"{format_address(int(self.prefix[change]))}/{int(self.plen[change])}"
        return f"{format_either(from_words(self.prefix[change : change + 1])[0], 6)}/{int(self.plen[change])}"

    def notes(self) -> list[str]:
        """What a user should know about how the file was read, one sentence each."""
        return [*self.remarks, *(f"{count:,} left out: {reason}" for reason, count in self.left_out.items())]


def make_churn(changes: list[tuple[int, int, int, str | None]], family: int = 4) -> Churn:
    """Churn of (time in ns, network, length, next hop or None for withdrawn), in order of time."""
    index: dict[str, int] = {}
    hops = [WITHDRAWN if hop is None else index.setdefault(hop, len(index)) for _, _, _, hop in changes]
    networks = [network for _, network, _, _ in changes]
    times = np.array([time for time, _, _, _ in changes], np.int64)
    return Churn(
        time_ns=times,
        prefix=to_words(networks) if family == 6 else np.array(networks, np.int64),
        plen=np.array([plen for _, _, plen, _ in changes], np.int64),
        nexthop=np.array(hops, np.int64),
        nexthops=list(index),
        family=family,
        span_ns=int(times[-1]) if times.size else 0,
    )


def holds_updates(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as an MRT dump of updates rather than of a table. ValueError where it cannot be opened."""
    refuse_pipe(path)
    with open_content(path) as stream:
        start = read_some(stream, os.fspath(path), 12)
    return looks_like_mrt(start) and int.from_bytes(start[4:6], "big") in (BGP4MP, BGP4MP_ET)


def read_updates(path: str | os.PathLike[str], *, family: int = 4, peer: str | None = None) -> Churn:
    """Read one peer's changes of one family's routes (4 or 6), plain or packed.

    `peer` (an address) names the peer, by default that with the most UPDATE messages of the family. Times that go back are held
    at the latest before and counted. ValueError: no such peer (with those that there are), damage with record and offset.
    """
    where = os.fspath(path)
    if family not in BITS:
        raise ValueError(f"routes are of family 4 or 6, got {family}")
    refuse_pipe(path)
    with open_content(path) as stream:
        if not looks_like_mrt(read_some(stream, where, 12)):
            raise ValueError(f"{where} is no MRT dump; changes of routes are read from a collector's BGP4MP updates")
    mrtparse = need_mrtparse(where)
    left_out: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for record, name, kind in _messages(where, left_out):
        if kind == UPDATE:
            others[name] += 1
            counts[name] += _may_hold(record, family)
    counts = +counts
    if not counts:
        held = f", only {sum(others.values()):,} of the other family" if others else "; is it a table?"
        raise ValueError(f"{where} holds no BGP updates of IPv{family} routes{held}")
    chosen, remark = choose_peer(where, dict(counts), peer, f"IPv{family} updates")
    del others[chosen]
    if others:
        left_out["updates of other peers"] = sum(others.values())
    reader = _Changes(where, family, left_out)
    start = None
    for record, name, kind in _messages(where, Counter()):
        start = record.time_ns if start is None else start
        reader.now = max(reader.now, record.time_ns - start)
        reader.back += record.time_ns - start < reader.now
        if name == chosen and kind == UPDATE:
            reader.take(mrtparse, record)
        elif name == chosen and kind:
            left_out["messages of the peer that are no updates"] += 1
        elif name == chosen:
            left_out["changes of the session's state (its routes stay)"] += 1
    found = make_churn(reader.changes, family)
    remarks = [remark, *reader.remarks]
    if reader.back:
        remarks.append(f"{reader.back:,} records earlier than one before them: held at its time")
    return found._replace(start_ns=start or 0, span_ns=reader.now, left_out=dict(left_out), remarks=tuple(remarks))


def _messages(where: str, left_out: Counter[str]) -> Iterator[tuple[Record, str, int]]:
    """(record, peer, type of BGP message or 0 for a change of state). ValueError for damage."""
    with open_content(where) as stream:
        for record in records(stream, where):
            message = record.subtype in MESSAGES
            if record.type != BGP4MP or not (message or record.subtype in STATE_CHANGES):
                left_out[f"records of type {record.type}, subtype {record.subtype}"] += 1
                continue
            body = record.body
            at = 2 * (MESSAGES if message else STATE_CHANGES)[record.subtype] + 2
            size = {1: 4, 2: 16}.get(int.from_bytes(body[at : at + 2], "big"), 0)
            need = at + 2 + 2 * size + (19 if message else 4)
            if not size or len(body) < need or len(body) > LONGEST_MESSAGE:
                raise damaged(where, record.number, record.offset, f"has {len(body):,} bytes, which no message of a peer has")
            peer = address_text(body[at + 2 : at + 2 + size])
            yield record, peer, body[need - 1] if message else 0


def _may_hold(record: Record, family: int) -> bool:
    """Whether an UPDATE is of a family, by its form: IPv4 prefixes stand outside the attributes, all others in MP_(UN)REACH."""
    body = record.body
    at = 2 * MESSAGES[record.subtype] + 2
    at += 2 + (32 if body[at + 1] == 2 else 8) + 19
    withdrawn = int.from_bytes(body[at : at + 2], "big")
    attributes = at + 2 + withdrawn
    end = attributes + 2 + int.from_bytes(body[attributes : attributes + 2], "big")
    return (withdrawn > 0 or end < len(body)) == (family == 4)


class _Changes:
    """What a peer's updates change, one after the other."""

    def __init__(self, where: str, family: int, left_out: Counter[str]) -> None:
        self.where, self.family, self.left_out = where, family, left_out
        self.changes: list[tuple[int, int, int, str | None]] = []
        self.remarks: list[str] = []
        self.now = self.back = 0
        self._state: dict[tuple[int, int], str | None] = {}

    def take(self, mrtparse: Any, record: Record) -> None:
        """Note what one UPDATE changes; one that cannot be decoded is counted."""
        try:
            message = decode(mrtparse, BGP4MP, record.subtype, record.body)["bgp_message"]
            gone, come, hop = self._routes(message)
        except (Undecodable, KeyError, TypeError, ValueError) as error:
            reason = "updates that mrtparse cannot decode"
            if not self.left_out[reason]:
                text = str(error) if isinstance(error, Undecodable) else type(error).__name__
                self.remarks.append(
                    f"the first that mrtparse cannot decode: record {record.number:,} at byte {record.offset:,} ({text})"
                )
            self.left_out[reason] += 1
            return
        announced = set(come)
        for prefix in gone:
            if prefix not in announced:  # RFC 4271, 4.3: announced in the same message counts
                self._change(prefix, None)
        if hop is None and come:
            self.left_out["announcements without a next hop"] += len(come)
            return
        for prefix in come:
            self._change(prefix, hop)

    def _change(self, prefix: tuple[int, int], hop: str | None) -> None:
        if prefix in self._state and self._state[prefix] == hop:
            self.left_out["withdrawals of what was withdrawn" if hop is None else "announcements of the next hop that was"] += 1
            return
        self._state[prefix] = hop
        self.changes.append((self.now, *prefix, hop))

    def _routes(self, message: dict[str, Any]) -> tuple[list[tuple[int, int]], list[tuple[int, int]], str | None]:
        """Prefixes withdrawn, prefixes announced, and the next hop of the latter."""
        attributes = message["path_attributes"]
        gone, come = list[tuple[int, int]](), list[tuple[int, int]]()
        if self.family == 4:
            gone += self._prefixes(message["withdrawn_routes"])
            come += self._prefixes(message["nlri"])
        elif message["withdrawn_routes"] or message["nlri"]:
            self.left_out["IPv4 routes"] += len(message["withdrawn_routes"]) + len(message["nlri"])
        reached = False
        for attribute in attributes:
            kind = code(attribute["type"])
            if kind not in (MP_REACH, MP_UNREACH):
                continue
            value = attribute["value"]
            family = {1: 4, 2: 6}.get(code(value["afi"]), 0)
            found = value.get("nlri" if kind == MP_REACH else "withdrawn_routes", [])
            if code(value["safi"]) != 1 or family != self.family:
                unicast = family and code(value["safi"]) == 1
                self.left_out[f"IPv{family} routes" if unicast else "routes of other address families"] += len(found)
            elif kind == MP_REACH:
                come += self._prefixes(found)
                reached = True
            else:
                gone += self._prefixes(found)
        if not reached and self.family == 4:
            attributes = [attribute for attribute in attributes if code(attribute["type"]) == NEXT_HOP]
        return gone, come, next_hop(attributes, self.family)

    def _prefixes(self, found: list[dict[str, Any]]) -> list[tuple[int, int]]:
        """(network, length) of the prefixes that mrtparse found, of the reader's family."""
        prefixes = []
        for nlri in found:
            family, address, plen = parse_either(f"{nlri['prefix']}/{nlri['length']}")
            if family != self.family:
                raise Undecodable(f"an IPv{family} prefix among those of IPv{self.family}")
            prefixes.append((address, plen))
        return prefixes
