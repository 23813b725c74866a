"""Machine files: the Opteron's figures, and what is refused in one sentence."""

import msgspec
import pytest

from sim.errors import UserError
from sim.machine import MACHINES, load_machine

TEXT = (MACHINES / "opteron-2218.toml").read_text()


def test_the_opteron_has_the_sizes_of_its_cpuid():
    machine = load_machine("opteron-2218")
    assert [level.size_bytes for level in machine.level] == [64 << 10, 1 << 20]
    assert int(machine.pages().page_bytes) == 4 << 20
    assert machine.pages().stlb is None
    assert machine.cycles(60) == 156 * 1024
    assert machine.nanoseconds(2600 * 1024) == 1000
    assert all(number.source for level in machine.level for number in (level.sets, level.ways, level.latency))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[memory_ns]", "[memory_nss]", "memory_nss is not a known key; did you mean memory_ns"),
        ("value = 60\n", 'value = "60"\n', "memory_ns"),
        (', source = "i386 without PAE"', "", "source is missing"),
        ("sets = { value = 512,", "sets = { value = 500,", "level L1: sets must be a power of two, got 500"),
        ("ways = { value = 2,", "ways = { value = 65,", "level L1: ways must be from 1 to 64, got 65"),
        ("cl_size = { value = 64,", "cl_size = { value = 128,", "cl_size must be 64, got 128"),
        ('load_from = "L2"', 'load_from = "L3"', "load_from names 'L3', but the levels are L1, L2"),
        ('page_kind = "large"', 'page_kind = "huge"', "page_kind must be one of"),
        ("value = 2_600_000_000", "value = 0", "clock_hz must be positive, got 0"),
        ("value = 4194304", "value = 3000", "page_bytes must be a power of two"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(tmp_path, old, new, sentence):
    assert old in TEXT
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(ValueError, match=sentence) as caught:
        load_machine(str(path))
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ValueError, match="did you mean opteron-2218"):
        load_machine("opteron-2280")


@pytest.mark.parametrize("value", ["nan", "inf", "1e18"])
def test_a_latency_that_no_memory_has_is_refused(tmp_path, value):
    text = (MACHINES / "opteron-2218.toml").read_text(encoding="utf-8")
    at = text.index("[memory_ns]")
    begin = text.index("value = ", at) + len("value = ")
    path = tmp_path / "mine.toml"
    path.write_text(text[:begin] + value + text[text.index("\n", begin) :], encoding="utf-8")
    with pytest.raises(UserError, match=r"memory_ns must be at most 1,000,000 ns, got"):
        load_machine(str(path))


def test_a_fitted_memory_latency_holds_for_its_machine_only(tmp_path):
    """The sheet's figure stands for the machine it was fitted on; a machine of another name keeps its own."""
    from sim.assemble import assemble
    from sim.load import load_scenario
    from sim.memory import MEMORY

    scenario = load_scenario("olsson-2007")
    row = scenario.row[0]
    path = tmp_path / "mine.toml"
    text = (MACHINES / "opteron-2218.toml").read_text(encoding="utf-8")
    path.write_text(text.replace('name = "opteron-2218"', 'name = "mine"'), encoding="utf-8")
    fitted = assemble(scenario, row, 1, quick=True)
    own = assemble(msgspec.structs.replace(scenario, machine=str(path)), row, 1, quick=True)
    assert fitted.box.pricer.tariff.latency[2 * MEMORY] == fitted.machine.cycles(72.7)
    assert own.box.pricer.tariff.latency[2 * MEMORY] == own.machine.cycles(60)
