"""A program is worth 1 if it passes every test, and 0 otherwise."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from answers import RIGHT, WRONG, program_answer, text_answer

from rewards.code import CodeReward
from rewards.reward import Completion, Reward, Task
from sandbox import Assertions, Case, ExecutionLost, Limits, Program, Referee, Sandbox, Suite, Verdict

DOUBLES = Suite([Case(f"{n}\n", f"{2 * n}\n") for n in range(20)])


class RecordingSandbox(Sandbox):
    """Asks a real sandbox, records what it is asked to judge, and fails the first `losses` times."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box
        self.requests: list[tuple[Program, Suite]] = []
        self.losses = 0

    def judge(self, program, suite, *, run_all=False):
        self.requests.append((program, suite))
        if self.losses:
            self.losses -= 1
            raise ExecutionLost("the machine was starved")
        return self._box.judge(program, suite, run_all=run_all)


@pytest.fixture
def recording(box):
    return RecordingSandbox(box)


def outcome(reward: Reward) -> tuple[float | None, str]:
    return reward.value, reward.verdict


@pytest.mark.parametrize(
    ("answer", "value", "verdict"),
    [
        pytest.param(RIGHT, 1.0, "accepted", id="right"),
        pytest.param(WRONG, 0.0, "wrong_answer", id="wrong"),
        pytest.param(
            program_answer("n = int(input())\nprint(2 * n if n < 19 else 0)"), 0.0, "wrong_answer", id="nearly"
        ),
        pytest.param(program_answer("1 / 0"), 0.0, "runtime_error", id="crash"),
        pytest.param(program_answer("print("), 0.0, "compile_error", id="not Python"),
        pytest.param(program_answer("\0"), 0.0, "compile_error", id="a zero byte"),
        pytest.param(program_answer("print('\ud800')"), 0.0, "compile_error", id="half a character"),
        pytest.param(text_answer("I do not know."), 0.0, "no_code", id="no program"),
        pytest.param(text_answer(""), 0.0, "no_code", id="nothing"),
        pytest.param(text_answer("```python\nprint(", truncated=True), 0.0, "truncated", id="cut off"),
        pytest.param(program_answer("print(2 * int(input()))", truncated=True), 1.0, "accepted", id="cut off after it"),
        pytest.param(text_answer(f"{WRONG.text}Better:\n{RIGHT.text}"), 1.0, "accepted", id="the last counts"),
        pytest.param(text_answer(f"{RIGHT.text}Or:\n{WRONG.text}"), 0.0, "wrong_answer", id="also if it is wrong"),
        pytest.param(text_answer(f"<think>{RIGHT.text}</think>"), 0.0, "no_code", id="only in a thought"),
    ],
)
def test_a_program_is_worth_one_if_it_passes_every_test_else_nothing(box, answer, value, verdict):
    assert outcome(CodeReward(box)(answer, Task(tests=DOUBLES))) == (value, verdict)


@pytest.mark.parametrize(
    ("label", "languages", "value"),
    [("python", ("python",), 1.0), ("", ("python",), 0.0), ("py3", ("python", "cpp"), 1.0), ("text", ("python",), 0.0)],
)
def test_a_label_can_be_required(box, label, languages, value):
    reward = CodeReward(box, languages=languages, labeled_only=True)
    answer = text_answer(f"Like this:\n\n```{label}\nprint(2 * int(input()))\n```")
    assert outcome(reward(answer, Task(DOUBLES))) == (value, "accepted" if value else "no_code")


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
    assert CodeReward(box)(program_answer(source), Task(tests=suite)).value == value


def test_printing_the_examples_of_the_prompt_is_worth_nothing(box):
    memorised = program_answer("print({'0': 0, '1': 2}.get(input(), 4))")
    for select in ("longest", "strongest", "all"):
        assert outcome(CodeReward(box, select=select, tests=3)(memorised, Task(tests=DOUBLES))) == (0.0, "wrong_answer")


def test_no_program_is_accepted_by_ending_early(box):
    for source in ("import os\nos._exit(0)", "raise SystemExit", "print('accepted')", "import sys\nsys.exit(0)"):
        assert CodeReward(box)(program_answer(source), Task(tests=DOUBLES)).value == 0.0


def test_megabytes_of_hostile_text_are_worth_nothing(box):
    texts = ["`" * 10_000_000, "```python\n" * 100_000, "```\n" * 300_000]
    assert [CodeReward(box)(text_answer(text), Task(tests=DOUBLES)).value for text in texts] == [0.0] * 3
    long = program_answer("#" * 4_000_000 + "\nprint(0)")
    assert outcome(CodeReward(box)(long, Task(tests=DOUBLES))) == (0.0, "wrong_answer")


