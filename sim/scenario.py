"""A scenario: what is run, on which machine, with which traffic, and what it is compared with. One TOML file each.

Reading is strict: an unknown key, a wrong type or an impossible value is refused with its place and a suggestion.
A row may override any key of the sections it names; what a row does not say comes from the scenario.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Traffic(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Generated traffic. Rates are totals over all senders."""

    family: int = 4  # or 6: packets and routes of IPv6
    source: str = "pktgen"  # generated: pktgen, zipf, scan, flood, spoofed, collision, mixture; of `files`: capture, flow-records
    options: dict[str, Any] = {}  # of the kind of generated traffic, see sim/traffic_kinds.py; of flow records: columns, units
    parts: list[dict[str, Any]] = []  # of a mixture: share, source, flows, flow_length, options
    bursts: dict[str, Any] = {}  # generated traffic in bursts: on_s, off_s, drawn
    files: list[str] = []  # captures or flow records, read as one in time order; one input interface each
    inner: bool = False  # captures: the packets inside tunnels
    strict: bool = False  # captures: refuse damaged ones; otherwise they are read up to the damage
    as_captured: bool = False  # keep the times of the files; otherwise packets are sent evenly at offered_kpps
    speed: float = 1.0  # as captured, so many times as fast
    longest_gap_s: float | None = None  # as captured, longer gaps are shortened to this
    repeat: int = 1  # the files so many times, one after the other
    flows: int = 65536  # concurrent flows of each sender
    flow_length: int = 40  # the generator's flowlen: flow_length + 1 packets are sent per flow
    offered_kpps: float = 1000.0  # thousand packets per second, all senders together
    senders: int = 2  # one input interface and one CPU each
    destination: str = "10.0.0.0/8"
    start: str = "staggered"  # or "synchronous": all flows begin at packet 0
    end_mark: bool = False  # the last packet of a flow carries the generator's end mark
    packet_bytes: int = 60


class Box(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The forwarding box around the structure."""

    hz: int = 1000
    poll: int = 64  # packets of one poll (device weight)
    budget: int = 300  # packets of one softirq round
    rx_ring: int = 256
    interrupt_rate: int = 8000  # most interrupts a second of a port (e1000's InterruptThrottleRate); 0: no moderation
    tx_completion_cpu: str = "same"  # or "other": transmit completions run on the CPU that did not transmit
    resolve_path: bool = False  # every packet takes eth_header and neigh_resolve_output


class Fib(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The routing table behind the structure: a file, or so many prefixes generated from the seed; and its changes."""

    file: str | None = None
    kind: str = "spread"  # of a generated table: "spread" over 10.0.0.0/8, or "full", in the shape of a BGP table
    prefixes: int = 1000
    updates: str | None = None  # changes of routes: a BGP collector's updates, from the first packet on
    churn: float = 0.0  # generated changes, times those of one BGP peer of February 2007; 0: none
    peer: str | None = None  # whose table and updates to take of a collector's files; the busiest peer's if not said


class Measure(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Warm-up and measured window, simulated seconds."""

    fill_s: float = 20.0  # unpriced filling at the pace of short priced pilots, at most
    settle_s: float = 1.0  # priced, not counted
    window_s: float = 10.0  # priced and counted; extended to whole collection cycles
    window_limit_s: float = 60.0  # the longest extension
    series_s: float = 1.0  # interval of series.csv
    warm_up_s: float = 0.0  # replay: the first part of the trace that is priced and not counted
    pace_kpps: float = 0.0  # experiment fixed-rate: packets that reach the structure; 0: all that are offered


class Row(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One line of the result table."""

    name: str
    structure: str
    parameters: dict[str, Any] = {}  # of the structure
    traffic: dict[str, Any] = {}  # overrides of the scenario's sections
    box: dict[str, Any] = {}
    measure: dict[str, Any] = {}
    late: dict[str, float] = {}  # collection state late in a long run, see FlowCache.set_late
    published: str | None = None  # key of the published row
    roles: dict[str, str] = {}  # figure -> fitted | predicted | adjusted
    adjust: str | None = None  # name of a packet-path adjustment of the cost sheet


class Scenario(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A whole scenario file."""

    schema: int = 1
    name: str
    title: str = ""
    look: str = ""  # what a reader of the table should look at
    experiment: str = "forwarding"
    machine: str = "opteron-2218"
    costs: str = "linux-2.6.20"
    seed: int = 1
    published: str | None = None  # prefix of the published CSV files
    traffic: Traffic = Traffic()
    box: Box = Box()
    fib: Fib = Fib()
    measure: Measure = Measure()
    row: list[Row] = []
