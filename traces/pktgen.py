"""The kernel's packet generator: uniform choice among concurrent flows, each renewed after flow_length + 1 packets.

Source: net/core/pktgen.c, version 2.68 (Linux 2.6.20), mod_cur_headers, with IPDST_RND, constant ports and source address, and
clone_skb 0 (every packet is built afresh). Every packet picks a flow at random; a flow counts its packets from 0
to flow_length and then takes a new random destination in [min, max), redrawn while it is loopback, multicast, class E or
zero-net. Here one draw is spread over the addresses that are left, which is the same distribution without the loop.

Added: counts that start spread over a flow's life ("staggered"), so that flows are renewed at an even rate from the first
packet on; the kernel's own start, all counts 0 ("synchronous"), makes the rate of new flows oscillate for dozens of seconds.
And an end-of-flow mark on the last packet of a flow, which public versions do not have.
Left out: the cap of 65,536 flows, other fields that can vary, and the jitter of a real sender: packets are evenly spaced.
"""

from typing import Any, NamedTuple

import numpy as np

from models.flow import END_MARK, PROTO_UDP, PacketBatch, pack_ipv4
from models.kernel import I64, i64, kernel
from traces.addresses import format_address, mask, parse_address, parse_prefix
from traces.source import Source, check_words

PORT = 9
"""UDP source and destination port (discard)."""

INVALID = ((0, 8), (0x7F000000, 8), (0xE0000000, 3))
"""(network, length) that the generator never sends to: zero-net, loopback, multicast with class E."""

MAX_FLOWS = 1 << 26
DRAWS = 1 << 13
MICRO = 1_000_000
NANOSECONDS_MICRO = 1_000_000_000 * MICRO

# Fields of PktgenState.config
FLOW_LENGTH, STEP, STEP_REST, RATE_MICRO, MARK, LENGTH, ADDRESSES = 0, 1, 2, 3, 4, 5, 6
CONFIG_SIZE = 7
# Fields of PktgenState.var
TIME, REST, DRAWN, PACKETS, RENEWALS = 0, 1, 2, 3, 4
VAR_SIZE = 5


class PktgenState(NamedTuple):
    """State of one sender."""

    flow: I64  # int64[flows], packets sent of the flow's present life << 32 | its destination
    draws: I64  # int64[DRAWS], 64 random bits a packet: 32 for the choice of the flow, 32 for a new destination
    allowed: I64  # int64[ranges, 2], first address of each range that may be sent to, and how many lie in the ranges before it
    config: I64  # int64[CONFIG_SIZE], constants of the sender
    header: I64  # int64[4], flow key of every packet; the destination word is not used
    var: I64  # int64[VAR_SIZE], time of the next packet ns, its remainder, draws used, packets sent, flows begun


@kernel
def destination(allowed: I64, addresses: int, draw: int) -> int:
    """The address for a draw of 32 bits, even over all that may be sent to (a remainder would favour the first of a wide range)."""
    # draw * addresses >> 32 in two halves, for the product would not fit 63 bits.
    rank = (draw * (addresses >> 16) + ((draw * (addresses & 0xFFFF)) >> 16)) >> 16
    at = allowed.shape[0] - 1
    while at > 0 and allowed[at, 1] > rank:
        at -= 1
    return i64(allowed[at, 0] + rank - allowed[at, 1])


@kernel
def generate(state: PktgenState, batch: PacketBatch, start: int) -> int:
    """Write packets from row `start` on until the batch is full or the draws are used up; returns the rows then filled."""
    flows = state.flow.size
    power_of_two = flows & (flows - 1) == 0
    flow_length = state.config[FLOW_LENGTH]
    step, step_rest, rate = state.config[STEP], state.config[STEP_REST], state.config[RATE_MICRO]
    mark, length, addresses = state.config[MARK], state.config[LENGTH], state.config[ADDRESSES]
    source, ports, protocol = state.header[0], state.header[2], state.header[3]
    time, rest, drawn = state.var[TIME], state.var[REST], state.var[DRAWN]
    renewals = 0
    packets = i64(min(batch.time.size - start, state.draws.size - drawn))
    for i in range(start, start + packets):
        draw = state.draws[drawn]
        drawn += 1
        f = (draw >> 32) & 0xFFFFFFFF
        f = f & (flows - 1) if power_of_two else f % flows  # the same number, without a division
        daddr = state.flow[f] & 0xFFFFFFFF
        count = state.flow[f] >> 32
        if count > flow_length:
            count = 0
        if count == 0:
            daddr = destination(state.allowed, addresses, draw & 0xFFFFFFFF)
            renewals += 1
        state.flow[f] = ((count + 1) << 32) | daddr
        batch.time[i] = time
        batch.key[i, 0] = source
        batch.key[i, 1] = daddr
        batch.key[i, 2] = ports
        batch.key[i, 3] = protocol
        batch.length[i] = length
        batch.flags[i] = mark if count == flow_length else 0
        time += step
        rest += step_rest
        if rest >= rate:
            rest -= rate
            time += 1
    state.var[TIME] = time
    state.var[REST] = rest
    state.var[DRAWN] = drawn
    state.var[PACKETS] += packets
    state.var[RENEWALS] += renewals
    return start + packets


def allowed_ranges(low: int, high: int) -> list[tuple[int, int]]:
    """What is left of [low, high) without the INVALID networks, as (first address, number of addresses)."""
    ranges = [(low, high)]
    for network, plen in INVALID:
        end = network + (1 << (32 - plen))
        ranges = [cut for a, b in ranges for cut in ((a, min(b, network)), (max(a, end), b)) if cut[0] < cut[1]]
    return [(a, b - a) for a, b in ranges]


