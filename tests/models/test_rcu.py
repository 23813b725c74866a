from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.rcu import Rcu, call_rcu, rcu_next, rcu_room, ready_before

OPERATIONS = st.lists(st.tuples(st.sampled_from(["call", "next", "ready"]), st.integers(0, 1), st.integers(0, 50)), max_size=120)


@given(OPERATIONS)
def test_queues_agree_with_deques_across_growth(operations):
    rcu, oracle, now = Rcu(room=2), [deque(), deque()], 0
    for step, (what, cpu, pause) in enumerate(operations):
        now += pause
        if what == "call":
            if rcu_room(rcu.state, cpu) == 0:
                rcu.grow()
            call_rcu(rcu.state, cpu, step, now)
            oracle[cpu].append((step, now))
        elif what == "next" and oracle[cpu]:
            assert rcu_next(rcu.state, cpu) == oracle[cpu].popleft()[0]
        else:
            assert ready_before(rcu.state, cpu, now - 30) == sum(since <= now - 30 for _, since in oracle[cpu])
        assert rcu.waiting() == len(oracle[0]) + len(oracle[1])
        assert rcu.waiting(cpu) == len(oracle[cpu])


def filled(waiting, **options):
    rcu = Rcu(room=64, **options)
    for entry in range(waiting):
        call_rcu(rcu.state, 1, entry, 1000)
    return rcu


def test_nothing_is_allowed_before_three_ticks_have_passed():
    rcu = filled(5)
    assert rcu.allowance(1, 1000 + 3_000_000 - 1) == 0
    assert rcu.allowance(1, 1000 + 3_000_000) == 5
    assert rcu.allowance(0, 1000 + 3_000_000) == 0
    assert Rcu(hz=100).grace_ns == 30_000_000


def test_blimit_holds_until_qhimark_and_is_lifted_until_qlowmark():
    later = 10_000_000
    rcu = filled(40, blimit=3, qhimark=30, qlowmark=5)
    assert rcu.allowance(1, later) == 40
    for _ in range(34):
        rcu_next(rcu.state, 1)
    assert rcu.allowance(1, later) == 6, "still without limit above qlowmark"
    rcu_next(rcu.state, 1)
    assert rcu.allowance(1, later) == 3
    for entry in range(20):
        call_rcu(rcu.state, 1, entry, 2000)
    assert rcu.allowance(1, later) == 3, "limited until qhimark is passed again"


def test_room_must_be_a_power_of_two():
    with pytest.raises(ValueError, match="power of two, got 3"):
        Rcu(room=3)
