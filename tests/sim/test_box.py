"""The box: no packet is lost from sight, time passes by what is billed, polls and rounds keep their limits."""

import msgspec
import numpy as np
import pytest
from golden.exact import small

from models.flow import pack_ipv4
from models.kernel import compiled
from models.reference import Perfect
from sim.account import COUNTED, WORST, Totals, bucket_floor
from sim.assemble import assemble
from sim.costs import UNIT
from sim.memory import DMA_LINE
from sim.scenario import Row
from sim.streams import stream
from traces.source import Source

SCENARIO = small()
ROWS = {row.name: row for row in SCENARIO.row}
MS = 1_000_000
STEP = (2 if compiled() else 1) * MS


class Given(Source):
    """A source of packets at given times, all of one flow or of one each."""

    def __init__(self, times, *, flows=1, interface=1):
        self.times, self.flows, self.interface, self.sent = list(times), flows, interface, 0

    def fill(self, batch):
        n = min(batch.time.size, len(self.times) - self.sent)
        for i in range(n):
            batch.time[i] = self.times[self.sent]
            batch.key[i] = pack_ipv4(0xC0A80101, (10 << 24) + self.sent % self.flows, 9, 9, iif=self.interface)
            batch.length[i] = 60
            batch.flags[i] = 0
            self.sent += 1
        batch.packets[0] = n
        return n


def box_of(name="perfect", sources=None, **box):
    scenario = msgspec.structs.replace(SCENARIO, box=msgspec.structs.replace(SCENARIO.box, **box))
    return assemble(scenario, ROWS[name], 7, sources=sources).box


def assert_conserved(box):
    """What was offered is processed, dropped or waits; what was processed hit, was slow or an error, by three separate counts."""
    totals, counters = box.totals(), box.structure.counters()
    assert totals.offered == totals.processed + totals.dropped + totals.queued
    assert totals.processed == totals.hits + totals.slow + totals.errors
    assert (totals.hits, totals.slow, totals.errors) == (counters["in_hit"], counters["in_slow_tot"], counters["errors"])
    assert totals.processed == box.ledger.total[COUNTED]
    assert totals.wrong == 0


@pytest.mark.parametrize("name", ROWS)
def test_no_packet_is_lost_from_sight_priced_paced_or_mixed(name):
    box, rng = box_of(name), stream(7, "test")
    before = box.totals()
    for phase in ("priced", "paced", "priced", "priced", "paced", "paced", "priced"):
        if phase == "priced":
            box.run(box.now + STEP)
        else:
            box.pace(box.now + STEP, 0.75, rng)
        assert_conserved(box)
        added = box.totals().minus(before)
        assert added.offered == added.processed + added.dropped + added.queued
        before = box.totals()
    sent = sum(int(source.state.var[3]) for source in box.sources)
    ahead = sum(int(cpu.port.chunk.packets[0] - cpu.port.state.var[2]) for cpu in box._cpus)
    assert box.totals().offered == sent - ahead
    box.structure.check()


@pytest.mark.parametrize("name", ["perfect", "lru"])
def test_every_record_is_touched_once_and_a_levels_misses_are_the_next_ones_accesses(name):
    """These structures write no range records: each record is one touch, found in L1, L2, memory or the other CPU's cache."""
    box = box_of(name)
    box.run(2 * STEP)
    touches = box.pricer.bill.touches.sum(axis=(0, 1))
    demand = int(touches[:8].sum())
    assert demand == box.pricer.priced_records
    assert min(touches[0:2].sum(), touches[2:4].sum(), touches[4:6].sum()) > 0
    assert touches[DMA_LINE] > 0


def flood():
    """Two senders, far more than the CPUs can do."""
    return [Given(range(0, 20 * MS, 5000), interface=1), Given(range(0, 20 * MS, 5000), interface=3)]


def test_the_clock_moves_on_by_what_is_billed():
    """Overloaded, both CPUs are never idle: their cycles are the time that has passed, to the last poll of each."""
    box = box_of("none", flood(), interrupt_rate=0)
    box.run(4 * STEP)
    busy = int(box.pricer.bill.cycles.sum()) * 1e9 / UNIT / 80e6
    passed = sum(cpu.free_at for cpu in box._cpus)
    assert passed >= 2 * box.now
    assert 0 <= busy - passed < 2  # less than a nanosecond waits on each CPU's clock


def test_a_lone_packet_is_in_the_box_for_as_long_as_its_poll_costs():
    box = box_of(sources=[Given([5000])], interrupt_rate=0)
    box.run(STEP)
    assert box.ended
    cycles = int(box.pricer.bill.cycles.sum())
    assert box.ledger.total[WORST] == cycles * 1_000_000_000 // (UNIT * 80_000_000)
    bucket = int(np.nonzero(box.ledger.latency)[0][0])
    assert bucket_floor(bucket) <= box.ledger.total[WORST] < bucket_floor(bucket + 1)


