"""Filling: the pace is that of the pilots, it ends when it should, and late values arrive when they should."""

import msgspec
import pytest
from golden.exact import small

from models.kernel import compiled
from sim import warmup
from sim.assemble import assemble
from sim.streams import stream
from sim.warmup import SECOND, fill, pilot

SCENARIO = small()
ROWS = {row.name: row for row in SCENARIO.row}


@pytest.fixture(autouse=True)
def short_pilots(monkeypatch):
    """A tenth of the length: the box is slow, and so are interpreted kernels."""
    monkeypatch.setattr(warmup, "PILOT_NS", 4_000_000)
    monkeypatch.setattr(warmup, "PILOT_LEAD_NS", 1_000_000)
    monkeypatch.setattr(warmup, "STEP_NS", 5_000_000)


def filled(name, fill_s, *, late=None, settle_s=0.01, traffic=None):
    row = ROWS[name]
    row = msgspec.structs.replace(row, traffic=row.traffic | (traffic or {}))
    box = assemble(SCENARIO, row, 7).box
    measure = msgspec.structs.replace(SCENARIO.measure, fill_s=fill_s, settle_s=settle_s)
    set_late, calls = box.structure.set_late, []
    box.structure.set_late = lambda **values: (calls.append((box.now, values)), set_late(**values))
    phases = []
    found = fill(box, measure, late or {}, stream(7, name, "thinning"), lambda phase, done: phases.append((phase, done)))
    return box, found, calls, phases


def test_a_pilot_tells_which_share_gets_through():
    box = assemble(SCENARIO, ROWS["perfect"], 7).box
    assert pilot(box) > 0.98
    slow = assemble(SCENARIO, msgspec.structs.replace(ROWS["none"], traffic={"offered_kpps": 400.0}), 7).box
    before = slow.totals()
    share = pilot(slow)
    added = slow.totals().minus(before)
    assert share < 0.5
    assert share == pytest.approx(added.processed / (added.offered - added.queued), rel=0.2)


@pytest.mark.skipif(not compiled(), reason="too slow interpreted")
def test_filling_goes_at_the_pace_of_the_pilots():
    """What the pilots find, over the rate that is offered: none takes twice as many cycles as there are."""
    box, found, _, _ = filled("none", 0.3, traffic={"offered_kpps": 400.0})
    paced = box._paced
    assert (paced.offered - paced.dropped) / paced.offered == pytest.approx(found.keep, rel=0.1)
    assert found.keep < 0.5


def test_a_pilot_after_filling_from_a_slow_source_sees_packets():
    """Filling takes 1,200 packets of a sender at once, longer than a pilot at 45 thousand a second."""
    box = assemble(SCENARIO, ROWS["perfect"], 7).box
    box.pace(5_000_000, 1.0, stream(7, "test"))
    before = box.totals()
    assert pilot(box) > 0.95
    assert box.totals().minus(before).offered > 200


def test_filling_ends_at_the_latest_after_fill_s():
    box, found, _, phases = filled("perfect", 0.03, traffic={"offered_kpps": 800.0, "flow_length": 100})
    assert 0.03 <= found.seconds < 0.05
    assert found.cycles == 0
    assert phases
    assert all(phase == "filling" and 0 <= done <= 1 for phase, done in phases)
    assert box.now == round(found.seconds * SECOND)


def test_no_filling_is_one_pilot():
    box, found, calls, _ = filled("rt_hash", 0.0, late={"expire_s": 0.03})
    assert found.seconds == pytest.approx(0.005)
    assert found.cycles == 0
    assert [values for _, values in calls] == [{"expire_s": 0.03}]
    assert len(box.structure) > 0


def test_late_values_are_set_at_the_first_collection_and_again_at_the_end():
    _, found, calls, _ = filled("rt_hash", 0.1, late={"expire_s": 0.03}, settle_s=0.001)
    assert found.cycles >= 1
    assert found.level
    assert [values for _, values in calls] == [{"expire_s": 0.03}] * 2
    assert calls[0][0] <= calls[1][0]


def test_a_bounded_structure_becomes_level_and_ends_the_filling():
    _, found, _, _ = filled("lru", 2.0 if compiled() else 1.0)
    assert found.level
    assert found.seconds < (2.0 if compiled() else 1.0)


def test_collection_ends_the_filling_early():
    _, found, _, _ = filled("unicache-passive", 2.0, settle_s=0.002)
    assert found.cycles >= 1
    assert found.seconds < 1.0
