"""A time limit counts if the answer exceeds it alone, too, or twice over. No answer that hangs runs alone."""

import threading
from collections import Counter

import pytest
from evalplus_rows import humaneval_plus_row
from source_rows import livecodebench_row, write_jsonl

from sandbox import Limits, RefereeError
from train.evaluation.exercises import read_exercises
from train.evaluation.judges.cruxeval_judges import InputJudge, OutputJudge
from train.evaluation.judges.judge import JudgeResult
from train.evaluation.judges.time_limits import FACTOR, judge_all
from train.evaluation.protocols.settings import SuiteSettings

pytestmark = pytest.mark.usefixtures("own_cache")
OK, SLOW, WRONG = map(JudgeResult, ("accepted", "time_limit", "wrong_answer"))
LIMIT = 0.4  # seconds; these programs take 1.5 times as much CPU time on every machine
BUSY = "import time; end = time.process_time() + 0.6\n    while time.process_time() < end: pass\n"
BUSY_EXPRESSION = (
    "[t := __import__('time'), end := t.process_time() + 0.6, next(1 for n in iter(t.process_time, -1) if n > end)][2]"
)


class Answers:
    """Judges answers by their names, and notes how many others are being judged with each."""

    def __init__(self):
        self.calls = Counter()
        self._lock = threading.Lock()
        self._near_begin = threading.Barrier(2)  # the two answers that are near the limit run beside each other
        self._n_running = 0

    def judge(self, name, time_factor):
        with self._lock:
            self.calls[name, time_factor] += 1
            first = self.calls[name, time_factor] == 1
            self._n_running += 1
            beside = self._n_running - 1
        try:
            if name.startswith("near") and time_factor == 1 and first:
                self._near_begin.wait(timeout=60)
            if name == "fails":
                raise RefereeError("no ruling")
            if name == "hangs":
                return SLOW
            if not name.startswith("near"):
                return OK
            if time_factor > 1:
                return WRONG
            return SLOW if first else OK if (name, beside) == ("near, fast alone", 0) else SLOW
        finally:
            with self._lock:
                self._n_running -= 1


def test_answers_near_the_limit_are_judged_once_more_alone_and_last(box):
    names = ["near, fast alone", "near, slow alone", "hangs", "fails", *(f"right {number}" for number in range(20))]
    answers = Answers()
    found = list(judge_all(names, answers.judge, box))
    assert {name for name, _ in found[-2:]} == {"near, fast alone", "near, slow alone"}
    verdicts = dict(found)
    assert isinstance(verdicts.pop("fails"), RefereeError)
    assert {name: result.verdict for name, result in verdicts.items() if result != OK} == {
        "near, slow alone": "time_limit",
        "hangs": "time_limit",
    }
    assert len(found) == len(names)
    near = {("near, fast alone", 1.0): 2, ("near, fast alone", FACTOR): 1}
    near |= {("near, slow alone", 1.0): 2, ("near, slow alone", FACTOR): 1}
    twice = near | {("hangs", 1.0): 1, ("hangs", FACTOR): 1}
    assert {call: n for call, n in answers.calls.items() if not call[0].startswith(("right", "fails"))} == twice


def exercise(tmp_path, suite, row, seconds):
    path = str(write_jsonl(tmp_path / "rows.jsonl", [row]))
    (found,) = read_exercises(path, suite=suite, settings=SuiteSettings(test_seconds=seconds))
    return found


@pytest.mark.parametrize(
    ("suite", "row", "program"),
    [
        ("lcb", livecodebench_row("a", "Print one.", [("1\n", "1\n")]), f"{BUSY}print(1)".replace("    ", "")),
        ("humaneval+", humaneval_plus_row(), f"def up(ns):\n    {BUSY}    return [n + 1 for n in ns]"),
    ],
)
def test_a_factor_multiplies_the_limits_of_programs_and_of_calls(tmp_path, box, suite, row, program):
    near = exercise(tmp_path, suite, row, LIMIT)
    answer = f"```python\n{program}\n```"
    assert near.judge_completion(answer, box).verdict == "time_limit"
    assert near.judge_completion(answer, box, time_factor=FACTOR).verdict == "accepted"
    assert near.fingerprint != exercise(tmp_path, suite, row, None).fingerprint


@pytest.mark.parametrize(
    ("judge", "answer"),
    [
        (OutputJudge("1", seconds=LIMIT), BUSY_EXPRESSION),
        (InputJudge("def f(n):\n    return n", "1", seconds=LIMIT), f"f({BUSY_EXPRESSION})"),
    ],
)
def test_a_factor_multiplies_the_limits_of_predictions(box, judge, answer):
    assert judge.judge(answer, box).verdict == "time_limit"
    assert judge.judge(answer, box, time_factor=FACTOR).verdict == "accepted"


def test_a_limit_is_multiplied_as_far_as_a_run_can_have_it():
    limits = Limits(wall_seconds=2.0, budget_seconds=60_000.0)
    assert limits.with_time_factor(2.0) == Limits(wall_seconds=4.0, budget_seconds=100_000.0)
