"""The routing table of one peer from an MRT dump: TABLE_DUMP and TABLE_DUMP_V2 (RFC 6396, add-path RFC 8050), unicast.

The file is read twice: to count each peer's routes, and to decode those of the chosen one. Routes with equal attributes are
decoded once.
"""

import os
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from traces.addresses import BITS
from traces.content import open_content
from traces.mrt import (
    BGP4MP,
    TABLE_DUMP,
    TABLE_DUMP_V2,
    Record,
    Undecodable,
    address_text,
    choose_peer,
    damaged,
    decode,
    need_mrtparse,
    next_hop,
    records,
)
from traces.routes.table import Collector

FORMS = {TABLE_DUMP: "MRT TABLE_DUMP", TABLE_DUMP_V2: "MRT TABLE_DUMP_V2"}
PEER_INDEX_TABLE = 1
UNICAST = {2: (4, False), 4: (6, False), 8: (4, True), 10: (6, True)}
"""Family and add-path of the subtypes of TABLE_DUMP_V2 that hold unicast routes."""
OTHER = {3: "IPv4 multicast", 5: "IPv6 multicast", 6: "of other address families", 9: "IPv4 multicast", 11: "IPv6 multicast"}


class Path(NamedTuple):
    """One peer's route of a record."""

    peer: str
    attributes: bytes


class Dump:
    """A pass over a dump: it knows the peers by their number."""

    def __init__(self, out: Collector) -> None:
        self.out = out
        self.peers: list[str] = []
        self.form = 0

    def routes(self, left_out: Counter[str]) -> Iterator[tuple[Record, bytes, int, list[Path]]]:
        """(record, prefix as its first bytes, length, paths) of the family asked for. ValueError for damage."""
        family = self.out.family
        with open_content(self.out.where) as stream:
            for record in records(stream, self.out.where):
                if record.type == TABLE_DUMP_V2 and record.subtype == PEER_INDEX_TABLE:
                    self._read_peers(record)
                elif record.type == TABLE_DUMP_V2 and UNICAST.get(record.subtype, (0, False))[0] == family:
                    yield (record, *self._entries(record))
                elif record.type == TABLE_DUMP and record.subtype in (1, 2):
                    if (record.subtype == 1) == (family == 4):
                        yield (record, *self._entry(record))
                    else:
                        left_out[f"IPv{10 - family} routes"] += 1
                elif record.type == TABLE_DUMP_V2 and record.subtype in UNICAST:
                    left_out[f"IPv{10 - family} routes"] += 1
                elif record.type == TABLE_DUMP_V2 and record.subtype in OTHER:
                    left_out[OTHER[record.subtype]] += 1
                else:
                    kind = "BGP updates" if record.type == BGP4MP else f"of type {record.type}, subtype {record.subtype}"
                    left_out[f"records that are no table: {kind}"] += 1
                    continue
                self.form = self.form or record.type

    def _fail(self, record: Record, what: str) -> ValueError:
        return damaged(self.out.where, record.number, record.offset, what)

    def _read_peers(self, record: Record) -> None:
        """PEER_INDEX_TABLE, RFC 6396 4.3.1."""
        try:
            (view,) = struct.unpack_from(">H", record.body, 4)
            (count,) = struct.unpack_from(">H", record.body, 6 + view)
            at, peers = 8 + view, list[str]()
            for _ in range(count):
                kind = record.body[at]
                size, as_size = 16 if kind & 1 else 4, 4 if kind & 2 else 2
                packed = record.body[at + 5 : at + 5 + size]
                peers.append(address_text(packed) if len(packed) == size else "")
                at += 5 + size + as_size
            if at > len(record.body):
                raise IndexError
        except (struct.error, IndexError):
            raise self._fail(record, "lists more peers than it has bytes for") from None
        self.peers = peers

    def _entries(self, record: Record) -> tuple[bytes, int, list[Path]]:
        """A RIB record, RFC 6396 4.3.2 and 4.3.4."""
        family, add_path = UNICAST[record.subtype]
        body, paths = record.body, list[Path]()
        plen = body[4] if len(body) > 4 else 256
        if plen > BITS[family]:
            raise self._fail(record, f"has no prefix of 0 to {BITS[family]} bits")
        at = 5 + (plen + 7) // 8
        prefix = body[5:at]
        try:
            (count,) = struct.unpack_from(">H", body, at)
            at += 2
            for _ in range(count):
                (number,) = struct.unpack_from(">H", body, at)
                at += 10 if add_path else 6
                (length,) = struct.unpack_from(">H", body, at)
                at += 2 + length
                if at > len(body) or number >= len(self.peers):
                    raise IndexError
                paths.append(Path(self.peers[number], body[at - length : at]))
        except (struct.error, IndexError):
            raise self._fail(record, "has an entry that goes beyond its end, or of a peer that is not listed") from None
        return prefix, plen, paths

    def _entry(self, record: Record) -> tuple[bytes, int, list[Path]]:
        """A TABLE_DUMP record, RFC 6396 4.2."""
        size, body = (4, record.body) if record.subtype == 1 else (16, record.body)
        if len(body) < 14 + 2 * size:
            raise self._fail(record, f"has {len(body)} bytes, fewer than a route takes")
        prefix, plen = body[4 : 4 + size], body[4 + size]
        packed, attributes = body[10 + size : 10 + 2 * size], body[14 + 2 * size :]
        if size == 16 and not any(packed[4:]):  # an IPv4 peer that announces IPv6 prefixes
            packed = packed[:4]
        (length,) = struct.unpack_from(">H", body, 12 + 2 * size)
        if plen > 8 * size or length > len(attributes):
            raise self._fail(record, f"has no prefix of 0 to {8 * size} bits, or attributes beyond its end")
        return prefix, plen, [Path(address_text(packed), attributes[:length])]