def addresses_at(allowed: I64, rank: I64) -> I64:
    """The addresses of these ranks among all that may be sent to."""
    at = np.searchsorted(allowed[:, 1], rank, side="right") - 1
    addresses: I64 = allowed[at, 0] + rank - allowed[at, 1]
    return addresses


class Pktgen(Source):
    """One sender: an endless stream of evenly spaced UDP packets 9 -> 9 from a constant source address.

    `flows` concurrent flows of flow_length + 1 packets each; destinations are drawn from the prefix `destination`, its last
    address excluded as the generator's dst_max is (a /32 is a constant destination). Packet k arrives at
    start_ns + floor(k * 1e9 / rate_pps) ns, exactly, with the rate rounded to a millionth of a packet per second.
    `interface` is the input interface of the flow key; two senders have different source addresses and interfaces.
    The generator `rng` must be this sender's own. ValueError for a value that cannot work.
    """

    def __init__(
        self,
        *,
        flows: int = 65536,
        flow_length: int = 40,
        rate_pps: float = 500_000.0,
        destination: str = "10.0.0.0/8",
        source: str = "192.168.1.1",
        interface: int = 1,
        start: str = "staggered",
        end_mark: bool = False,
        packet_bytes: int = 60,
        rng: np.random.Generator,
        start_ns: int = 0,
    ) -> None:
        if not 1 <= flows <= MAX_FLOWS:
            raise ValueError(f"flows must be from 1 to {MAX_FLOWS}, got {flows}")
        if not 0 <= flow_length < 1 << 30:
            raise ValueError(f"flow_length must be from 0 to {(1 << 30) - 1}, got {flow_length}")
        # Written so that NaN is refused too.
        if not 1 / MICRO <= rate_pps <= 1e9:
            raise ValueError(f"the rate must be above 0 and at most 1e9 packets per second, got {rate_pps}")
        if start not in ("staggered", "synchronous"):
            raise ValueError(f"start must be 'staggered' or 'synchronous', got {start!r}")
        if not 0 <= interface <= 0xFFFF:
            raise ValueError(f"interface must be from 0 to 65535, got {interface}")
        if not 42 <= packet_bytes <= 65535:
            raise ValueError(f"packet_bytes must be from 42 (Ethernet, IPv4 and UDP headers) to 65535, got {packet_bytes}")
        self._described: dict[str, Any] = {
            "source": "pktgen",
            "flows": flows,
            "flow_length": flow_length,
            "rate_pps": float(rate_pps),
            "destination": destination,
            "source_address": source,
            "interface": interface,
            "start": start,
            "end_mark": end_mark,
            "packet_bytes": packet_bytes,
        }
        self._rng = rng
        allowed, addresses = _allowed(destination)
        rate_micro = round(rate_pps * MICRO)
        config = np.zeros(CONFIG_SIZE, np.int64)
        config[FLOW_LENGTH] = flow_length
        config[STEP], config[STEP_REST] = divmod(NANOSECONDS_MICRO, rate_micro)
        config[RATE_MICRO] = rate_micro
        config[MARK] = END_MARK if end_mark else 0
        config[LENGTH] = packet_bytes
        config[ADDRESSES] = addresses
        var = np.zeros(VAR_SIZE, np.int64)
        var[TIME] = start_ns
        var[DRAWN] = DRAWS
        header = pack_ipv4(parse_address(source), 0, PORT, PORT, PROTO_UDP, 0, interface)
        flow = np.zeros(flows, np.int64)
        self.state = PktgenState(flow, np.zeros(DRAWS, np.int64), allowed, config, np.array(header, np.int64), var)
        if start == "staggered":
            count = rng.integers(0, flow_length + 1, flows)
            rank = rng.integers(0, addresses, flows)
            flow[:] = (count << 32) | addresses_at(allowed, rank)

    def fill(self, batch: PacketBatch) -> int:
        """Fill the batch; a generator never ends."""
        check_words(self, batch)
        filled = 0
        while filled < batch.time.size:
            if self.state.var[DRAWN] == DRAWS:
                self.state.draws[:] = self._rng.integers(-(1 << 63), 1 << 63, DRAWS)
                self.state.var[DRAWN] = 0
            filled = int(generate(self.state, batch, filled))
        batch.packets[0] = filled
        return filled

    @property
    def packets(self) -> int:
        """Packets sent so far."""
        return int(self.state.var[PACKETS])

    @property
    def renewals(self) -> int:
        """Flows begun so far; those that a staggered start put in the middle of their life are not counted."""
        return int(self.state.var[RENEWALS])

    def describe(self) -> dict[str, Any]:
        """Parameters of the sender."""
        return dict(self._described)


def _allowed(destination: str) -> tuple[I64, int]:
    """The ranges a destination prefix leaves to send to, as PktgenState.allowed, and the number of addresses in them."""
    network, plen = parse_prefix(destination)
    last = network | (~mask(plen) & 0xFFFFFFFF)
    # The generator's [min, max), unless min equals max: then min is the constant destination.
    ranges = allowed_ranges(network, max(last, network + 1))
    if not ranges:
        raise ValueError(
            f"no packet can be sent to {destination}: it lies within zero-net, loopback, multicast or class E; "
            f"use another range such as {format_address(10 << 24)}/8"
        )
    table = np.zeros((len(ranges), 2), np.int64)
    before = 0
    for i, (first, addresses) in enumerate(ranges):
        table[i] = first, before
        before += addresses
    return table, before
