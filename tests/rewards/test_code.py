"""What a program is worth."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from answers import program, say

from rewards.code import CodeReward
from rewards.reward import Answer, Reward, Task
from sandbox import Case, ExecutionLost, Limits, Program, Referee, Sandbox, Suite, Verdict

DOUBLES = Suite([Case(f"{n}\n", f"{2 * n}\n") for n in range(20)])
RIGHT, WRONG = program("print(2 * int(input()))"), program("print(0)")


class Counting(Sandbox):
    """A real sandbox that notes what it is asked to judge."""

    def __init__(self) -> None:
        super().__init__(workers=2)
        self.asked: list[tuple[Program, Suite]] = []
        self.first = threading.Event()
        self.losses = 0  # that are still to come

    def judge(self, program, suite, *, run_all=False):
        self.asked.append((program, suite))
        self.first.set()
        if self.losses:
            self.losses -= 1
            raise ExecutionLost("the machine was starved")
        return super().judge(program, suite, run_all=run_all)


@pytest.fixture
def counting():
    with Counting() as box:
        yield box


@pytest.fixture
def closed():
    box = Sandbox(workers=1)
    box.close()
    return box


def found(reward: Reward) -> tuple[float | None, str]:
    return reward.value, reward.verdict


@pytest.mark.parametrize(
    ("answer", "value", "verdict"),
    [
        pytest.param(RIGHT, 1.0, "accepted", id="right"),
        pytest.param(WRONG, 0.0, "wrong_answer", id="wrong"),
        pytest.param(program("n = int(input())\nprint(2 * n if n < 19 else 0)"), 0.0, "wrong_answer", id="nearly"),
        pytest.param(program("1 / 0"), 0.0, "runtime_error", id="crash"),
        pytest.param(program("print("), 0.0, "compile_error", id="not Python"),
        pytest.param(program("\0"), 0.0, "compile_error", id="a zero byte"),
        pytest.param(program("print('\ud800')"), 0.0, "compile_error", id="half a character"),
        pytest.param(say("I do not know."), 0.0, "no_code", id="no program"),
        pytest.param(say(""), 0.0, "no_code", id="nothing"),
        pytest.param(say("```python\nprint(", truncated=True), 0.0, "truncated", id="cut off"),
        pytest.param(program("print(2 * int(input()))", truncated=True), 1.0, "accepted", id="cut off behind it"),
        pytest.param(say(f"{WRONG.text}Better:\n{RIGHT.text}"), 1.0, "accepted", id="the last counts"),
        pytest.param(say(f"{RIGHT.text}Or:\n{WRONG.text}"), 0.0, "wrong_answer", id="also if it is wrong"),
        pytest.param(say(f"<think>{RIGHT.text}</think>"), 0.0, "no_code", id="only thought of"),
    ],
)
def test_a_program_is_worth_one_if_it_passes_every_test_and_else_nothing(box, answer, value, verdict):
    assert found(CodeReward(box)(answer, Task(tests=DOUBLES))) == (value, verdict)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("class Solution:\n    def double(self, n):\n        return 2 * n", 1.0),
        ("def double(n):\n    return 2 * n", 1.0),
        ("def double(n):\n    print(2 * n)", 0.0),
        ("def twice(n):\n    return 2 * n", 0.0),
        ("class Any:\n    __eq__ = lambda *_: True\ndef double(n):\n    return Any()", 0.0),
    ],
)
def test_functions_are_called(box, source, value):
    suite = Suite([Case(f"[{n}]", f"{2 * n}") for n in range(5)], entry_point="double")
    assert CodeReward(box)(program(source), Task(tests=suite)).value == value


def test_answers_learnt_from_the_examples_of_the_prompt_are_worth_nothing(box):
    learnt = program("print({'0': 0, '1': 2}.get(input(), 4))")
    for select in ("longest", "strongest", "all"):
        assert found(CodeReward(box, select=select, tests=3)(learnt, Task(tests=DOUBLES))) == (0.0, "wrong_answer")


def test_no_program_can_end_the_judging_well_without_passing_it(box):
    for source in ("import os\nos._exit(0)", "raise SystemExit", "print('accepted')", "import sys\nsys.exit(0)"):
        assert CodeReward(box)(program(source), Task(tests=DOUBLES)).value == 0.0


def test_megabytes_of_hostile_text_are_worth_nothing(box):
    texts = ["`" * 10_000_000, "```python\n" * 100_000, "```\n" * 300_000]
    assert [CodeReward(box)(say(text), Task(tests=DOUBLES)).value for text in texts] == [0.0] * 3
    long = program("#" * 4_000_000 + "\nprint(0)")
    assert found(CodeReward(box)(long, Task(tests=DOUBLES))) == (0.0, "wrong_answer")


def test_fifteen_tests_with_the_longest_inputs_are_run_and_the_first_failure_is_the_last(counting):
    suite = Suite([Case("1" * n, "no") for n in range(1, 31)])
    reward = CodeReward(counting)
    assert reward(WRONG, Task(tests=suite)).value == 0.0
    ((_, run),) = counting.asked
    assert [len(case.input) for case in run.cases] == list(range(30, 15, -1))
    assert len(counting.judge(*counting.asked[0]).cases) == 1


def test_the_strongest_tests_are_those_of_the_problem(counting):
    CodeReward(counting, select="strongest", tests=2)(WRONG, Task(tests=DOUBLES, strongest_tests=(7, 3, 5)))
    assert [case.input for case in counting.asked[0][1].cases] == ["7\n", "3\n"]


@pytest.mark.parametrize(
    ("own", "calibrated", "seconds"),
    [(2, None, 6), (8, None, 8), (60, None, 12), (10, 1.5, 6), (10, 7.5, 7.5), (10, 99, 12)],
)
def test_a_test_has_the_time_of_its_problem_within_bounds(counting, own, calibrated, seconds):
    suite = Suite([Case("", "")], limits=Limits(wall_seconds=own, cpu_seconds=1, memory_mb=300))
    CodeReward(counting)(WRONG, Task(tests=suite, time_limit_seconds=calibrated))
    assert counting.asked[0][1].limits == Limits(wall_seconds=seconds, memory_mb=300)


def test_what_takes_too_long_is_worth_nothing(box):
    reward = CodeReward(box, least_wall_seconds=0.2, most_wall_seconds=0.5)
    assert found(reward(program("while True: pass"), Task(tests=DOUBLES))) == (0.0, "time_limit")


def test_identical_programs_are_judged_once_for_the_same_tests(counting):
    reward = CodeReward(counting)
    answers = [RIGHT, WRONG, say(f"Otherwise put:\n{RIGHT.text}"), RIGHT]
    for _ in range(2):
        assert [reward(answer, Task(tests=DOUBLES)).value for answer in answers] == [1.0, 0.0, 1.0, 1.0]
    assert len(counting.asked) == 2
    others = Suite([*DOUBLES.cases[:-1], Case("19\n", "39\n")])
    assert reward(RIGHT, Task(tests=others)).value == 0.0
    assert reward(RIGHT, Task(tests=DOUBLES, time_limit_seconds=9)).value == 1.0
    assert len(counting.asked) == 4


def test_an_identical_program_waits_for_the_one_that_is_being_judged(counting):
    reward, slow = CodeReward(counting), program("import time\ntime.sleep(0.05)\nprint(2 * int(input()))")
    with ThreadPoolExecutor(8) as threads:
        scored = list(threads.map(lambda _: found(reward(slow, Task(tests=DOUBLES))), range(8)))
    assert Counter(scored) == {(1.0, "accepted"): 8}
    assert len(counting.asked) == 1


def test_a_sandbox_that_recovers_is_asked_again(counting):
    counting.losses = 2
    assert found(CodeReward(counting)(RIGHT, Task(tests=DOUBLES))) == (1.0, "accepted")
    assert len(counting.asked) == 3


def test_a_sandbox_that_is_lost_gives_no_signal_and_that_is_not_remembered(counting):
    counting.losses = 3
    reward = CodeReward(counting)
    assert found(reward(RIGHT, Task(tests=DOUBLES))) == (None, "sandbox_failed")
    assert len(counting.asked) == 3
    assert found(reward(RIGHT, Task(tests=DOUBLES))) == (1.0, "accepted")


def test_without_a_sandbox_only_what_has_no_program_has_a_reward(closed):
    reward = CodeReward(closed)
    assert found(reward(RIGHT, Task(tests=DOUBLES))) == (None, "sandbox_failed")
    assert found(reward(say("No."), Task(tests=DOUBLES))) == (0.0, "no_code")


CRASHES = Referee(Program("1 / 0"))


@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(Suite([Case("1", "1")], checker="program", referee=CRASHES), id="a checker that crashes"),
        pytest.param(Suite([]), id="no tests"),
        pytest.param(Suite([Case("1", "1")], checker="nonsense"), id="an unknown checker"),
        pytest.param(Suite([Case("[1", "1")], entry_point="f"), id="arguments that are no JSON"),
        pytest.param(Suite([Case("1", "1")], checker="program"), id="no referee"),
    ],
)
def test_tests_that_nobody_can_be_judged_by_give_no_signal(box, suite):
    assert found(CodeReward(box)(RIGHT, Task(tests=suite))) == (None, "tests_failed")
    assert found(CodeReward(box)(say("No."), Task(tests=suite))) == (0.0, "no_code")


def test_places_of_tests_that_there_are_not_give_no_signal(box):
    task = Task(tests=DOUBLES, strongest_tests=(99,))
    assert found(CodeReward(box, select="strongest")(RIGHT, task)) == (None, "tests_failed")
    task = Task(tests=DOUBLES, time_limit_seconds=float("nan"))
    assert found(CodeReward(box)(RIGHT, task)) == (None, "tests_failed")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"select": "best"}, "longest, strongest, all"),
        ({"tests": 0}, "at least 1"),
        ({"least_wall_seconds": 13}, "at most most_wall_seconds"),
        ({"least_wall_seconds": 0}, "above 0"),
        ({"least_wall_seconds": float("nan")}, "above 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(box, options, words):
    with pytest.raises(ValueError, match=words):
        CodeReward(box, **options)


def test_a_task_without_tests_is_a_mistake_and_not_a_reward(box):
    with pytest.raises(ValueError, match="needs tests"):
        CodeReward(box)(RIGHT, Task(expected="4"))


def test_a_program_of_any_length_has_a_value(counting) -> None:
    answer = Answer("```python\n" + "#" * (40 << 20) + "\nprint(7)\n```", 0)
    assert CodeReward(counting)(answer, Task(tests=Suite([Case("", "7")]))).value == 0.0
    assert counting.judge(Program("#" * (17 << 20)), Suite([Case("", "7")])).verdict is Verdict.COMPILE_ERROR
