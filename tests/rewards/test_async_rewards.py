"""Completions are scored as they arrive, and every future ends."""

import threading
import time
from concurrent.futures import CancelledError, as_completed, wait

import pytest
from answers import program, say
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.async_rewards import AsyncRewards
from rewards.code import CodeReward
from rewards.reward import Reward, Task
from sandbox import Case, Sandbox, Suite

DOUBLES = Task(tests=Suite([Case(f"{n}\n", f"{2 * n}\n") for n in range(5)]))
RIGHT, WRONG = program("print(2 * int(input()))"), program("print(0)")
SLOW = program("import time\ntime.sleep(0.5)\nprint(2 * int(input()))")
NOTHING = Task()


def lengths(answer, task):
    return Reward(float(answer.n_tokens), "counted")


@pytest.fixture
def gate():
    """Opened at the end, so that no thread is left behind."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_each_future_has_the_reward_of_its_completion(box):
    answers = [RIGHT, WRONG, say("No."), program("1 / 0")] * 10
    with AsyncRewards(CodeReward(box)) as rewards:
        futures = [rewards.submit(answer, DOUBLES) for answer in answers]
        assert [future.result(60).value for future in futures] == [1.0, 0.0, 0.0, 0.0] * 10


def test_what_is_quick_does_not_wait_for_what_is_slow(box):
    with AsyncRewards(CodeReward(box)) as rewards:
        slow = rewards.submit(SLOW, DOUBLES)
        quick = rewards.submit(RIGHT, DOUBLES)
        assert list(as_completed([slow, quick], 60)) == [quick, slow]


def test_no_more_are_scored_at_once_than_asked_for(gate):
    lock, now, most = threading.Lock(), 0, 0

    def counted(answer, task):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1
        return Reward(1.0, "counted")

    with AsyncRewards(counted, at_once=3) as rewards:
        assert len(wait([rewards.submit(RIGHT, NOTHING) for _ in range(30)], 60).done) == 30
    assert most == 3


@pytest.mark.parametrize("error", [ValueError("no tests"), SystemExit(1), KeyboardInterrupt()])
def test_what_a_reward_raises_is_its_futures_and_others_go_on(error):
    def failing(answer, task):
        if answer.n_tokens == 3:
            raise error
        return lengths(answer, task)

    with AsyncRewards(failing, at_once=1) as rewards:
        futures = [rewards.submit(say("", n), NOTHING) for n in range(6)]
        assert futures[3].exception(60) is error
        assert [future.result(60).value for future in futures if future is not futures[3]] == [0, 1, 2, 4, 5]


def test_a_reward_that_hangs_is_late_and_those_behind_it_too(gate):
    def hanging(answer, task):
        gate.wait()
        return Reward(1.0, "at last")

    with AsyncRewards(hanging, at_once=1, longest_seconds=0.3) as rewards:
        futures = [rewards.submit(RIGHT, NOTHING) for _ in range(3)]
        assert [(future.result(60).value, future.result().verdict) for future in futures] == [(None, "late")] * 3
        gate.set()
        assert rewards.submit(RIGHT, NOTHING).result(60) == Reward(1.0, "at last")


def test_closing_waits_for_nothing_and_ends_every_future(gate):
    def hanging(answer, task):
        gate.wait()
        return Reward(1.0, "at last")

    with AsyncRewards(hanging, at_once=2) as rewards:
        futures = [rewards.submit(RIGHT, NOTHING) for _ in range(5)]
    assert len(wait(futures, 60).done) == 5
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(0)
    with pytest.raises(RuntimeError, match="closed"):
        rewards.submit(RIGHT, NOTHING)
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
        with AsyncRewards(reward, at_once=at_once, longest_seconds=0.3) as rewards:
            futures = [rewards.submit(say(kind), NOTHING) for kind in kinds]
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


def test_threads_end_with_it():
    others = set(threading.enumerate())  # the adapters' rewards last as long as their process
    with AsyncRewards(lengths) as rewards:
        wait([rewards.submit(RIGHT, NOTHING) for _ in range(50)], 60)
        assert {thread.name for thread in set(threading.enumerate()) - others} == {"rewards"}
    end = time.monotonic() + 20
    while any(thread.name == "rewards" for thread in set(threading.enumerate()) - others):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_sandbox_that_is_closed_meanwhile_gives_no_signal():
    with Sandbox(workers=1) as box, AsyncRewards(CodeReward(box)) as rewards:
        begun = rewards.submit(SLOW, DOUBLES)
        others = [rewards.submit(program(f"print({n})"), DOUBLES) for n in range(10)]
        box.close()
        assert begun.result(60).value is None
        assert {future.result(60).value for future in others} <= {None, 0.0}


@pytest.mark.parametrize("options", [{"at_once": 0}, {"longest_seconds": 0}, {"longest_seconds": float("nan")}])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="must be"):
        AsyncRewards(lengths, **options)