def test_fifteen_tests_with_the_longest_inputs_are_run_until_the_first_failure(recording):
    suite = Suite([Case("1" * n, "no") for n in range(1, 31)])
    reward = CodeReward(recording)
    assert reward(WRONG, Task(tests=suite)).value == 0.0
    ((_, run),) = recording.requests
    assert [len(case.input) for case in run.cases] == list(range(30, 15, -1))
    assert len(recording.judge(*recording.requests[0]).cases) == 1


def test_the_strongest_tests_are_the_ones_that_the_problem_lists(recording):
    CodeReward(recording, select="strongest", tests=2)(WRONG, Task(tests=DOUBLES, strongest_tests=(7, 3, 5)))
    assert [case.input for case in recording.requests[0][1].cases] == ["7\n", "3\n"]


@pytest.mark.parametrize(
    ("own", "calibrated", "seconds"),
    [(2, None, 6), (8, None, 8), (60, None, 12), (10, 1.5, 6), (10, 7.5, 7.5), (10, 99, 12)],
)
def test_the_time_limit_is_that_of_the_problem_within_bounds(recording, own, calibrated, seconds):
    suite = Suite([Case("", "")], limits=Limits(wall_seconds=own, cpu_seconds=1, memory_mb=300))
    CodeReward(recording)(WRONG, Task(tests=suite, time_limit_seconds=calibrated))
    assert recording.requests[0][1].limits == Limits(wall_seconds=seconds, memory_mb=300)


def test_a_program_that_takes_too_long_is_worth_nothing(box):
    reward = CodeReward(box, min_test_seconds=0.2, max_test_seconds=0.5)
    assert outcome(reward(program_answer("while True: pass"), Task(tests=DOUBLES))) == (0.0, "time_limit")


def test_identical_programs_are_judged_once_for_the_same_tests(recording):
    reward = CodeReward(recording)
    answers = [RIGHT, WRONG, text_answer(f"Otherwise put:\n{RIGHT.text}"), RIGHT]
    for _ in range(2):
        assert [reward(answer, Task(tests=DOUBLES)).value for answer in answers] == [1.0, 0.0, 1.0, 1.0]
    assert len(recording.requests) == 2
    others = Suite([*DOUBLES.cases[:-1], Case("19\n", "39\n")])
    assert reward(RIGHT, Task(tests=others)).value == 0.0
    assert reward(RIGHT, Task(tests=DOUBLES, time_limit_seconds=9)).value == 1.0
    assert len(recording.requests) == 4


def test_an_identical_program_waits_for_the_one_that_is_being_judged(recording):
    reward, slow = CodeReward(recording), program_answer("import time\ntime.sleep(0.05)\nprint(2 * int(input()))")
    with ThreadPoolExecutor(8) as threads:
        scored = list(threads.map(lambda _: outcome(reward(slow, Task(tests=DOUBLES))), range(8)))
    assert Counter(scored) == {(1.0, "accepted"): 8}
    assert len(recording.requests) == 1


def test_a_sandbox_that_recovers_is_asked_again(recording):
    recording.losses = 2
    assert outcome(CodeReward(recording)(RIGHT, Task(tests=DOUBLES))) == (1.0, "accepted")
    assert len(recording.requests) == 3


def test_the_reward_is_unknown_if_the_sandbox_is_lost_and_that_is_not_remembered(recording):
    recording.losses = 3
    reward = CodeReward(recording)
    assert outcome(reward(RIGHT, Task(tests=DOUBLES))) == (None, "sandbox_failed")
    assert len(recording.requests) == 3
    assert outcome(reward(RIGHT, Task(tests=DOUBLES))) == (1.0, "accepted")


def test_without_a_sandbox_only_answers_without_a_program_have_a_reward(closed_box):
    reward = CodeReward(closed_box)
    assert outcome(reward(RIGHT, Task(tests=DOUBLES))) == (None, "sandbox_failed")
    assert outcome(reward(text_answer("No."), Task(tests=DOUBLES))) == (0.0, "no_code")


CRASHING_REFEREE = Referee(Program("1 / 0"))


