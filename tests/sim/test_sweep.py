"""Order of the rows, and kernels compiled once before the workers start."""

import sys
from pathlib import Path

import pytest

import sim.sweep
from sim.load import load_scenario
from sim.sweep import Task, expected_work, run_tasks

sys.path.insert(0, str(Path(__file__).parent))
import fake_runner


@pytest.fixture
def tasks(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    fake_runner.RAN.clear()
    scenario = load_scenario("olsson-2007")
    return [Task(scenario, row, 1, False, "fake_runner:run_noted") for row in scenario.row]


def test_long_rows_begin_first(tasks):
    order = [task.row.name for task in sorted(tasks, key=expected_work, reverse=True)]
    # The trie holds what two times 65,536 flows need, though no parameter says so.
    assert order[:3] == ["rt_hash-131k-L40", "unicache-L40", "rt_hash-131k-L40-adjusted"]
    assert order.index("rt_hash-32k-L40") < order.index("rt_hash-32k-L4")


def test_the_first_run_compiles_each_structure_once_before_workers_start(tasks, monkeypatch):
    monkeypatch.setattr(sim.sweep, "_first_phase", lambda: sim.sweep.COMPILING)
    said = []
    found = dict(run_tasks(tasks, 2, said.append))
    assert sorted(fake_runner.RAN) == [
        ("rt_hash-32k-L4", True),
        ("unicache-L4", True),
    ]
    assert sorted(found) == list(range(len(tasks)))
    first = [p for p in said if p.row == "rt_hash-32k-L4"]
    assert first[0].phase == sim.sweep.COMPILING
    assert [p.phase for p in first].index("waiting") > 0


def test_nothing_is_compiled_first_when_kernels_are_known(tasks, monkeypatch):
    monkeypatch.setattr(sim.sweep, "_first_phase", lambda: "loading")
    assert len(dict(run_tasks(tasks, 2, lambda progress: None))) == len(tasks)
    assert fake_runner.RAN == []
