"""Routing tables: read from files of many kinds, or generated from a seed.

table.py: what a table is. read.py: which reader a file needs; text.py, listings.py, vty.py: the readers. mrt_table.py: one peer's
table of a collector. generated.py, full.py: tables made from a seed, small ones and those of a full BGP router.
"""

from traces.routes.full import full_table
from traces.routes.generated import FIRST_NEXTHOP, LENGTH_SHARES, MAX_PREFIXES, default_routes
from traces.routes.read import read_routes
from traces.routes.table import DIRECT, RouteTable, make_routes

__all__ = [
    "DIRECT",
    "FIRST_NEXTHOP",
    "LENGTH_SHARES",
    "MAX_PREFIXES",
    "RouteTable",
    "default_routes",
    "full_table",
    "make_routes",
    "read_routes",
]
