"""Progress: bars on a terminal, plain lines otherwise, nothing when quiet."""

import sys

import pytest

from sim.progress import Bars, Lines, Silent, clock, describe, make_display, pace
from sim.result import RowProgress


def at(row, phase, done=0.0, **more):
    return RowProgress(row=row, phase=phase, done=done, **more)


def test_a_state_in_words():
    assert describe(at("a", "compiling")) == "compiling"
    assert (
        describe(at("a", "measuring", 0.5, packets_per_s=1.25e6, seconds_left=75.2))
        == "measuring, 50%, 1.25 M packets/s, 1:15 left"
    )
    assert describe(at("a", "done", 1.0, seconds_left=0.0)) == "done, 100%"
    assert clock(-1) == "0:00"
    assert pace(12_345) == "12.3 k"


def test_lines_appear_at_a_change_of_phase_and_seldom_in_between(capsys):
    with Lines() as display:
        for progress in (at("a", "filling"), at("a", "filling", 0.1), at("b", "filling"), at("a", "measuring", 0.2)):
            display(progress)
    assert capsys.readouterr().err.splitlines() == ["a: filling", "b: filling", "a: measuring, 20%"]


def test_bars_count_the_rows_that_are_done(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    display = make_display(False, 3)
    assert isinstance(display, Bars)
    with display:
        # Two seeds of one row at a time share a bar.
        for progress in (
            at("a", "filling"),
            at("b", "filling", 0.5),
            at("a", "done", 1.0),
            at("a", "done", 1.0),
            at("b", "done", 1.0),
        ):
            display(progress)
        assert display._finished == 3
        assert display._tasks == {}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("quiet", "kind"), [(True, Silent), (False, Lines)])
def test_what_fits_stderr(quiet, kind, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    assert type(make_display(quiet, 1)) is kind
