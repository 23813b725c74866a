"""Small boxes give the very counts that are committed, whether kernels are compiled or interpreted (see exact.py)."""

import json

import pytest
from golden.exact import COMMITTED, counts, small

SCENARIO = small()
EXPECTED = json.loads(COMMITTED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", SCENARIO.row, ids=lambda row: row.name)
def test_exact_counts(row):
    found = counts(SCENARIO, row)
    for part, expected in EXPECTED[row.name].items():
        assert json.loads(json.dumps(found[part])) == expected, part


def test_every_row_is_committed():
    assert [row.name for row in SCENARIO.row] == list(EXPECTED)


def test_the_scenario_reaches_what_it_is_for():
    """Loss, both structures' collections, transfers between CPUs and all levels of the memory occur in it."""

    def total(row, counter):
        return sum(EXPECTED[row]["counters"].get(counter, [0, 0]))

    assert total("rt_hash", "box_dropped") > 0
    assert total("rt_hash", "gc_removed") > 0
    assert total("rt_hash", "evicted") > 0
    assert total("rt_hash", "check_removed") > 0
    assert total("unicache", "gc_active") > 0
    assert total("unicache-passive", "gc_passive") > 0
    assert "neigh_resolve_output" in EXPECTED["rt_hash-other"]["cycles"]
    assert "neigh_resolve_output" not in EXPECTED["unicache-passive"]["cycles"]
    assert total("none", "in_hit") == 0
    assert len({EXPECTED[row]["checksum"] for row in EXPECTED}) == 1
