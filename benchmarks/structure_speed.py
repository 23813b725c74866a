"""How fast the host runs a structure's own work: packets per second of `forward`, unpriced and with the log on.

    python benchmarks/structure_speed.py [STRUCTURE[,key=value]]... [--flow-length N] [--packets N]

Traffic as from two packet generators of 65,536 concurrent flows each, in batches of 300 at 520 thousand packets a second and CPU.
The structure is filled first. Every timed run asserts what it counted: each packet answered with its route, hits and slow path
add up, the slow path's share is near that of new flows.
"""

import argparse
import time

import numpy as np

from models.access import AccessLog, begin_batch, empty, make_log
from models.flow import DST, PROTO, SRC, PacketBatch, make_batch, pack_ipv4
from models.interface import NEED_COLLECT, NEED_LOG, NEED_POOL, Context, FlowCache, World, make_params, structure_class
from models.kernel import NIL
from models.rcu import Rcu
from models.simulated_memory import SimulatedMemory

FLOWS, BATCH, CPUS, KPPS = 65_536, 300, 2, 520
LOG_ROOM = 1 << 17


class Flows:
    """Destinations of one generator: uniform choice among the flows, each renewed after flow_length + 1 packets."""

    def __init__(self, cpu: int, flow_length: int, seed: int) -> None:
        self.cpu, self.flow_length = cpu, flow_length
        self.rng = np.random.default_rng([seed, cpu])
        self.sent = self.rng.integers(flow_length + 1, size=FLOWS)

    def batches(self, count: int) -> list[PacketBatch]:
        """`count` batches of packets, the next ones in order."""
        packets = count * BATCH
        flow = self.rng.integers(FLOWS, size=packets)
        order = np.argsort(flow, kind="stable")
        sizes = np.bincount(flow, minlength=FLOWS)
        rank = np.empty(packets, np.int64)
        rank[order] = np.arange(packets) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        incarnation = (self.sent[flow] + rank) // (self.flow_length + 1)
        self.sent += sizes
        mixed = (flow * 0x9E3779B1 + incarnation * 0x85EBCA77 + self.cpu * 0x1B873593) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
        destination = (10 << 24) | (mixed >> 8)
        _, _, ports, proto = pack_ipv4(0, 0, 9, 9, iif=self.cpu + 1)
        made = []
        for i in range(count):
            batch = make_batch(BATCH)
            batch.packets[0] = BATCH
            part = destination[i * BATCH : (i + 1) * BATCH]
            batch.key[:] = (0xC0A80001, 0, ports, proto)
            batch.key[:, DST] = part
            batch.route[:] = (part >> 14) & 1023
            batch.length[:] = 60
            made.append(batch)
        assert made[0].key[0, SRC] == 0xC0A80001
        assert made[0].key[0, PROTO] == proto
        return made


def step(cache: FlowCache, batch: PacketBatch, now: int, cpu: int, log: AccessLog, world: World) -> None:
    """One softirq round: a batch, then the frees that the round allows."""
    ctx = Context(now, cpu, log, world)
    begin_batch(log, BATCH)
    start, need = cache.forward(batch, 0, ctx)
    while need:
        if need == NEED_LOG:
            empty(log)
        elif need == NEED_POOL:
            cache.grow()
        elif need == NEED_COLLECT:
            while not cache.collect(ctx):
                empty(log)
        start, need = cache.forward(batch, start, ctx)
    left = world.rcu.allowance(cpu, now)
    while left > 0:
        freed = cache.reclaim(left, ctx)
        left -= freed
        if freed == 0:
            empty(log)


def run(cache: FlowCache, world: World, sources: list[Flows], packets: int, now: int, on: bool) -> tuple[int, float, int]:
    """Send packets through; the time then (ns), CPU seconds of the host and records written."""
    rounds = packets // (BATCH * CPUS)
    work = [source.batches(rounds) for source in sources]
    log = make_log(LOG_ROOM, BATCH, on=on)
    before = cache.counters()
    seconds, records, hits = 0.0, 0, 0
    for i in range(rounds):
        now += BATCH * 1_000_000 // KPPS
        for cpu in range(CPUS):
            empty(log)
            begun = time.process_time()
            step(cache, work[cpu][i], now, cpu, log, world)
            seconds += time.process_time() - begun
            records += int(log.head[0])
            hits += int((log.miss == NIL).sum())
            assert (log.answer == work[cpu][i].route).all(), "a packet got a wrong route"
    after = cache.counters()
    gained = {name: after[name] - before[name] for name in ("in_hit", "in_slow_tot", "errors")}
    assert sum(gained.values()) == rounds * BATCH * CPUS, f"{gained} do not add up to {rounds * BATCH * CPUS} packets"
    assert gained["in_hit"] == hits, f"{gained['in_hit']} hits counted, {hits} seen"
    share = gained["in_slow_tot"] / (rounds * BATCH * CPUS)
    packets = rounds * BATCH * CPUS
    print(
        f"    {'log on' if on else 'log off':8}{packets / seconds / 1e6:6.2f} million packets/s  slow {100 * share:5.2f} %"
        f"  entries {after['entries']:>8}  records/packet {records / packets:5.1f}"
    )
    return now, seconds, records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("structure", nargs="*", default=["rt_hash"], help="name, or name,key=value,...")
    parser.add_argument("--flow-length", type=int, nargs="+", default=[40, 4])
    parser.add_argument("--packets", type=int, default=1_200_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for text in given.structure:
        name, *settings = text.split(",")
        values = {key: (float(value) if "." in value else int(value)) for key, value in (item.split("=") for item in settings)}
        cls = structure_class(name)
        for flow_length in given.flow_length:
            world = World(SimulatedMemory(), Rcu(CPUS), np.random.default_rng(given.seed), CPUS)
            cache = cls(make_params(cls, values), world)
            print(f"{text}, flow length {flow_length}")
            fill = [Flows(cpu, 4, given.seed) for cpu in range(CPUS)]
            now, _, _ = run(cache, world, fill, 1_500_000, 0, on=False)
            sources = [Flows(cpu, flow_length, given.seed + 1) for cpu in range(CPUS)]
            now, _, _ = run(cache, world, sources, given.packets, now, on=False)
            now, _, _ = run(cache, world, sources, given.packets, now, on=False)
            run(cache, world, sources, given.packets, now, on=True)


if __name__ == "__main__":
    main()
