"""`dstlab routes`: what a routing table, or a file of its changes, holds and how it was read."""

from __future__ import annotations

import click
import numpy as np

from traces.churn import WITHDRAWN, Churn, holds_updates, read_updates
from traces.routes import RouteTable, read_routes
from traces.routes.survey import survey

MOST_HOPS = 10


def routes_command(path: str, *, family: int, peer: str | None) -> None:
    """Print what a table or a file of updates holds. ValueError for what cannot be read."""
    if holds_updates(path):
        click.echo(churn_text(path, read_updates(path, family=family, peer=peer)))
    else:
        click.echo(table_text(path, read_routes(path, family=family, peer=peer)))


def table_text(path: str, table: RouteTable) -> str:
    """A table: what it is, notes, lengths, next hops, and the trie that Linux 2.6.20 would make of it."""
    found = survey(table)
    total = table.plen.size
    inside = sum(found.nested_by_length.values())
    lines = [
        f"{path}: {table.form}, IPv{table.family}",
        f"{total:,} prefixes, {len(found.by_nexthop):,} next hops; {inside:,} prefixes ({inside / total:.1%}) lie inside another",
        *(f"  {note}" for note in table.notes()),
        "",
        "length   prefixes    share  inside another",
        *(
            f"   /{length:<3} {count:10,} {count / total:8.2%} {found.nested_by_length[length]:15,}"
            for length, count in found.by_length.items()
        ),
        "",
        f"next hops by prefixes{f', the first {MOST_HOPS}' if len(found.by_nexthop) > MOST_HOPS else ''}",
        *(f"  {name:20} {count:10,} {count / total:8.2%}" for name, count in found.by_nexthop[:MOST_HOPS]),
    ]
    if table.family == 4:
        lines += ["", "as LC-trie (the figures of /proc/net/fib_triestat, Linux 2.6.20)", trie_text(table)]
    return "\n".join(lines)


def trie_text(table: RouteTable) -> str:
    """The figures of /proc/net/fib_triestat for an IPv4 table."""
    from models.fib_trie import FibTrie
    from models.simulated_memory import SimulatedMemory

    fib = FibTrie(SimulatedMemory(), nexthops=len(table.nexthops))
    fib.load(table.prefix, table.plen, np.arange(table.plen.size), table.nexthop)
    return fib.trie.triestat_text()


def churn_text(path: str, churn: Churn) -> str:
    """Changes of routes: how many, when, of what kind."""
    total = churn.plen.size
    seconds = churn.span_ns / 1e9
    gone = int((churn.nexthop == WITHDRAWN).sum())
    prefix = churn.prefix if churn.family == 6 else churn.prefix[:, None]
    distinct = np.unique(np.column_stack([prefix, churn.plen]), axis=0).shape[0] if total else 0
    lines = [
        f"{path}: MRT BGP4MP updates, IPv{churn.family}",
        f"{total:,} changes of {distinct:,} prefixes over {seconds:,.0f} s, {len(churn.nexthops):,} next hops; {gone:,} withdraw",
        *(f"  {note}" for note in churn.notes()),
    ]
    if total:
        _, each = np.unique(churn.time_ns // 1_000_000_000, return_counts=True)
        lines += [
            "",
            f"seconds with changes: {each.size:,}; changes in one of them: median {np.median(each):g}, at most {each.max():,}",
            "changes by minute: " + " ".join(map(str, np.bincount(churn.time_ns // 60_000_000_000).tolist())),
        ]
    return "\n".join(lines)
