"""Completions are scored as they arrive, and every future ends."""

import threading
import time
from concurrent.futures import CancelledError, as_completed, wait

import pytest
from answers import DOUBLES, RIGHT, WRONG, program_answer, text_answer
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import becomes

from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.reward import Reward, Task
from sandbox import Sandbox

SLOW = program_answer("import time\ntime.sleep(0.5)\nprint(2 * int(input()))")
EMPTY_TASK = Task()


def length_reward(answer, task):
    return Reward(float(answer.n_tokens), "counted")


@pytest.fixture
def gate():
    """Yield an event that is set at the end of the test, so that no thread is left behind."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_each_future_has_the_reward_of_its_completion(box):
    answers = [RIGHT, WRONG, text_answer("No."), program_answer("1 / 0")] * 10
    with AsyncRewards(CodeReward(box)) as rewards:
        futures = [rewards.submit(answer, DOUBLES) for answer in answers]
        assert [future.result(60).value for future in futures] == [1.0, 0.0, 0.0, 0.0] * 10


def test_quick_completions_do_not_wait_for_slow_ones(box):
    with AsyncRewards(CodeReward(box)) as rewards:
        slow = rewards.submit(SLOW, DOUBLES)
        quick = rewards.submit(RIGHT, DOUBLES)
        assert list(as_completed([slow, quick], 60)) == [quick, slow]


def test_no_more_completions_are_scored_at_once_than_allowed(gate):
    lock, n_now, n_most = threading.Lock(), 0, 0

    def counting_reward(answer, task):
        nonlocal n_now, n_most
        with lock:
            n_now += 1
            n_most = max(n_most, n_now)
        time.sleep(0.01)
        with lock:
            n_now -= 1
        return Reward(1.0, "counted")

    with AsyncRewards(counting_reward, max_concurrent=3) as rewards:
        assert len(wait([rewards.submit(RIGHT, EMPTY_TASK) for _ in range(30)], 60).done) == 30
    assert n_most == 3


@pytest.mark.parametrize("error", [ValueError("no tests"), SystemExit(1), KeyboardInterrupt()])
def test_an_exception_of_a_reward_ends_only_its_own_future(error):
    def failing(answer, task):
        if answer.n_tokens == 3:
            raise error
        return length_reward(answer, task)

    with AsyncRewards(failing, max_concurrent=1) as rewards:
        futures = [rewards.submit(text_answer("", n), EMPTY_TASK) for n in range(6)]
        assert futures[3].exception(60) is error
        assert [future.result(60).value for future in futures if future is not futures[3]] == [0, 1, 2, 4, 5]


def test_a_reward_that_hangs_is_late_and_so_are_those_waiting_for_it(gate):
    def hanging(answer, task):
        gate.wait()
        return Reward(1.0, "at last")

    with AsyncRewards(hanging, max_concurrent=1, timeout_seconds=0.3) as rewards:
        futures = [rewards.submit(RIGHT, EMPTY_TASK) for _ in range(3)]
        assert [(future.result(60).value, future.result().verdict) for future in futures] == [(None, "late")] * 3
        gate.set()
        assert rewards.submit(RIGHT, EMPTY_TASK).result(60) == Reward(1.0, "at last")


def test_closing_waits_for_nothing_and_ends_every_future(gate):
    def hanging(answer, task):
        gate.wait()
        return Reward(1.0, "at last")

    with AsyncRewards(hanging, max_concurrent=2) as rewards:
        futures = [rewards.submit(RIGHT, EMPTY_TASK) for _ in range(5)]
    assert len(wait(futures, 60).done) == 5
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(0)
    with pytest.raises(RuntimeError, match="closed"):
        rewards.submit(RIGHT, EMPTY_TASK)
    rewards.close()


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from(["value", "none", "error", "slow", "hang"]), max_size=40), st.integers(1, 8), st.booleans()
)
def test_whatever_rewards_do_every_future_ends_once(kinds, at_once, closed_early):
    gate = threading.Event()

    def reward(answer, task):
        if answer.text == "error":
            raise ValueError("no")
        if answer.text == "slow":
            time.sleep(0.005)
        if answer.text == "hang":
            gate.wait(60)
        return Reward(None if answer.text == "none" else 1.0, answer.text)

    ended = []
    try:
        with AsyncRewards(reward, max_concurrent=at_once, timeout_seconds=0.3) as rewards:
            futures = [rewards.submit(text_answer(kind), EMPTY_TASK) for kind in kinds]
            for future in futures:
                future.add_done_callback(ended.append)
            if not closed_early:
                wait(futures, 60)
        assert wait(futures, 60).not_done == set()
    finally:
        gate.set()
    assert sorted(map(id, ended)) == sorted(map(id, futures))
    for kind, future in zip(kinds, futures, strict=True):
        error = future.exception(0)
        if error is not None:
            assert isinstance(error, ValueError if kind == "error" else CancelledError) or closed_early
        else:
            assert future.result().verdict in (kind, "late")


def test_its_threads_end_when_it_is_closed():
    others = set(threading.enumerate())  # the rewards that trainers share last as long as their process
    with AsyncRewards(length_reward) as rewards:
        wait([rewards.submit(RIGHT, EMPTY_TASK) for _ in range(50)], 60)
        assert {thread.name for thread in set(threading.enumerate()) - others} == {"rewards"}
    assert becomes(lambda: all(thread.name != "rewards" for thread in set(threading.enumerate()) - others))


def test_the_reward_is_unknown_if_the_sandbox_is_closed_meanwhile():
    with Sandbox(workers=1) as box, AsyncRewards(CodeReward(box)) as rewards:
        begun = rewards.submit(SLOW, DOUBLES)
        others = [rewards.submit(program_answer(f"print({n})"), DOUBLES) for n in range(10)]
        box.close()
        assert begun.result(60).value is None
        assert {future.result(60).value for future in others} <= {None, 0.0}


@pytest.mark.parametrize("options", [{"max_concurrent": 0}, {"timeout_seconds": 0}, {"timeout_seconds": float("nan")}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="must be"):
        AsyncRewards(length_reward, **options)
