"""MRT dumps (RFC 6396) record by record: framing, peers, and the attributes of one route or message.

A collector's file holds the routes of dozens of peers, and one peer is wanted. So records are framed here, which gives each its
place in the file and its peer at little cost, and only what belongs to the wanted peer is handed to mrtparse, which decodes BGP.
mrtparse is an optional extra.
"""

import io
import struct
from collections.abc import Iterator
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import IO, Any, NamedTuple

from traces.content import read_some

TABLE_DUMP, TABLE_DUMP_V2, BGP4MP, BGP4MP_ET = 12, 13, 16, 17
TYPES = (5, 9, 11, TABLE_DUMP, TABLE_DUMP_V2, BGP4MP, BGP4MP_ET, 32, 33, 48, 49)
HEADER = 12
LONGEST = 1 << 24
"""Bytes of a record; the largest real ones, a prefix with the paths of some hundred peers, have a few hundred thousand."""
NEXT_HOP, MP_REACH, MP_UNREACH = 3, 14, 15


class Record(NamedTuple):
    """One record of a dump."""

    number: int  # from 1
    offset: int  # of its first byte in the unpacked file
    time_ns: int  # since 1970
    type: int  # BGP4MP also for BGP4MP_ET, whose microseconds are in time_ns
    subtype: int
    body: bytes


class Undecodable(ValueError):
    """mrtparse could not decode it."""


def looks_like_mrt(start: bytes) -> bool:
    """Whether a file that begins so is an MRT dump: a header with a known type and a credible length."""
    if len(start) < HEADER:
        return False
    _, kind, subtype, length = struct.unpack_from(">IHHI", start)
    return kind in TYPES and subtype < 64 and length <= LONGEST


def records(stream: IO[bytes], where: str) -> Iterator[Record]:
    """The records of a dump. ValueError names record and byte offset where the file is damaged."""
    number, offset = 1, 0
    while True:
        header = read_some(stream, where, HEADER)
        if not header:
            return
        if len(header) < HEADER:
            raise damaged(where, number, offset, f"ends within the header, after {len(header)} of {HEADER} bytes")
        seconds, kind, subtype, length = struct.unpack(">IHHI", header)
        if kind not in TYPES or length > LONGEST:
            raise damaged(where, number, offset, f"has type {kind} and length {length:,}, which no record has")
        body = read_some(stream, where, length)
        if len(body) < length:
            raise damaged(where, number, offset, f"ends after {len(body):,} of {length:,} bytes")
        time_ns = seconds * 1_000_000_000
        if kind == BGP4MP_ET:
            if length < 4:
                raise damaged(where, number, offset, "has no room for its microseconds")
            time_ns += int.from_bytes(body[:4], "big") * 1000
            kind, body = BGP4MP, body[4:]
        yield Record(number, offset, time_ns, kind, subtype, body)
        number += 1
        offset += HEADER + length


def damaged(where: str, number: int, offset: int, what: str) -> ValueError:
    """The sentence for a damaged record."""
    return ValueError(f"{where}, record {number:,} at byte {offset:,}: {what}; the file is damaged, fetch it again")


def need_mrtparse(where: str) -> Any:
    """The module mrtparse. ValueError tells how to install it."""
    try:
        import mrtparse
    except ImportError:
        raise ValueError(f"{where} is an MRT dump, and these need mrtparse; install it with pip install 'dstlab[mrt]'") from None
    return mrtparse


def decode(mrtparse: Any, kind: int, subtype: int, body: bytes) -> dict[str, Any]:
    """The fields of a record as mrtparse names them. Undecodable says why there are none."""
    reader = mrtparse.Reader(io.BytesIO(struct.pack(">IHHI", 0, kind, subtype, len(body)) + body))
    try:
        entry = next(reader)
    except Exception as error:  # a damaged record surfaces as whatever Python raises inside mrtparse
        raise Undecodable(f"{type(error).__name__} in mrtparse") from None
    if entry.err:
        raise Undecodable(" ".join(str(entry.err_msg).split()))
    data: dict[str, Any] = entry.data
    return data


def code(field: Any) -> int:
    """The number of a field that mrtparse gives as {number: name}."""
    return int(next(iter(field)))


def next_hop(attributes: list[dict[str, Any]], family: int) -> str | None:
    """The next hop among the attributes of a route, None if they hold none."""
    found = {code(attribute["type"]): attribute.get("value") for attribute in attributes}
    reach = found.get(MP_REACH)
    if isinstance(reach, dict) and reach.get("next_hop") and (family == 6 or NEXT_HOP not in found):
        return str(reach["next_hop"][0])
    return None if family == 6 or found.get(NEXT_HOP) is None else str(found[NEXT_HOP])


def address_text(packed: bytes) -> str:
    """An address of 4 or 16 bytes as text."""
    return inet_ntop(AF_INET if len(packed) == 4 else AF_INET6, packed)


def parse_peer(text: str) -> str:
    """A peer's address in the form in which `address_text` writes it. ValueError for what is no address."""
    try:
        return address_text(inet_pton(AF_INET6 if ":" in text else AF_INET, text))
    except (OSError, ValueError):
        raise ValueError(f"a peer is given by its address, such as 192.0.2.1, got {text!r}") from None


def choose_peer(where: str, counts: dict[str, int], peer: str | None, what: str) -> tuple[str, str]:
    """The peer to read and a remark that says so; by default the one with the most.

    `counts`: by peer; of equals the first is taken. `what`: what was counted. ValueError for a peer that is not there, with
    those that are.
    """
    if peer is None:
        chosen = max(counts, key=lambda name: counts[name])
        how = f", the one with the most {what} of {len(counts)} peers" if len(counts) > 1 else ", the only one"
    else:
        chosen, how = parse_peer(peer), f" of {len(counts)} peers"
        if chosen not in counts:
            listed = ", ".join(f"{name} ({counts[name]:,})" for name in sorted(counts, key=lambda name: -counts[name]))
            raise ValueError(f"{where} holds no {what} of peer {peer}; its peers, with their {what}: {listed}")
    return chosen, f"peer {chosen}{how}: {counts[chosen]:,} {what}"
