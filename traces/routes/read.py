"""Reading a routing table of any kind: what the file is, its content tells, whatever its name and packing."""

import os
import re
from collections.abc import Callable, Iterable

from traces.content import CHUNK, open_content, read_some, refuse_pipe, text_lines
from traces.mrt import looks_like_mrt
from traces.routes import listings, text, vty
from traces.routes.mrt_table import read_mrt_table
from traces.routes.table import Collector, RouteTable

Reader = Callable[[Iterable[tuple[int, str]], Collector], None]

_VTY_LINE = re.compile(r"[A-Za-z](\[\d+\])?[> ][* A-Za-z]\s*[\da-fA-F.:]+/\d+\s+(\[\d+/\d+\]|is directly|directly)")
_IP_WORDS = {"via", "dev", "proto", "scope", "nhid", "metric", "nexthop", "table"}


def read_routes(path: str | os.PathLike[str], *, family: int = 4, peer: str | None = None) -> RouteTable:
    """Read the routes of one family (4 or 6).

    Known: lines of `PREFIX [NEXTHOP]`, pyasn's `.dat`, `ip route show` and `ip -6 route`, `route -n`, `show ip route` of FRR and
    Quagga, MRT TABLE_DUMP and TABLE_DUMP_V2 (needs the extra `mrt`); plain, or packed with gzip, xz or bzip2. Of a file with the
    tables of many peers, `peer` (an address) names one, by default that with the most routes. Host bits are masked; of several
    routes for a prefix the last counts, or that with the lowest metric; what is left out is counted by reason (`notes`).
    ValueError says in one sentence what is wrong: file, line or record with its offset, cure.
    """
    out = Collector(path, family)
    refuse_pipe(path)
    with open_content(path) as stream:
        start = b""
        while len(start) < CHUNK:
            more = read_some(stream, out.where, CHUNK - len(start))
            if not more:
                break
            start += more
        if looks_like_mrt(start):
            return out.table(read_mrt_table(path, out, peer))
        if peer is not None:
            raise ValueError(f"{out.where} holds no peers, so there is no peer {peer} in it; leave out the peer")
        form, reader = recognise(start)
        reader(text_lines(stream, out.where, start), out)
    return out.table(form)


def recognise(start: bytes) -> tuple[str, Reader]:
    """What kind of text a file holds, by its first megabyte, and the reader for it."""
    begin = start.decode(errors="replace").replace("\r", "")
    if begin.startswith(text.PYASN_BEGINS):
        return text.PYASN, text.read_words
    lines = [line for line in begin.split("\n")[:1000] if line.strip() and line.lstrip()[0] not in "#;"]
    if not lines:
        return text.FORM, text.read_words
    words = lines[0].split()
    if words[0] == "Kernel" and len(lines) > 1:
        words = lines[1].split()
    if words[0] == "Destination" and len(words) > 2:
        return (listings.ROUTE_N if "Genmask" in words else listings.ROUTE_6N), listings.read_route_n
    if words[0] == "Codes:" or any(_VTY_LINE.match(line) for line in lines[:20]):
        return vty.FORM, vty.read_show_route
    continued = len(lines) > 1 and lines[1][0].isspace() and lines[1].split()[0] == "nexthop"
    if words[0] in listings.TYPES or continued or (len(words) > 2 and _IP_WORDS & set(words[1:])):
        return listings.IP_ROUTE, listings.read_ip_route
    return text.FORM, text.read_words
