import re
from pathlib import Path

import pytest

from models import kernel
from models.conformance import check_flow_cache
from models.plugin import PluginError, load_plugin

GOOD = """
from models.interface import MISS, NEED_NOTHING, FlowCache

class Mine(FlowCache):
    def __init__(self, params, world):
        super().__init__(params, world)
        self.routes = {}

    def lookup(self, packet, ctx):
        return self.routes.get(packet.key, MISS)

    def insert(self, packet, route, ctx):
        self.routes[packet.key] = route
        return NEED_NOTHING

    def __len__(self):
        return len(self.routes)

class Other:
    pass
"""


@pytest.fixture
def good(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(kernel, "_plugins", [])
    path = tmp_path / "my_cache.py"
    path.write_text(GOOD)
    return path


def test_a_plug_in_of_twenty_lines_conforms_and_takes_part_in_the_digest(good):
    before = kernel.sources_digest()
    cls = load_plugin(f"{good}:Mine")
    assert kernel.sources_digest() != before
    assert cls.name == "Mine"
    assert check_flow_cache(lambda world: cls(cls.Params(), world), steps=5).structure == "Mine"


@pytest.mark.parametrize(
    ("content", "spec", "sentence"),
    [
        (GOOD, "{}", "named FILE.py:CLASS, got"),
        (GOOD, "{}:", "named FILE.py:CLASS, got"),
        (GOOD, "{}x:Mine", "does not exist; check the path"),
        (GOOD, "{}/..:Mine", "does not exist|is a directory"),
        (GOOD, "{}:Mina", "has no class Mina; did you mean Mine?"),
        (GOOD, "{}:Quite", "has no class Quite; its structures are: Mine"),
        (GOOD, "{}:Other", "is not a structure: derive it from models.interface.FlowCache"),
        ("import no_such_module", "{}:Mine", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f(:", "{}:Mine", "is not valid Python: line 1"),
        ("1 / 0", "{}:Mine", "cannot be imported: ZeroDivisionError"),
        ("raise SystemExit(3)", "{}:Mine", "cannot be imported: SystemExit: 3"),
    ],
)
def test_bad_plug_ins_are_refused_in_one_sentence(good, content, spec, sentence):
    good.write_text(content)
    with pytest.raises(PluginError, match=sentence.replace("?", re.escape("?"))) as caught:
        load_plugin(spec.format(good))
    assert "\n" not in str(caught.value)


def test_a_directory_and_a_foreign_file_are_refused(good, tmp_path):
    with pytest.raises(PluginError, match="is a directory; name the Python file in it"):
        load_plugin(f"{tmp_path}:Mine")
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    with pytest.raises(PluginError, match=r"its name must end in \.py"):
        load_plugin(f"{text}:Mine")


def test_the_example_of_the_documentation_conforms(good):
    text = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text()
    good.write_text(text.split("```python\n")[1].split("```")[0])
    cls = load_plugin(f"{good}:MyCache")
    assert check_flow_cache(lambda world: cls(cls.Params(), world), steps=5).smallest_log == cls.records_per_packet


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("records_per_packet = -2", "records_per_packet must be a whole number of at least 0, got -2"),
        ("records_per_packet = 'x'", "records_per_packet must be a whole number of at least 0, got 'x'"),
        ("Params = 5", "Params must be a dataclass, got 5"),
        ("instruction_cycles = ['f']", "instruction_cycles must be a dict of function name to cycles"),
        ("instruction_cycles = {'f': 'x'}", "instruction_cycles of 'f' must be a whole number of cycles a call, from 0 to"),
        ("instruction_cycles = {'f': -1}", "from 0 to 1000000000, got -1"),
    ],
)
def test_a_class_that_declares_nonsense_is_refused(tmp_path, line, sentence):
    file = tmp_path / "mine.py"
    file.write_text(f"from models.interface import FlowCache\nclass Mine(FlowCache):\n    {line}\n", encoding="utf-8")
    with pytest.raises(PluginError, match=sentence):
        load_plugin(f"{file}:Mine")
