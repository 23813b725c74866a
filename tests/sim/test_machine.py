"""Machine files: the Opteron's figures, and what is refused in one sentence."""

import pytest

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