@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(Suite([Case("1", "1")], checker="program", referee=CRASHING_REFEREE), id="a checker that crashes"),
        pytest.param(Suite([]), id="no tests"),
        pytest.param(Suite([Case("1", "1")], checker="nonsense"), id="an unknown checker"),
        pytest.param(Suite([Case("[1", "1")], entry_point="f"), id="arguments that are not JSON"),
        pytest.param(Suite([Case("1", "1")], checker="program"), id="no referee"),
    ],
)
def test_the_reward_is_unknown_if_the_tests_cannot_be_used(box, suite):
    assert outcome(CodeReward(box)(RIGHT, Task(tests=suite))) == (None, "tests_failed")
    assert outcome(CodeReward(box)(text_answer("No."), Task(tests=suite))) == (0.0, "no_code")


def test_the_reward_is_unknown_if_strongest_tests_or_the_time_limit_make_no_sense(box):
    task = Task(tests=DOUBLES, strongest_tests=(99,))
    assert outcome(CodeReward(box, select="strongest")(RIGHT, task)) == (None, "tests_failed")
    task = Task(tests=DOUBLES, time_limit_seconds=float("nan"))
    assert outcome(CodeReward(box)(RIGHT, task)) == (None, "tests_failed")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": "best"}, "longest, strongest, all"),
        ({"tests": 0}, "at least 1"),
        ({"min_test_seconds": 13}, "at most max_test_seconds"),
        ({"min_test_seconds": 0}, "above 0"),
        ({"min_test_seconds": float("nan")}, "above 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(box, options, message):
    with pytest.raises(ValueError, match=message):
        CodeReward(box, **options)


def test_a_task_without_tests_is_a_mistake_and_not_a_reward(box):
    with pytest.raises(ValueError, match="needs tests"):
        CodeReward(box)(RIGHT, Task(expected="4"))


def test_a_program_of_any_length_has_a_known_reward(recording) -> None:
    answer = Completion("```python\n" + "#" * (40 << 20) + "\nprint(7)\n```", 0)
    assert CodeReward(recording)(answer, Task(tests=Suite([Case("", "7")]))).value == 0.0
    assert recording.judge(Program("#" * (17 << 20)), Suite([Case("", "7")])).verdict is Verdict.COMPILE_ERROR


CPP_RIGHT = "```cpp\n#include <iostream>\nint main() { int n; std::cin >> n; std::cout << 2 * n; }\n```"


def test_an_answer_in_cpp_is_judged_where_cpp_is_allowed(recording):
    reward = CodeReward(recording, languages=("python", "cpp"))
    task = Task(tests=DOUBLES)
    assert reward(text_answer(CPP_RIGHT), task).value == 1.0
    assert reward(text_answer(CPP_RIGHT.replace("2 *", "3 *")), task).verdict == "wrong_answer"
    assert reward(text_answer(CPP_RIGHT.replace(";", "")), task).verdict == "compile_error"
    assert reward(RIGHT, task).value == 1.0
    assert {program.language for program, _ in recording.requests} == {"cpp", "python"}


def test_an_answer_in_cpp_is_not_a_program_by_default_nor_where_a_function_is_called(recording):
    assert CodeReward(recording)(text_answer(CPP_RIGHT), Task(tests=DOUBLES)).verdict == "no_code"
    calls = Task(tests=Suite([Case("[1]", "2")], entry_point="double"))
    reward = CodeReward(recording, languages=("python", "cpp"))
    assert (scored := reward(text_answer(CPP_RIGHT), calls)).value == 0.0
    assert scored.verdict == "no_code"
    assert reward(program_answer("def double(n): return 2 * n"), calls).value == 1.0


@pytest.mark.parametrize("languages", [(), ("rust",), ("python", "c++")])
def test_languages_that_the_sandbox_does_not_have_are_refused(box, languages):
    with pytest.raises(ValueError, match="languages must be one or more of cpp, python"):
        CodeReward(box, languages=languages)


def test_languages_are_a_tuple_and_not_a_word(box):
    with pytest.raises(TypeError, match="must be a tuple of languages"):
        CodeReward(box, languages="cpp")


@pytest.mark.parametrize(("program", "value"), [("def f(x): return (x,)", 1.0), ("def f(x): return [x]", 0.0)])
def test_tests_that_are_python_give_rewards_like_any_others(box, program, value):
    cases = [Case("f(3)", "(3,)"), Case("assert f([])[0] == []", "")]
    suite = Suite(cases, checker="python", assertions=Assertions(("f",)))
    assert CodeReward(box)(program_answer(program), Task(tests=suite)).value == value
