"""Answers are compared in a sandbox that all rewards of a process share: each costs a bounded time, and none of them
reaches another one."""

import os
import signal
from collections.abc import Iterator

import pytest
from answers import text_answer
from math_answers import boxed, needs_math_verify, sandbox_workers

from rewards import mathematics
from rewards.mathematics import MathReward
from rewards.reward import Reward, Task
from sandbox import Program, Sandbox

pytestmark = needs_math_verify

HOSTILE = [
    "10^{10^{10}}",
    r"\sqrt{" * 300 + "2" + "}" * 300,
]
MORE_HOSTILE = [
    "(10^{9})!",
    "9^{9^{9^{9}}}",
    r"\binom{10^9}{10^8}",
    r"\sum_{k=1}^{10^9} \frac{1}{k}",
    r"\prod_{k=1}^{10^7} k",
    r"\int_0^1 e^{\sin(x^{\cos x})} dx",
    "(x+1)^{10^6}",
    "+".join(f"x^{{{n}}}" for n in range(300)),
]


@pytest.fixture(scope="module")
def others() -> set[int]:
    """Return the workers of the sandboxes that other files of this process keep open."""
    return sandbox_workers()


@pytest.fixture(scope="module")
def reward(others: set[int]) -> Iterator[MathReward]:
    with MathReward(1) as reward:
        yield reward


def score(reward: MathReward, latex: str, expected: str) -> Reward:
    return reward(text_answer(boxed(latex)), Task(expected=expected))


@pytest.mark.parametrize("hostile", [HOSTILE, pytest.param(MORE_HOSTILE, marks=pytest.mark.thorough)])
def test_each_hostile_answer_costs_less_than_a_second_of_cpu_time(reward, hostile):
    before = sandbox_workers()
    for latex in hostile:
        assert score(reward, latex, "2").value == 0.0
        assert reward._run("2", latex).cpu_seconds < 0.8  # half a second, and the reading of the expected answer
    assert score(reward, "2", "2").value == 1.0
    assert sandbox_workers() >= before  # no hostile answer cost a worker


def test_an_expected_answer_that_takes_too_long_costs_its_time_only_once():
    with MathReward(1) as reward:
        slow = "(10^{9})!"
        assert score(reward, "1", slow).verdict == "tests_failed"
        reward.close()
        before = sandbox_workers()
        assert [score(reward, str(n), slow).verdict for n in range(2, 30)] == ["tests_failed"] * 28
        assert score(reward, slow, slow).value == 1.0
        assert sandbox_workers() == before  # nothing was compared


def test_workers_that_are_killed_make_no_answer_wrong(reward, others):
    assert score(reward, "2", "2").value == 1.0
    killed = sandbox_workers() - others
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert score(reward, "3", "3").value == 1.0


def test_the_reward_is_unknown_if_the_sandbox_fails(closed_box):
    scored = score(MathReward(box=closed_box), "4", "4")
    assert (scored.value, scored.verdict) == (None, "checker_failed")
    assert "closed" in scored.detail


def test_the_reward_is_unknown_if_the_sandbox_has_no_math_verify(box):
    scored = score(MathReward(box=box), "4", "4")
    assert (scored.value, scored.verdict) == (None, "checker_failed")
    assert "No module named 'math_verify'" in scored.detail


def test_a_sandbox_of_the_caller_compares_as_well():
    with Sandbox(workers=1, packages=["math-verify"]) as box, MathReward(box=box) as reward:
        assert [score(reward, latex, r"\frac12").value for latex in ("0.5", "0.6", r"50\%")] == [1.0, 0.0, 1.0]


def test_rewards_share_a_sandbox_that_ends_with_the_last_of_them():
    before = sandbox_workers()
    with MathReward(3) as one:
        with MathReward(3) as other:
            assert score(one, "2", "2").value == score(other, "3", "3").value == 1.0
            workers = sandbox_workers() - before
        assert sandbox_workers() - before == workers
        assert len(workers) <= 3
    assert not sandbox_workers() & workers


def test_a_fork_of_this_process_has_a_sandbox_of_its_own(reward):
    assert score(reward, "2", "2").value == 1.0
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(score(reward, "5", "5").value != 1.0)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert score(reward, "6", "6").value == 1.0


# What text could do at worst: run as code in the program that compares it.
TAKEN_OVER = r"""
import math_comparison, os, socket
done = []
def attempt(name, do):
    try:
        do()
    except OSError:
        return
    done.append(name)
attempt("files", lambda: open("/etc/passwd").close())
attempt("packages", lambda: open(math_comparison.__file__, "w").close())
attempt("network", lambda: socket.create_connection(("127.0.0.1", 9), 1))
math_comparison.are_notations_compatible = math_comparison._are_equal = lambda *_: True
done += [name for name in os.environ if name.startswith(("CURATE", "PYTEST"))]
print(done)
"""


def test_an_answer_that_runs_as_code_reaches_nothing_and_changes_no_other_comparison(reward, monkeypatch):
    monkeypatch.setenv("CURATE_TOKEN", "secret")
    assert score(reward, "2", "2").value == 1.0
    box = mathematics._get_shared_box(1)
    assert box.run(Program(TAKEN_OVER)).text.strip() == "[]"
    assert score(reward, "3", "2").value == 0.0


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("print('right', end='')", 1.0),
        ("print('wrong', end='')", 0.0),
        ("print('right')", None),
        ("print('right right')", None),
        ("print('right', end='', flush=True)\nimport sys\nsys.exit(1)", None),
        ("print('right', end='', flush=True)\nimport os\nos.abort()", None),
        ("print('x' * 10**6)", None),
        ("", None),
    ],
)
def test_only_a_word_of_a_program_that_ends_is_a_result(source, value, box):
    scored = mathematics._parse_result(box.run(Program(source)))
    assert (scored and scored.value) == value
