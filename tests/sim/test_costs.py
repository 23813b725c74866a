"""From counts and calls to cycles, against a plain recomputation; what sheets may say and what ours says."""

from fractions import Fraction
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.functions import MAX_FUNCTIONS, names, number
from models.interface import FlowCache
from models.kernel import NIL
from sim.calibrate import TRIE_LOOKUP
from sim.costs import HIT, SLOW, UNIT, CostSheet, CycleClock, FunctionCost, Tariff, charge, load_costs, make_bill, make_tariff
from sim.memory import CLASS_BITS, CLASSES

FUNCTIONS = 4
LOOKUPS = ("ip_route_input", "rt_hash_code", "unicache_hash_code", *(name for name in TRIE_LOOKUP if "@" not in name))


@st.composite
def situations(draw):
    """A tariff, counts and calls of four functions, and a few packets."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tariff = Tariff(*(np.zeros(MAX_FUNCTIONS, np.int64) for _ in range(4)), rng.integers(0, 200 * UNIT, CLASSES))
    tariff.cycles[:FUNCTIONS] = rng.integers(0, 500 * UNIT, FUNCTIONS)
    tariff.per_packet[:FUNCTIONS] = rng.integers(0, 3 * UNIT, FUNCTIONS)
    tariff.slow[:FUNCTIONS] = rng.integers(0, 2, FUNCTIONS)
    tariff.scale[:FUNCTIONS] = rng.choice([UNIT, 1100, 900], FUNCTIONS)
    counts = np.zeros((2 * MAX_FUNCTIONS, CLASSES), np.int64)
    for plane in range(2):
        counts[plane * MAX_FUNCTIONS :][:FUNCTIONS] = rng.integers(0, 5, (FUNCTIONS, CLASSES)) * rng.integers(
            0, 2, (FUNCTIONS, CLASSES)
        )
    calls = np.zeros(MAX_FUNCTIONS, np.int64)
    calls[:FUNCTIONS] = rng.integers(0, 20, FUNCTIONS)
    miss = np.where(rng.random(12) < draw(st.sampled_from([0.0, 0.4, 1.0])), 5, NIL)
    first, stop = sorted(rng.integers(0, 13, 2))
    return tariff, counts, calls, miss, int(first), int(stop), draw(st.booleans())


def flat(counts):
    """Counts by row and class, as the memory model keeps them."""
    return np.pad(counts, ((0, 0), (0, (1 << CLASS_BITS) - CLASSES))).reshape(-1)


def plain_cycles(tariff, counts, calls, miss, first, stop, all_slow):
    """{(plane, function): 1/1024 cycles}, step by step as the cost sheet's description has it."""
    slows = sum(1 for m in miss[first:stop] if m != NIL)
    packets = stop - first
    found = {}
    for f in range(FUNCTIONS):
        own = int(calls[f]) * UNIT
        if tariff.slow[f] or all_slow:
            share = own
        else:
            share = int(Fraction(own * slows, packets)) if packets else 0
        for plane, of_packets, of_calls in ((HIT, packets - slows, own - share), (SLOW, slows, share)):
            cycles = (of_calls + int(tariff.per_packet[f]) * of_packets) * int(tariff.cycles[f]) // UNIT
            cycles += sum(int(n) * int(cost) for n, cost in zip(counts[plane * MAX_FUNCTIONS + f], tariff.latency, strict=True))
            key = (SLOW if all_slow else plane, f)
            found[key] = found.get(key, 0) + cycles * int(tariff.scale[f]) // UNIT
    return found


@given(situations())
def test_charge_is_calls_times_cycles_plus_touches_times_latency(situation):
    tariff, counts, calls, miss, first, stop, all_slow = situation
    expected = plain_cycles(tariff, counts, calls, miss, first, stop, all_slow)
    touched, called = counts.sum(), int(calls.sum()) * UNIT + int(tariff.per_packet.sum()) * (stop - first)
    bill = make_bill(CLASSES)
    counts = flat(counts)
    total = charge(tariff, bill, counts, calls, miss, first, stop, all_slow, FUNCTIONS)
    assert total == sum(expected.values()) == bill.cycles.sum()
    for (plane, f), cycles in expected.items():
        assert bill.cycles[plane, f] == cycles
    assert bill.touches.sum() == touched
    assert bill.calls.sum() == called
    assert not counts.any()
    assert not calls.any()


@given(st.lists(st.integers(0, 10**12), max_size=30), st.sampled_from([1, 999_999_937, 2_600_000_000]))
def test_the_clock_loses_nothing_to_rounding(parts, clock_hz):
    clock = CycleClock(clock_hz)
    assert sum(clock.ns(cycles) for cycles in parts) == sum(parts) * 1_000_000_000 // (clock_hz * UNIT)


def sheet(*functions):
    return CostSheet(name="t", title="t", default_cycles=7.0, function=list(functions))


def cost(name, cycles, **more):
    return FunctionCost(name=name, cycles=cycles, category=more.pop("category", "per lookup"), source="made up", **more)


class Own(FlowCache):
    """A user's structure with functions that no sheet knows."""

    name = "own"
    functions = ("own_lookup", "own_insert")
    instruction_cycles = {"own_lookup": 33}  # noqa: RUF012


def tariff_of(costs, structure=None, *, resolve_path=False, scale=None):
    return make_tariff(costs, structure, np.zeros(CLASSES, np.int64), resolve_path=resolve_path, scale=scale or {})