def read_mrt_table(path: str | os.PathLike[str], out: Collector, peer: str | None) -> str:
    """Collect one peer's routes; returns the form of the file. ValueError names record, byte offset and cure."""
    mrtparse = need_mrtparse(out.where)
    counts: Counter[str] = Counter()
    dump = Dump(out)
    for *_, paths in dump.routes(out.left_out):
        counts.update(list(dict.fromkeys(path.peer for path in paths)))
    if not counts:
        return _nothing(dump, out)
    chosen, remark = choose_peer(out.where, dict(counts), peer, "routes")
    out.remarks.append(remark)
    known: dict[bytes, str | None] = {}
    bad: tuple[Record, str] | None = None
    again = Dump(out)
    for record, prefix, plen, paths in again.routes(Counter()):
        own = [attributes for name, attributes in paths if name == chosen]
        if not own:
            continue
        if len(own) > 1:
            out.left_out["further paths of the peer to the same prefix"] += len(own) - 1
        if own[0] not in known:
            try:
                known[own[0]] = _next_hop(mrtparse, record.type, own[0], out.family)
            except Undecodable as error:
                bad = bad or (record, str(error))
                out.left_out["with attributes that mrtparse cannot decode"] += 1
                continue
        hop = known[own[0]]
        if hop is None:
            out.left_out["without a next hop"] += 1
            continue
        address = int.from_bytes(prefix, "big") << (out.bits - 8 * len(prefix))
        out.add(address, plen, hop)
    if bad:
        out.remarks.append(f"the first that mrtparse cannot decode: record {bad[0].number:,} at byte {bad[0].offset:,} ({bad[1]})")
    return FORMS[dump.form]


def _nothing(dump: Dump, out: Collector) -> str:
    """The form of a file without routes; ValueError where it is of another kind."""
    if out.left_out["records that are no table: BGP updates"]:
        raise ValueError(f"{out.where} holds BGP updates, no table; it can drive changes of routes (--updates), not be the table")
    return FORMS.get(dump.form, "MRT")


def _next_hop(mrtparse: Any, kind: int, attributes: bytes, family: int) -> str | None:
    """Decode the attributes of one route by way of the smallest record that can hold them."""
    size = BITS[family] // 8
    length = struct.pack(">H", len(attributes))
    if kind == TABLE_DUMP:
        body = bytes(4 + size + 6 + size + 2) + length + attributes
        data = decode(mrtparse, TABLE_DUMP, 1 if family == 4 else 2, body)
        return next_hop(data["path_attributes"], family)
    body = bytes(5) + struct.pack(">HHI", 1, 0, 0) + length + attributes
    data = decode(mrtparse, TABLE_DUMP_V2, 2 if family == 4 else 4, body)
    return next_hop(data["rib_entries"][0]["path_attributes"], family)