def test_the_card_holds_interrupts_back():
    """At 8,000 a second no two interrupts of a port are less than 125 us apart; a packet that comes between them waits."""
    box, begins = box_of(sources=[Given([200_000, 210_000, 600_000])], interrupt_rate=8000), []
    begin = box.pricer.begin_poll

    def spy(cpu, batch):
        begins.append((int(batch.time[0]), int(batch.packets[0])))
        return begin(cpu, batch)

    box.pricer.begin_poll = spy
    box.run(STEP)
    assert begins == [(200_000, 1), (210_000, 1), (600_000, 1)]
    assert box.ledger.total[WORST] > 325_000 - 210_000
    free = box_of(sources=[Given([200_000, 210_000, 600_000])], interrupt_rate=0)
    free.run(STEP)
    assert free.ledger.total[WORST] < 325_000 - 210_000


def test_a_burst_beyond_the_ring_is_dropped_and_costs_nothing():
    alone, burst = box_of(sources=[Given([0] * 63)]), box_of(sources=[Given([0] * 100)])
    for box in (alone, burst):
        box.run(STEP)
        assert box.ended
    assert burst.totals() == Totals(offered=100, dropped=37, processed=63, hits=62, slow=1)
    assert burst.pricer.bill.cycles.sum() == alone.pricer.bill.cycles.sum()


def test_polls_and_rounds_keep_their_limits():
    box, polls, rounds = box_of(sources=[Given([0] * 50)], poll=8, budget=20), [], [[]]
    begin = box.pricer.begin_poll

    def spy(cpu, batch):
        polls.append(int(batch.packets[0]))
        rounds[-1].append(polls[-1])
        return begin(cpu, batch)

    box.pricer.begin_poll = spy
    box.each_round = lambda now: rounds.append([])
    box.run(STEP)
    assert rounds[:3] == [[8, 8, 4], [8, 8, 4], [8, 2]]


def test_packets_come_out_in_the_order_in_which_they_came_in():
    box, seen = box_of(sources=[Given(range(0, 40 * 20_000, 20_000), flows=40)]), []
    begin = box.pricer.begin_poll

    def spy(cpu, batch):
        seen.extend(int(key) for key in batch.key[: int(batch.packets[0]), 1])
        return begin(cpu, batch)

    box.pricer.begin_poll = spy
    box.run(STEP)
    assert seen == [(10 << 24) + i for i in range(40)]


def test_pacing_drops_the_share_it_is_told_and_no_more():
    box = box_of()
    box.pace(60 * MS, 0.6, stream(1, "test"))
    totals = box.totals()
    deviation = (totals.offered * 0.6 * 0.4) ** 0.5
    assert abs(totals.dropped - 0.4 * totals.offered) < 5 * deviation
    assert totals.queued == 0
    box.pace(box.now + 10 * MS, 1.0, stream(1, "test"))
    assert box.totals().dropped == totals.dropped


def test_pacing_first_serves_what_waits_in_the_rings():
    box = box_of("none", flood())
    box.run(STEP)
    before = box.totals()
    assert before.queued > 0
    box.pace(box.now + MS, 0.0, stream(1, "test"))
    added = box.totals().minus(before)
    assert added.queued == -before.queued
    assert added.processed >= before.queued
    assert_conserved(box)


def test_a_trace_ends():
    sources = [Given(range(0, 90_000, 1000), flows=9), Given([], interface=3)]
    box = box_of(sources=sources)
    box.run(10 * STEP)
    assert box.ended
    assert box.now == 10 * STEP
    assert box.totals().processed + box.totals().dropped == 90
    assert_conserved(box)
    paced = box_of(sources=[Given(range(0, 90_000, 1000), flows=9)])
    paced.pace(10 * STEP, 1.0, stream(1, "test"))
    assert paced.totals() == Totals(offered=90, processed=90, hits=81, slow=9)
    assert paced.now == 10 * STEP


def test_latencies_and_stalls_of_the_warm_up_are_forgotten_and_counters_are_not():
    box = box_of("none", flood())
    box.run(STEP)
    totals = box.totals()
    assert box.longest_stall > 0
    box.reset_latency()
    assert box.ledger.latency.sum() == box.ledger.total[WORST] == box.longest_stall == 0
    assert box.totals() == totals


class Liar(Perfect):
    """Remembers another route than it was given."""

    name = "liar"

    def forward(self, batch, start, ctx):
        stop, need = super().forward(batch, start, ctx)
        ctx.log.answer[start:stop] += 1
        return stop, need


def test_wrong_routes_are_counted(monkeypatch):
    monkeypatch.setattr("sim.assemble.find_structure", lambda name: Liar)
    box = assemble(SCENARIO, Row(name="liar", structure="liar"), 7).box
    box.run(STEP)
    totals = box.totals()
    assert totals.wrong == totals.processed > 0


def test_completions_on_the_other_cpu_move_lines_between_the_caches():
    def transfers(where):
        box = box_of(tx_completion_cpu=where)
        box.run(4 * STEP)
        return int(box.pricer.bill.touches[..., 6:8].sum()) / box.totals().processed

    assert transfers("other") > 2 * transfers("same") + 0.5
