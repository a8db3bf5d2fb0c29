"""TRL gets a reward for each completion, or None where it is unknown."""

import pytest

from rewards import Completion, Task
from rewards.process_singletons import get_shared_reward, record_and_get_value
from rewards.trl import code_reward
from sandbox import Case, Program, Referee, Suite

ECHO = Suite([Case("1", "1"), Case("2", "2")])
RIGHT, WRONG = "So:\n```python\nprint(input())\n```\n", "```python\nprint(1)\n```"
CRASHING_CHECKER = Suite([Case("1", "1")], checker="program", referee=Referee(Program("1 / 0")))


def test_a_program_that_passes_every_test_is_worth_one_and_any_other_answer_zero():
    tests = [ECHO.to_json()] * 3
    assert code_reward(completions=[RIGHT, WRONG, "No."], tests=tests, id=["a", "b", "c"]) == [1.0, 0.0, 0.0]


def test_a_conversation_is_judged_by_its_last_message():
    conversation = [{"role": "assistant", "content": WRONG}, {"role": "assistant", "content": RIGHT}]
    assert code_reward(completions=[conversation], tests=[ECHO.to_json()]) == [1.0]


def test_a_lost_sandbox_is_not_a_zero(lost_sandbox):
    tests = [ECHO.to_json()] * 2
    assert code_reward(completions=[RIGHT, "No."], tests=tests) == [None, 0.0]


def test_a_checker_that_crashes_is_not_a_zero():
    tests = [CRASHING_CHECKER.to_json(), ECHO.to_json()]
    assert code_reward(completions=[RIGHT, RIGHT], tests=tests) == [None, 1.0]
    assert record_and_get_value(get_shared_reward()(Completion(RIGHT, 0), Task(tests=CRASHING_CHECKER))) is None


@pytest.mark.usefixtures("defective_sandbox")
def test_a_completion_that_reveals_a_defect_of_the_sandbox_raises_nothing():
    assert code_reward(completions=[RIGHT], tests=[ECHO.to_json()]) == [None]


@pytest.mark.parametrize(
    "completion",
    [
        pytest.param([], id="an empty conversation"),
        pytest.param([{"role": "assistant", "content": None}], id="no content"),
        pytest.param([{"role": "assistant", "tool_calls": []}], id="a tool call"),
        pytest.param([{"role": "assistant", "content": [{"type": "image"}]}], id="a part without text"),
    ],
)
def test_messages_without_text_contain_no_program(completion):
    assert code_reward(completions=[completion], tests=[ECHO.to_json()]) == [0.0]


def test_the_parts_of_a_message_are_joined_to_one_text():
    parts = [{"type": "text", "text": RIGHT[:9]}, {"type": "text", "text": RIGHT[9:]}]
    assert code_reward(completions=[[{"role": "assistant", "content": parts}]], tests=[ECHO.to_json()]) == [1.0]
