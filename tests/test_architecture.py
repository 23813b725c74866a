"""What a compiler does not check about the shape of the project."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = {"models": {"models"}, "traces": {"models", "traces"}, "sim": {"models", "traces", "sim"}}
LONGEST = 400


def imported_packages(source: str) -> set[str]:
    """Top-level names of every import in a source text, those inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            found.add((node.module or "").partition(".")[0])
    return found


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", FLOORS)
def test_no_import_runs_upwards(package):
    assert sources(package), f"no sources found in {package}"
    for path in sources(package):
        upwards = imported_packages(path.read_text()) & set(FLOORS) - FLOORS[package]
        assert not upwards, f"{path.relative_to(ROOT)} imports {upwards}"


@pytest.mark.parametrize("package", FLOORS)
def test_no_package_imports_tests_or_their_oracles(package):
    for path in sources(package):
        forbidden = imported_packages(path.read_text()) & {
            "tests",
            "oracles",
            "hypothesis",
            "pytest",
            "pytricia",
            "dpkt",
            "cachesim",
        }
        assert not forbidden, f"{path.relative_to(ROOT)} imports {forbidden}"


def test_the_import_check_sees_imports_inside_functions():
    assert imported_packages("def f():\n    from sim.box import Box\n    import traces.pktgen as p") == {"sim", "traces"}


@pytest.mark.parametrize("package", FLOORS)
def test_files_are_one_idea_long(package):
    for path in sources(package):
        lines = len(path.read_text().splitlines())
        assert lines <= LONGEST, f"{path.relative_to(ROOT)} has {lines} lines; split it"


def test_every_test_file_has_a_name_of_its_own():
    """Without packages under tests/, pytest cannot tell two files of one name apart."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))
