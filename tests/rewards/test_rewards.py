import os

import pytest

from rewards import execution, verl
from rewards.trl import code_reward
from sandbox import Case, Limits, Program, Referee, Sandbox, SandboxError, Suite

ECHO = Suite([Case("1", "1"), Case("2", "2")])
RIGHT, WRONG = "So:\n```python\nprint(input())\n```\n", "```python\nprint(1)\n```"
UNSURE = Suite([Case("1", "1")], checker="program", referee=Referee(Program("1 / 0")))


@pytest.fixture
def lost(monkeypatch):
    box = Sandbox(workers=1)
    box.close()
    monkeypatch.setattr(execution, "_made", {(os.getpid(), "sandbox"): box})


def test_a_program_that_passes_every_test_gets_one_and_others_nothing():
    tests = [ECHO.to_json()] * 3
    assert code_reward(completions=[RIGHT, WRONG, "No."], tests=tests, id=["a", "b", "c"]) == [1.0, 0.0, 0.0]


def test_conversations_are_judged_by_their_last_message():
    talk = [{"role": "assistant", "content": WRONG}, {"role": "assistant", "content": RIGHT}]
    assert code_reward(completions=[talk], tests=[ECHO.to_json()]) == [1.0]


def test_a_lost_sandbox_is_not_a_zero(lost):
    tests = [ECHO.to_json()] * 2
    assert code_reward(completions=[RIGHT, "No."], tests=tests) == [None, 0.0]
    with pytest.raises(SandboxError):
        verl.compute_score("mine", RIGHT, '{"inputs": ["1"], "outputs": ["1"]}')


def test_a_checker_that_fails_is_not_a_zero():
    assert code_reward(completions=[RIGHT, RIGHT], tests=[UNSURE.to_json(), ECHO.to_json()]) == [None, 1.0]
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        execution.reward(RIGHT, UNSURE, execution.shared_sandbox())


def test_what_verl_calls_ground_truth_is_a_suite():
    assert verl.suite_of_ground_truth('{"inputs": ["1"], "outputs": ["2"]}') == Suite([Case("1", "2")])
    calls = '{"fn_name": "f", "inputs": ["[1]\\n\\"a\\"", ""], "outputs": ["2", "3"], "time_limit_s": 2}'
    assert verl.suite_of_ground_truth(calls) == Suite(
        [Case('[[1], "a"]', "2"), Case("[]", "3")], entry_point="f", limits=Limits(wall_seconds=2)
    )
