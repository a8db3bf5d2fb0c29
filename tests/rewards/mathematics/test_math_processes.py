"""The processes that compare answers cost a bounded time, are replaced when they die, and end with their owner."""

import os
import signal
import time
from pathlib import Path

import pytest
from answers import text_answer
from math_answers import boxed, children, comparing_process, needs_math_verify

from rewards.mathematics import answer_comparer
from rewards.mathematics.reward import MathReward
from rewards.reward import Task


def spent_seconds(server: Path) -> float:
    """Return the CPU seconds of the comparisons that have ended."""
    fields = (server / "stat").read_text().rpartition(")")[2].split()[13:15]
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")


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


@needs_math_verify
@pytest.mark.parametrize("hostile", [HOSTILE, pytest.param(MORE_HOSTILE, marks=pytest.mark.thorough)])
def test_each_hostile_answer_costs_less_than_a_second_of_cpu_time(hostile):
    before = children()
    with MathReward(1) as reward:
        server = comparing_process(reward, before)
        for latex in hostile:
            so_far = spent_seconds(server)
            assert reward(text_answer(boxed(latex)), Task(expected="2")).value == 0.0
            assert (
                spent_seconds(server) - so_far < 0.8
            )  # half a second, the reading of the expected answer, and the end of the fork
        assert reward(text_answer(boxed("2")), Task(expected="2")).value == 1.0
        assert comparing_process(reward, before) == server  # no hostile answer cost a new process


@needs_math_verify
def test_an_expected_answer_that_takes_too_long_costs_its_time_only_once():
    before = children()
    with MathReward(1) as reward:
        server = comparing_process(reward, before)
        slow = Task(expected="(10^{9})!")
        assert reward(text_answer(boxed("1")), slow).verdict == "tests_failed"
        so_far = spent_seconds(server)
        assert [reward(text_answer(boxed(str(n))), slow).verdict for n in range(2, 30)] == ["tests_failed"] * 28
        assert reward(text_answer(boxed("(10^{9})!")), slow).value == 1.0
        assert spent_seconds(server) == so_far


@needs_math_verify
def test_processes_that_are_killed_make_no_answer_wrong():
    with MathReward(1) as reward:
        assert reward(text_answer(boxed("2")), Task(expected="2")).value == 1.0
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        assert reward(text_answer(boxed("3")), Task(expected="3")).value == 1.0


@needs_math_verify
@pytest.mark.parametrize("lines", [[], ["ready"], ["ready", "read"], ["ready", "unreadable"]])
def test_the_reward_is_unknown_if_the_process_dies_again_and_again(lines, tmp_path, monkeypatch):
    child = tmp_path / "child.py"
    child.write_text(
        "".join(f"print({line!r}, flush=True)\n" for line in lines) + "import os\nos.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setattr(answer_comparer, "_CHILD", child)
    with MathReward(1) as reward:
        scored = reward(text_answer(boxed("4")), Task(expected="4"))
    assert (scored.value, scored.verdict) == (None, "checker_failed")
    assert scored.detail


@needs_math_verify
def test_its_processes_end_when_it_is_closed():
    before = children()
    with MathReward(2) as reward:
        reward(text_answer(boxed("2")), Task(expected="2"))
        assert len(children() - before) == 1
    end = time.monotonic() + 20
    while children() - before:
        assert time.monotonic() < end
        time.sleep(0.02)
