"""`show ip route` and `show ipv6 route` of FRR and Quagga.

Taken is what the daemon put into the kernel: routes marked `>` with a next hop marked `*`. A route over several next hops goes
on over lines that begin with blanks; its first next hop with `*` is taken, which for a recursive route is the resolved one.
Of the tables of several VRFs the first is read.
"""

import re
from collections.abc import Iterable

from traces.routes.table import DIRECT, Collector

FORM = "show ip route"

ROUTE = re.compile(r"([A-Za-z])(?:\[\d+\])?([> ])([* A-Za-z])\s*(\d[\d.]*/\d+|[\da-fA-F:]*:[\da-fA-F:.]*/\d+)\s+(\S.*)", re.ASCII)
CONTINUED = re.compile(
    r"\s+([*a-z]?)\s*(?:\[\d+/\d+\])?\s*((?:via|is directly|directly|unreachable|blackhole|reject)\b.*)", re.ASCII
)
DISTANCE = re.compile(r"\[\d+/\d+\]\s*")
VRF = re.compile(r"(?:IPv[46] \w+ )?VRF (\S+?):?$")
PROMPT = re.compile(r"\S*[#>]\s*(show\b.*)?$")


def read_show_route(lines: Iterable[tuple[int, str]], out: Collector) -> None:
    """Collect the selected routes. ValueError names the file, the line and the cure."""
    header = False
    vrfs = 0
    route: tuple[int, str, bool] | None = None  # line, prefix, selected
    hops: list[tuple[bool, str]] = []
    for number, line in lines:
        if not line.strip():
            header = False
            continue
        if line.startswith("Codes:"):
            header = True
        found = ROUTE.match(line)
        if found is not None:
            header = False
            _take(route, hops, out, vrfs)
            route, hops = (number, found[4], found[2] == ">"), [(found[3] == "*", DISTANCE.sub("", found[5]))]
            continue
        more = None if header else CONTINUED.match(line)
        if more is not None and route is not None:
            hops.append((more[1] == "*", more[2]))
            continue
        if VRF.match(line):
            _take(route, hops, out, vrfs)
            route = None
            vrfs += 1
        elif not header and not PROMPT.match(line):
            raise ValueError(f"{out.where}, line {number}: {line.strip()[:60]!r} is no line of `show ip route`; remove it")
    _take(route, hops, out, vrfs)


def _take(route: tuple[int, str, bool] | None, hops: list[tuple[bool, str]], out: Collector, vrfs: int) -> None:
    """Hand over a route that is complete, or count why it is not taken."""
    if route is None:
        return
    number, prefix, selected = route
    installed = [text for mark, text in hops if mark]
    if vrfs > 1:
        out.left_out["of other VRFs than the first"] += 1
    elif not selected:
        out.left_out["not selected (no >)"] += 1
    elif not installed:
        out.left_out["selected but not in the kernel (no *)"] += 1
    else:
        if len(installed) > 1:
            out.left_out["further next hops of multipath routes"] += len(installed) - 1
        try:
            out.add_text(prefix, _nexthop(installed[0]))
        except ValueError as error:
            raise ValueError(f"{out.where}, line {number}: {error}") from None


def _nexthop(text: str) -> str:
    """The gateway, else the interface, else what the route does with a packet."""
    parts = [part.split() for part in text.split(",")]
    device = parts[1][0] if len(parts) > 1 and len(parts[1]) == 1 and ":" not in parts[1][0] else ""
    first = parts[0]
    if first[:1] == ["via"] and len(first) > 1:
        return f"{first[1]}%{device}" if first[1].startswith("fe80:") and device else first[1]
    if "directly" in first:
        return device or DIRECT
    return "blackhole" if any("blackhole" in part or "Null0" in part for part in first) else "unreachable"
