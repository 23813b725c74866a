"""Rows become boxes: sizes, random streams, what cannot work, and equal answers of all structures."""

import msgspec
import numpy as np
import pytest
from golden.exact import CHECKED, small

from models.flow import make_batch
from sim.assemble import (
    adjustment_factors,
    assemble,
    lossfree_checksum,
    make_sources,
    quick_parameters,
    quick_sections,
    stream,
)
from sim.costs import load_costs
from sim.load import load_scenario, sections
from sim.published import load_published
from sim.routing import make_table
from sim.scenario import Traffic

SCENARIO = small()
ROWS = {row.name: row for row in SCENARIO.row}


def test_all_structures_answer_alike():
    """The checksum over (packet, route) does not depend on the structure, however small its table."""
    found = {name: lossfree_checksum(SCENARIO, row, 7, quick=False, packets=CHECKED) for name, row in ROWS.items()}
    assert len(set(found.values())) == 1, found
    assert lossfree_checksum(SCENARIO, ROWS["perfect"], 8, quick=False, packets=CHECKED) not in found.values()


def draws(*key, seed=1):
    return stream(seed, *key).integers(0, 1 << 60, 4).tolist()


def test_a_random_stream_depends_on_seed_and_key_alone():
    assert draws("a", "b") == draws("a", "b")
    streams = [draws("a", "b"), draws("b", "a"), draws("a"), draws("a", "b", seed=2), draws("a", "b", "")]
    assert len({tuple(values) for values in streams}) == len(streams)


def first_packets(source, n=50):
    batch = make_batch(n)
    assert source.fill(batch) == n
    return batch


def test_senders_alternate_and_have_an_interface_each():
    one, two = (first_packets(source) for source in make_sources(Traffic(offered_kpps=500.0, flows=10), 1))
    times = np.stack([one.time, two.time], 1).ravel()
    assert (np.diff(times) == 2000).all()
    assert set(one.key[:, 3] & 0xFFFF) == {1}
    assert set(two.key[:, 3] & 0xFFFF) == {3}
    assert set(one.key[:, 0]) != set(two.key[:, 0])
    assert (one.key[:, 1] != two.key[:, 1]).any()


def test_rows_with_the_same_traffic_see_the_same_packets():
    boxes = [assemble(SCENARIO, ROWS[name], 7).box for name in ("rt_hash", "perfect")]
    for one, other in zip(*(box.sources for box in boxes), strict=True):
        first, second = first_packets(one), first_packets(other)
        assert (first.key == second.key).all()
        assert (first.time == second.time).all()


def test_the_generated_table_depends_on_the_seed():
    tables = [make_table(SCENARIO.fib, 4, seed) for seed in (1, 1, 2)]
    assert (tables[0].prefix == tables[1].prefix).all()
    assert tables[0].prefix.size != tables[2].prefix.size or (tables[0].prefix != tables[2].prefix).any()


def test_a_quick_run_is_a_tenth_of_the_size():
    whole_size = {"rhash_entries": 32768, "gc_thresh": 262144, "capacity": 65000, "gc_elasticity": 8, "max_size": 0}
    tenth_size = {"rhash_entries": 2048, "gc_thresh": 16384, "capacity": 6500, "gc_elasticity": 8, "max_size": 0}
    assert quick_parameters(whole_size) == tenth_size
    whole = sections(SCENARIO, ROWS["rt_hash"])
    tenth = quick_sections(whole)
    assert tenth.traffic.flows == whole.traffic.flows // 10
    assert tenth.traffic.offered_kpps == whole.traffic.offered_kpps
    assert tenth.measure.window_s == whole.measure.window_s / 10
    assert assemble(SCENARIO, ROWS["lru"], 7, quick=True).parameters["capacity"] == 16


def test_a_row_goes_before_its_scenario():
    assembly = assemble(SCENARIO, ROWS["rt_hash-other"], 7)
    assert assembly.found.box.tx_completion_cpu == "other"
    assert assembly.found.box.poll == SCENARIO.box.poll
    assert assembly.parameters["rhash_entries"] == 64
    assert len(assembly.box.sources) == 2


def test_more_senders_than_cpus_are_refused():
    scenario = msgspec.structs.replace(SCENARIO, traffic=msgspec.structs.replace(SCENARIO.traffic, senders=3))
    with pytest.raises(ValueError, match=r"golden has 2 CPUs, 3 senders need one each; set traffic\.senders"):
        assemble(scenario, ROWS["perfect"], 7)


def test_an_unknown_adjustment_is_refused():
    row = msgspec.structs.replace(ROWS["rt_hash"], adjust="boot-132k")
    with pytest.raises(ValueError, match="row rt_hash: the cost sheet golden has no adjustment 'boot-132k'; it has: dearer"):
        assemble(SCENARIO, row, 7)
    with pytest.raises(ValueError, match="needs the scenario to name its published table"):
        assemble(SCENARIO, msgspec.structs.replace(row, adjust="dearer"), 7)


@pytest.mark.parametrize("length", [40, 4])
def test_an_adjustment_takes_its_ratios_from_the_other_flow_length(length):
    """So no row is scaled by its own profile, and functions that touch routing objects are not scaled."""
    scenario = load_scenario("olsson-2007")
    sheet = load_costs(scenario.costs)
    row = next(row for row in scenario.row if row.name == f"rt_hash-131k-L{length}-adjusted")
    factors = adjustment_factors(sheet, scenario, row, length)
    other = load_published("olsson-2007")
    dearer, cheaper = (other[f"{44 - length}/rt_hash/{buckets}"].profile for buckets in (131072, 32768))
    assert factors
    for name, factor in factors.items():
        assert factor == pytest.approx(dearer[name] / cheaper[name])
    assert not {"ip_forward", "ip_output", "kfree", "kmem_cache_free", "ip_route_input"} & set(factors)
    plain = msgspec.structs.replace(row, adjust=None)
    assert adjustment_factors(sheet, scenario, plain, length) == {}
