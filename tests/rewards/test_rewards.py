import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from rewards import shared, verl
from rewards.reward import Reward
from rewards.trl import code_reward
from sandbox import Case, Limits, Program, Referee, Sandbox, SandboxError, Suite

ECHO = Suite([Case("1", "1"), Case("2", "2")])
RIGHT, WRONG = "So:\n```python\nprint(input())\n```\n", "```python\nprint(1)\n```"
UNSURE = Suite([Case("1", "1")], checker="program", referee=Referee(Program("1 / 0")))


@pytest.fixture
def lost(monkeypatch):
    box = Sandbox(workers=1)
    box.close()
    monkeypatch.setattr(shared, "_made", {(os.getpid(), "sandbox"): box})


def test_a_program_that_passes_every_test_gets_one_and_others_nothing():
    tests = [ECHO.to_json()] * 3
    assert code_reward(completions=[RIGHT, WRONG, "No."], tests=tests, id=["a", "b", "c"]) == [1.0, 0.0, 0.0]


def test_conversations_are_judged_by_their_last_message():
    talk = [{"role": "assistant", "content": WRONG}, {"role": "assistant", "content": RIGHT}]
    assert code_reward(completions=[talk], tests=[ECHO.to_json()]) == [1.0]


def test_a_lost_sandbox_is_not_a_zero(lost):
    tests = [ECHO.to_json()] * 2
    assert code_reward(completions=[RIGHT, "No."], tests=tests) == [None, 0.0]


def test_a_checker_that_fails_is_not_a_zero():
    assert code_reward(completions=[RIGHT, RIGHT], tests=[UNSURE.to_json(), ECHO.to_json()]) == [None, 1.0]
    assert shared.reward(RIGHT, UNSURE, shared.shared_sandbox()) is None


TRUTH = '{"inputs": ["1"], "outputs": ["1"]}'


def test_no_single_completion_raises_and_where_verl_has_no_word_it_is_counted(lost, caplog):
    before = shared.unknown_count()
    assert verl.compute_score("mine", RIGHT, TRUTH) == verl.UNKNOWN == 0.0
    assert shared.unknown_count() == before + 1
    assert "sandbox_failed" in caplog.text
    assert shared.reward(RIGHT, ECHO, shared.shared_sandbox()) is None
    assert verl.compute_score("mine", "No.", TRUTH) == 0.0
    assert shared.unknown_count() == before + 2


@pytest.mark.parametrize("error", [RecursionError(), MemoryError(), OverflowError(), OSError(), KeyError("x")])
def test_not_even_one_that_finds_a_defect_of_the_sandbox(monkeypatch, error):
    class Defective(Sandbox):
        def judge(self, program, suite, *, run_all=False):
            raise error

    with Defective(workers=1) as box:
        monkeypatch.setattr(shared, "_made", {(os.getpid(), "sandbox"): box})
        assert code_reward(completions=[RIGHT], tests=[ECHO.to_json()]) == [None]
        assert verl.compute_score("mine", RIGHT, TRUTH) == verl.UNKNOWN


@pytest.mark.parametrize(
    "completion",
    [
        pytest.param([], id="an empty conversation"),
        pytest.param([{"role": "assistant", "content": None}], id="no content"),
        pytest.param([{"role": "assistant", "tool_calls": []}], id="a call of a tool"),
        pytest.param([{"role": "assistant", "content": [{"type": "image"}]}], id="a part without text"),
    ],
)
def test_messages_without_text_hold_no_program(completion):
    assert code_reward(completions=[completion], tests=[ECHO.to_json()]) == [0.0]


def test_parts_of_a_message_are_one_text():
    parts = [{"type": "text", "text": RIGHT[:9]}, {"type": "text", "text": RIGHT[9:]}]
    assert code_reward(completions=[[{"role": "assistant", "content": parts}]], tests=[ECHO.to_json()]) == [1.0]


def test_a_row_that_is_no_row_is_nobodys_completion():
    with pytest.raises(ValueError, match="Expecting value"):
        verl.compute_score("mine", RIGHT, "not JSON")


LOST, KNOWN = Reward(None, "sandbox_failed", 0.0, "the machine is gone"), Reward(1.0, "accepted")


def test_a_run_of_many_unknown_completions_stops_with_words(monkeypatch):
    monkeypatch.setattr(shared, "_made", {})
    for _ in range(49):
        assert shared.counted(LOST) is None
    assert shared.counted(KNOWN) == 1.0
    for _ in range(49):
        shared.counted(LOST)
    with pytest.raises(SandboxError, match=r"last 50 completions.*curate doctor.*the machine is gone"):
        shared.counted(LOST)
    assert shared.counted(KNOWN) == 1.0


def test_a_large_share_of_unknown_completions_stops_too(monkeypatch):
    monkeypatch.setattr(shared, "_made", {})
    with ThreadPoolExecutor(4) as threads:  # every third is known
        futures = [threads.submit(shared.counted, KNOWN if n % 3 == 0 else LOST) for n in range(150)]
    errors = [future.exception() for future in futures]
    assert sum(error is not None for error in errors) == 1
    with pytest.raises(SandboxError, match=r"101 of the last 200"):
        shared.counted(LOST)
    assert shared.unknown_count() == 101


def test_a_few_unknown_completions_in_a_long_run_do_not(monkeypatch):
    monkeypatch.setattr(shared, "_made", {})
    for n in range(3000):
        shared.counted(LOST if n % 3 == 0 else KNOWN)
    assert shared.unknown_count() == 1000


def test_tests_that_cannot_judge_are_not_blamed_on_the_sandbox(monkeypatch):
    monkeypatch.setattr(shared, "_made", {})
    unjudgeable = Reward(None, "tests_failed", 0.0, "no cases")
    for _ in range(49):
        shared.counted(unjudgeable)
    with pytest.raises(SandboxError, match="tests of the dataset"):
        shared.counted(unjudgeable)


def test_what_verl_calls_ground_truth_is_a_suite():
    assert verl.suite_of_ground_truth('{"inputs": ["1"], "outputs": ["2"]}') == Suite([Case("1", "2")])
    calls = '{"fn_name": "f", "inputs": ["[1]\\n\\"a\\"", ""], "outputs": ["2", "3"], "time_limit_s": 2}'
    assert verl.suite_of_ground_truth(calls) == Suite(
        [Case('[[1], "a"]', "2"), Case("[]", "3")], entry_point="f", limits=Limits(wall_seconds=2)
    )
