"""The kernel's own table as its tools print it: `ip route show`, `ip -6 route`, `route -n` and `route -6 -n`.

A route through several next hops is taken with its first that is alive. Of several routes for a prefix the one with the lowest
metric counts, as in the kernel. Not forwarded by, so left out: routes of other tables than main, with a TOS, of the types local,
broadcast, anycast, multicast and throw, and what is marked dead.
"""

from collections.abc import Iterable, Iterator

from traces.addresses import parse_address
from traces.routes.table import DIRECT, Collector

IP_ROUTE = "ip route show"
ROUTE_N = "route -n"
ROUTE_6N = "route -6 -n"

REFUSING = ("unreachable", "prohibit", "blackhole")
LEFT_OUT = ("local", "broadcast", "anycast", "multicast", "throw", "nat")
TYPES = (*REFUSING, *LEFT_OUT, "unicast")


def read_ip_route(lines: Iterable[tuple[int, str]], out: Collector) -> None:
    """Collect the routes that iproute2 printed, with or without -o and -d. ValueError names the file, the line and the cure."""
    for number, words in _whole_routes(lines, out.where):
        kind = words.pop(0) if words[0] in TYPES else "unicast"
        if not words:
            raise ValueError(f"{out.where}, line {number}: {kind!r} without a prefix; this is no line of `ip route show`")
        first, *hops = _hops(words)
        if kind in LEFT_OUT:
            out.left_out[f"of type {kind}"] += 1
        elif _after(first, "table", "main") not in ("main", "254"):
            out.left_out["of other tables than main"] += 1
        elif "tos" in first or "dsfield" in first:
            out.left_out["with a TOS"] += 1
        else:
            alive = [hop for hop in hops or [first] if "dead" not in hop]
            if not alive:
                out.left_out["marked dead"] += 1
                continue
            if len(hops) > 1:
                out.left_out["further next hops of multipath routes"] += len(hops) - 1
            nexthop = kind if kind in REFUSING else _nexthop(alive[0])
            metric = _after(first, "metric", "0")
            try:
                if not metric.isdecimal():
                    raise ValueError(f"the metric {metric!r} is not a number")
                out.add_text(first[0], nexthop, int(metric[:12]))
            except ValueError as error:
                raise ValueError(f"{out.where}, line {number}: {error}") from None


def _whole_routes(lines: Iterable[tuple[int, str]], where: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each route with those of its `nexthop` lines."""
    start, words = 0, list[str]()
    for number, line in lines:
        found = line.replace("\\", " ").split()
        if not found or found[0][0] == "#":
            continue
        if line[0].isspace() and found[0] in ("nexthop", "cache"):
            if not words:
                raise ValueError(f"{where}, line {number}: {found[0]!r} belongs to a route, but none stands before it")
            words += found
        else:
            if words:
                yield start, words
            start, words = number, found
    if words:
        yield start, words


def _hops(words: list[str]) -> list[list[str]]:
    """The words before the first `nexthop`, then those of each."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == "nexthop" and parts[0]:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _after(words: list[str], keyword: str, default: str) -> str:
    """The word after a keyword."""
    for i in range(1, len(words) - 1):
        if words[i] == keyword:
            return words[i + 1]
    return default


def _nexthop(words: list[str]) -> str:
    """The gateway, else the interface; a link-local gateway means nothing without its interface."""
    padded = ["", *words]
    via, device = _after(padded, "via", ""), _after(padded, "dev", "")
    if via in ("inet", "inet6"):
        via = _after(padded, via, "")
    if not via:
        number = _after(padded, "nhid", "")
        return device or (f"nhid-{number}" if number else DIRECT)
    return f"{via}%{device}" if via.startswith("fe80:") and device else via


def read_route_n(lines: Iterable[tuple[int, str]], out: Collector) -> None:
    """Collect the routes that net-tools printed, numbers only. ValueError names the file, the line and the cure."""
    for number, line in lines:
        words = line.split()
        if not words or words[0] in ("Kernel", "Destination") or words[0][0] == "#":
            continue
        if len(words) not in (7, 8):
            raise ValueError(f"{out.where}, line {number}: {len(words)} columns, expected the 7 or 8 of `route -n`")
        try:
            if len(words) == 8:
                destination, gateway, genmask, flags, metric, _, _, device = words
                prefix = f"{destination}/{_plen(genmask)}"
            else:
                prefix, gateway, flags, metric, _, _, device = (word.replace("[", "").replace("]", "") for word in words)
            if len(words) == 7 and "n" in flags and device == "lo" and "!" not in flags:
                out.left_out["of type local"] += 1
            elif "!" in flags:
                if prefix not in ("::/0", "0.0.0.0/0") or "n" not in flags:
                    out.add_text(prefix, "unreachable", _metric(metric))
            elif "U" not in flags:
                out.left_out["not up"] += 1
            else:
                hop = device if gateway in ("0.0.0.0", "*", "::") else gateway
                out.add_text(prefix, f"{hop}%{device}" if hop.startswith("fe80:") else hop, _metric(metric))
        except ValueError as error:
            raise ValueError(f"{out.where}, line {number}: {error}") from None


def _plen(genmask: str) -> int:
    """Length of a netmask as a dotted quad."""
    mask = parse_address(genmask)
    plen = mask.bit_count()
    if mask != 0xFFFFFFFF << (32 - plen) & 0xFFFFFFFF:
        raise ValueError(f"{genmask!r} is no netmask: its ones are not all in front")
    return plen


def _metric(text: str) -> int:
    """A metric; -1, as unreachable routes have it, is the worst."""
    if not text.lstrip("-").isdecimal() or len(text) > 12:
        raise ValueError(f"the metric {text!r} is not a number")
    return int(text) % (1 << 32)