def test_a_structures_own_functions_cost_what_it_declares_else_the_sheets_default():
    tariff = tariff_of(sheet(), Own(None, None))
    assert tariff.cycles[number("own_lookup")] == 33 * UNIT
    assert tariff.cycles[number("own_insert")] == 7 * UNIT


def test_the_sheet_goes_before_what_a_structure_declares():
    assert tariff_of(sheet(cost("own_lookup", 2.5)), Own(None, None)).cycles[number("own_lookup")] == 2560


def test_an_entry_for_one_structure_goes_before_the_general_one_behind_it_alone():
    for entries in ((cost("ip_route_input", 5.0, structure="own"), cost("ip_route_input", 9.0)),
                    (cost("ip_route_input", 9.0), cost("ip_route_input", 5.0, structure="own"))):  # fmt: skip
        assert tariff_of(sheet(*entries), Own(None, None)).cycles[number("ip_route_input")] == 5 * UNIT
        assert tariff_of(sheet(*entries)).cycles[number("ip_route_input")] == 9 * UNIT


def test_the_resolve_path_is_paid_only_where_it_is_taken():
    costs = sheet(cost("eth_header", 50.0, per_packet=1.0, resolve_path=True))
    assert tariff_of(costs).per_packet[number("eth_header")] == 0
    assert tariff_of(costs, resolve_path=True).per_packet[number("eth_header")] == UNIT


def test_an_adjustment_scales_its_function_alone():
    tariff = tariff_of(sheet(), scale={"ip_rcv": 1.25})
    assert tariff.scale[number("ip_rcv")] == 1280
    assert (np.delete(tariff.scale, number("ip_rcv")) == UNIT).all()


@pytest.mark.parametrize("name", LOOKUPS)
def test_no_lookup_function_costs_more_than_160_cycles_of_instructions(name):
    """The machine's memory must carry the result, not the sheet."""
    entries = [entry for entry in load_costs("linux-2.6.20").function if entry.name == name]
    assert entries
    assert all(0 <= entry.cycles <= 160 for entry in entries)


def test_every_function_that_is_called_once_a_lookup_is_held_to_that_bound():
    per_lookup = {entry.name for entry in load_costs("linux-2.6.20").function if entry.category == "per lookup"}
    assert per_lookup - {"perfect_lookup", "lru_lookup"} <= set(LOOKUPS)


def test_our_sheet_says_of_every_number_where_it_comes_from():
    costs = load_costs("linux-2.6.20")
    for entry in costs.function:
        assert entry.source.split()[0].rstrip(":,") in ("measured", "published", "fitted", "estimated", "not"), entry
    assert costs.memory_latency is not None
    keys = [(entry.name, entry.structure) for entry in costs.function]
    assert len(keys) == len(set(keys))


def test_our_sheet_prices_every_built_in_function_it_should():
    """A name that no built-in function bears would be priced and never called."""
    known = set(names())
    assert {entry.name for entry in load_costs("linux-2.6.20").function} <= known
    for adjustment in load_costs("linux-2.6.20").adjustment:
        assert set(adjustment.functions) <= known
        assert not {"ip_forward", "ip_output", "kfree", "kmem_cache_free"} & set(adjustment.functions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cyles = 1.0", "cyles is not a known key; did you mean cycles"),
        (
            'category = "per packer"',
            "category must be one of per packet, per lookup, per slow path, per collection, got 'per packer'",
        ),
        ('cycles = "many"', "cycles must be a number, got 'many'"),
    ],
)
def test_a_sheet_with_a_mistake_is_refused(tmp_path, change, message):
    entry = {"name": '"ip_rcv"', "cycles": "1.0", "category": '"per packet"', "source": '"x"'}
    key, _, value = change.partition(" = ")
    entry[key] = value
    text = 'name = "t"\ntitle = "t"\n[[function]]\n' + "\n".join(f"{k} = {v}" for k, v in entry.items())
    path = tmp_path / "costs.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        load_costs(str(path))


def test_sums_do_not_depend_on_their_order():
    """Costs are integers: touches charged at once or piece by piece cost the same."""
    rng = np.random.default_rng(3)
    tariff = tariff_of(sheet(cost("ip_rcv", 12.5), cost("ip_route_input", 3.25)))
    tariff = tariff._replace(latency=rng.integers(0, 100 * UNIT, CLASSES))
    functions = len(names())
    counts = rng.integers(0, 4, (2 * MAX_FUNCTIONS, CLASSES))
    counts[functions:MAX_FUNCTIONS] = counts[MAX_FUNCTIONS + functions :] = 0
    calls = np.zeros(MAX_FUNCTIONS, np.int64)
    miss = np.full(1, NIL)
    whole, parts = make_bill(CLASSES), make_bill(CLASSES)
    cuts = [0, 3, 5, CLASSES]
    pieces = []
    for low, high in pairwise(cuts):
        piece = np.zeros_like(counts)
        piece[:, low:high] = counts[:, low:high]
        pieces.append(piece)
    total = charge(tariff, whole, flat(counts), calls, miss, 0, 0, False, functions)
    assert total == sum(charge(tariff, parts, flat(piece), calls, miss, 0, 0, False, functions) for piece in reversed(pieces))
    for one, other in zip(whole, parts, strict=True):
        assert (one == other).all()


def test_sheets_are_frozen():
    with pytest.raises(AttributeError):
        load_costs("linux-2.6.20").default_cycles = 1.0
    assert msgspec.structs.replace(load_costs("linux-2.6.20"), default_cycles=1.0).default_cycles == 1.0
