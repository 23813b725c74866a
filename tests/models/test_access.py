import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import access
from models.access import DMA, MAX_RANGE, READ, WRITE, call, make_log, overrun, touch, touch_range
from models.functions import MAX_FUNCTIONS
from models.kernel import NIL

ADDRESS = st.integers(0, (1 << 41) - 1)
KIND = st.sampled_from([READ, WRITE, DMA])
FUNCTION = st.integers(0, MAX_FUNCTIONS - 1)


def records(log):
    used = int(log.head[0])
    inverse = (access.record_kind, access.record_function, access.record_line, access.record_lines)
    return [tuple(int(part(r)) for part in inverse) for r in log.record[:used].tolist()]


@given(KIND, FUNCTION, ADDRESS)
def test_touch_is_undone_by_its_inverses(kind, function, address):
    log = make_log(2, 1)
    access.touch(log, kind, function, address)
    assert records(log) == [(kind, function, address // 64, 1)]
    assert log.record[0] >= 0
    assert access.room(log) == 1


@given(KIND, FUNCTION, ADDRESS, st.integers(0, 4 * 64 * MAX_RANGE))
def test_a_range_covers_every_line_once_in_order(kind, function, address, size):
    log = make_log(8, 1)
    access.touch_range(log, kind, function, address, size)
    first = address // 64
    lines = (address + size - 1) // 64 - first + 1 if size else 0
    at = first
    for got_kind, got_function, line, count in records(log):
        assert (got_kind, got_function, line) == (kind, function, at)
        assert 1 <= count <= MAX_RANGE
        at += count
    assert at - first == lines
    assert log.head[0] == -(-lines // MAX_RANGE)


def test_touches_cost_nothing_in_an_unpriced_run_but_calls_count():
    log = make_log(1, 1, on=False)
    for _ in range(5):
        access.touch(log, READ, 0, 64)
        access.touch_range(log, READ, 0, 64, 1000)
        access.call(log, 3, 2)
    assert log.head[0] == 0
    assert access.room(log) == NIL
    assert log.calls[3] == 10


def test_emptying_keeps_what_the_log_says_of_packets():
    log = make_log(4, 2)
    access.touch(log, READ, 0, 64)
    access.call(log, 0, 1)
    log.miss[1], log.end[1], log.answer[1], log.entry[1] = 1, 1, 7, 64
    access.empty(log)
    assert (log.head[0], log.calls.sum(), log.miss[1], log.end[1]) == (0, 0, 1, 1)
    access.begin_batch(log, 2)
    assert (log.miss[1], log.end[1], log.answer[1], log.entry[1]) == (NIL, 0, access.DROPPED, 0)


@pytest.mark.parametrize(("room", "batch"), [(0, 1), (1, 0)])
def test_a_log_without_room_is_refused(room, batch):
    with pytest.raises(ValueError, match="room for at least one record and one packet"):
        make_log(room, batch)


def test_a_log_without_room_counts_what_it_cannot_hold_and_says_so():
    log = make_log(2, 1)
    assert overrun(log) == ""
    touch(log, READ, 1, 64)
    touch(log, READ, 1, 128)
    assert overrun(log) == ""
    touch(log, READ, 1, 192)
    touch_range(log, READ, 1, 0, 64 * MAX_RANGE * 2)
    assert log.record.tolist() == [1 << 28 | 1 << 3, 2 << 28 | 1 << 3]
    assert "wrote 5 records into a log with room for 2; records_per_packet" in overrun(log)


def test_a_call_of_a_function_that_nobody_registered_is_remembered():
    for function in (-1, MAX_FUNCTIONS, 5000):
        log = make_log(2, 1)
        call(log, function, 1)
        assert not log.calls.any()
        assert "function number that nobody registered" in overrun(log)
