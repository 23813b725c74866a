"""Routing tables: read from text, or generated from a seed for generated traffic.

The text form is one `PREFIX [NEXTHOP]` a line. Left out: `ip route` output, MRT dumps, metrics and IPv6.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from models.kernel import I64
from traces.addresses import format_address, mask, parse_prefix

DIRECT = "direct"
"""Next hop of a line that names none: the destination is on the link itself."""

LENGTH_SHARES = {8: 20, 9: 12, 10: 13, 11: 10, 12: 10, 13: 5, 14: 5, 15: 5, 16: 20}
"""Per cent of the generated prefixes by bits beyond those of the range they lie in (in 10.0.0.0/8: /16 to /24)."""

FIRST_NEXTHOP = 0xAC100001
"""172.16.0.1; generated next hops are numbered from here, inside 172.16.0.0/12."""
MAX_PREFIXES = 1 << 19


class RouteTable(NamedTuple):
    """Prefixes with their next hops; route i of a table is row i. No prefix stands twice."""

    prefix: I64  # int64[n], network address, host order
    plen: I64  # int64[n], prefix length, 0 to 32
    nexthop: I64  # int64[n], index into nexthops
    nexthops: list[str]  # distinct next hops: an address or a name, DIRECT where the file gives none
    duplicates: int  # lines of the file that a later line for the same prefix replaced

    def text(self, route: int) -> str:
        """Row `route` as it stands in a file."""
        prefix = f"{format_address(int(self.prefix[route]))}/{int(self.plen[route])}"
        return f"{prefix} {self.nexthops[int(self.nexthop[route])]}"


def read_routes(path: str | os.PathLike[str]) -> RouteTable:
    """Read `PREFIX [NEXTHOP]` lines; `#` starts a comment, blank lines are skipped, the last line for a prefix wins.

    PREFIX is `ADDRESS/LENGTH`, an address alone (a host route) or `default`; NEXTHOP is one word. ValueError names the file, the
    line and the cure.
    """
    where = os.fspath(path)
    found: dict[tuple[int, int], str] = {}
    duplicates = 0
    for number, line in enumerate(_lines(where), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 2:
            raise ValueError(
                f"{where}, line {number}: {len(words)} words, expected 'PREFIX [NEXTHOP]'; remove {' '.join(words[2:])!r}"
            )
        try:
            prefix = parse_prefix(words[0])
        except ValueError as error:
            raise ValueError(f"{where}, line {number}: {error}") from None
        duplicates += prefix in found
        found[prefix] = words[1] if len(words) == 2 else DIRECT
    if not found:
        raise ValueError(f"{where} holds no routes; write one 'PREFIX [NEXTHOP]' per line, for example '0.0.0.0/0 192.0.2.1'")
    return make_routes([(prefix, plen, nexthop) for (prefix, plen), nexthop in found.items()], duplicates)


def make_routes(routes: list[tuple[int, int, str]], duplicates: int = 0) -> RouteTable:
    """A table of (network, length, next hop), in the order given. The caller knows that prefixes are valid and distinct."""
    index: dict[str, int] = {}
    nexthop = [index.setdefault(name, len(index)) for _, _, name in routes]
    return RouteTable(
        prefix=np.array([prefix for prefix, _, _ in routes], np.int64),
        plen=np.array([plen for _, plen, _ in routes], np.int64),
        nexthop=np.array(nexthop, np.int64),
        nexthops=list(index),
        duplicates=duplicates,
    )


def default_routes(seed: int | np.random.Generator, prefixes: int = 1000, inside: str = "10.0.0.0/8") -> RouteTable:
    """`prefixes` distinct prefixes inside a range, by LENGTH_SHARES, and a default route last, each with a next hop of its own.

    Networks are drawn evenly, so prefixes may nest; of the addresses of a /8, a thousand prefixes cover about three quarters, the
    default route the rest, and every address outside (the senders' too). ValueError if the range has no room for so many.
    """
    if not 1 <= prefixes <= MAX_PREFIXES:
        raise ValueError(f"the number of prefixes must be from 1 to {MAX_PREFIXES}, got {prefixes}")
    network, plen = parse_prefix(inside)
    rng = np.random.default_rng(seed)
    beyond = np.array(list(LENGTH_SHARES))
    shares = np.array(list(LENGTH_SHARES.values())) / 100
    # Twice as many addresses as asked for, so that few draws repeat; a short range is used to its last bit.
    room = sum(1 << int(bits) for bits in np.unique(np.minimum(beyond, 32 - plen)))
    if prefixes * 2 > room:
        raise ValueError(
            f"{inside} has no room for {prefixes} generated prefixes; use a shorter prefix or at most {room // 2} of them"
        )
    chosen: dict[tuple[int, int], None] = {}
    while len(chosen) < prefixes:
        draws = prefixes - len(chosen)
        lengths = plen + np.minimum(rng.choice(beyond, draws, p=shares), 32 - plen)
        addresses = network | rng.integers(0, 1 << (32 - plen), draws)
        for address, length in zip(addresses.tolist(), lengths.tolist(), strict=True):
            chosen[address & mask(length), length] = None
    routes = [(address, length, format_address(FIRST_NEXTHOP + i)) for i, (address, length) in enumerate(chosen)]
    return make_routes([*routes, (0, 0, format_address(FIRST_NEXTHOP + prefixes))])


def _lines(where: str) -> list[str]:
    """The lines of a text file; ValueError says why there are none."""
    try:
        return Path(where).read_text("utf-8").splitlines()
    except FileNotFoundError:
        raise ValueError(f"there is no file {where}; check the name of the routing table") from None
    except IsADirectoryError:
        raise ValueError(f"{where} is a directory; give the routing table itself") from None
    except PermissionError:
        raise ValueError(f"{where} may not be read; change its permissions (chmod +r) or copy it") from None
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not text; a routing table has one 'PREFIX [NEXTHOP]' per line") from None
    except OSError as error:
        raise ValueError(f"{where} cannot be read: {error.strerror}") from None
