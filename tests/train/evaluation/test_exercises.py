"""Sets of problems are read for evaluation. HumanEval's tests decide, and no answer can reach them."""

import gzip
import json
from dataclasses import replace

import pytest
import tiny_world
from source_rows import DATA, SUM_TESTS, apps_row, livecodebench_row, words, write_jsonl

from curate.errors import CurateError
from curate.pipeline import BuildOptions, build
from curate.trust import TrustPolicy
from rewards.reward import ACCEPTED, NO_CODE
from sandbox import Assertions, Case, Program, SandboxOptions, Suite, Verdict
from train.evaluation.exercises import read_exercises
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.suites.suite import Exercise

HUMANEVAL = DATA / "eval" / "HumanEval.jsonl.gz"
LIVECODEBENCH = DATA / "livecodebench"
ROW = {
    "task_id": "HumanEval/0",
    "prompt": "from typing import List\n\ndef half(n: int) -> int:\n    return n // 2\n\n\n"
    'def halves(ns: List[int]) -> List[int]:\n    """Half of each, rounded down."""\n',
    "entry_point": "halves",
    "canonical_solution": "    return [half(n) for n in ns]\n",
    "test": "METADATA = {}\n\ndef check(candidate):\n    assert candidate([1, 2, 5]) == [0, 1, 2]\n"
    "    assert candidate([]) == []\n",
}


def read_humaneval(folder):
    path = folder / "HumanEval.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(ROW) + "\n")
    (exercise,) = read_exercises(str(path))
    return exercise


@pytest.fixture
def humaneval(tmp_path):
    return read_humaneval(tmp_path)


RIGHT = "def halves(ns: List[int]) -> List[int]:\n    return [half(n) for n in ns]\n"


ANSWERS = {
    "helpers and imports of the prompt are there": (RIGHT, Verdict.ACCEPTED),
    "prints": ("def halves(ns):\n    return [n // 2 for n in ns]\nprint(halves([4]))", Verdict.ACCEPTED),
    "future": ("from __future__ import annotations\n" + RIGHT, Verdict.ACCEPTED),
    "wrong": ("def halves(ns):\n    return ns", Verdict.WRONG_ANSWER),
    "another function": ("def other(ns):\n    return ns", Verdict.RUNTIME_ERROR),
    "imports are its own": (
        "def halves(ns):\n    return [math.floor(n / 2) for n in ns]",
        Verdict.RUNTIME_ERROR,
    ),
    "leaves before the tests": ("import sys\nsys.exit(0)", Verdict.RUNTIME_ERROR),
    "returns what is equal to everything": (
        "class Any:\n    def __eq__(self, other): return True\ndef halves(ns):\n    return Any()",
        Verdict.WRONG_ANSWER,
    ),
    "hangs": ("def halves(ns):\n    while True: pass", Verdict.TIME_LIMIT),
    "no Python": ("def halves(ns)\n    return", Verdict.COMPILE_ERROR),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory, box):
    """Return the verdicts on all answers, which are judged at the same time."""
    suite = read_humaneval(tmp_path_factory.mktemp("set")).judge.suite
    short = replace(suite, limits=replace(suite.limits, wall_seconds=1.0))
    pairs = [(Program(answer), short if name == "hangs" else suite) for name, (answer, _) in ANSWERS.items()]
    judgements = dict(box.judge_many(pairs))
    return {name: judgements[index].verdict for index, name in enumerate(ANSWERS)}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_to_humaneval_are_judged_by_its_assertions(verdicts, name):
    assert verdicts[name] is ANSWERS[name][1]


def test_humaneval_prompts_ask_to_complete_code(humaneval):
    (message,) = humaneval.prompt
    assert ROW["prompt"].strip() in message["content"]
    assert "`halves` is called" in message["content"]
    assert "assert" not in message["content"]


@pytest.mark.thorough
@pytest.mark.skipif(not HUMANEVAL.is_file(), reason="the real data are not beside this checkout")
def test_every_solution_of_humaneval_itself_passes_and_no_empty_body_does(box):
    problems = read_exercises(str(HUMANEVAL))
    assert len(problems) == 164
    with gzip.open(HUMANEVAL, "rt") as file:
        rows = {row["task_id"]: row for row in map(json.loads, file)}
    solved = [(rows[one.id]["prompt"] + rows[one.id]["canonical_solution"], one) for one in problems]
    empty = [(rows[one.id]["prompt"] + "    pass\n", one) for one in problems]
    pairs = [(Program(source), one.judge.suite) for source, one in [*solved, *empty]]
    accepted = {index for index, judgement in box.judge_many_with_errors(pairs) if judgement.accepted}
    assert accepted == set(range(164))


@pytest.fixture
def livecodebench(tmp_path):
    days = {"a": "2024-07-31", "b": "2024-08-01", "c": "2025-02-01", "d": "2025-02-02"}
    rows = [livecodebench_row(id, words(id), SUM_TESTS, contest_date=f"{day}T00:00:00") for id, day in days.items()]
    return write_jsonl(tmp_path / "lcb" / "test.jsonl", rows)


def test_a_window_includes_its_first_and_last_day(livecodebench):
    found = read_exercises(str(livecodebench), "2024-08-01..2025-02-01")
    assert [one.id for one in found] == ["livecodebench/b", "livecodebench/c"]
    assert len(read_exercises(str(livecodebench.parent))) == 4


def test_a_dataset_has_the_same_exercises_as_the_rows_it_was_built_from(livecodebench, tmp_path):
    out = tmp_path / "out"
    build([("livecodebench", str(livecodebench))], out, BuildOptions(), sandbox=SandboxOptions(workers=2))
    window = "2024-08-01..2025-02-01"
    everything = TrustPolicy(include_unverified=True)  # LiveCodeBench publishes no references
    assert {one.fingerprint for one in read_exercises(str(out), window, trust=everything)} == {
        one.fingerprint for one in read_exercises(str(livecodebench), window)
    }


def test_unverified_rows_of_a_dataset_are_left_out_and_counted(livecodebench, tmp_path, caplog):
    verified = write_jsonl(tmp_path / "apps.jsonl", [apps_row(1, words("e"))])
    both = [("livecodebench", str(livecodebench)), ("apps", str(verified))]
    build(both, tmp_path / "out", BuildOptions(mutants=0, cross_checks=0), sandbox=SandboxOptions(workers=2))
    assert [one.id for one in read_exercises(str(tmp_path / "out"))] == ["apps/1"]
    assert "left out: unverified 4 (no reference has passed the tests; --include unverified" in caplog.text
    build(both[:1], tmp_path / "none", BuildOptions(), sandbox=SandboxOptions(workers=2))
    with pytest.raises(CurateError, match="contains no problems .left out: unverified 4 .*--include unverified adds"):
        read_exercises(str(tmp_path / "none"))


def test_a_damaged_dataset_is_named(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"id": ["a"], "statement": ["Add."]}), tmp_path / "data" / "train-0.parquet")
    with pytest.raises(CurateError, match="there is no manifest.json .* Pass --include altered to use"):
        read_exercises(str(tmp_path))
    with pytest.raises(CurateError, match="not a dataset of this version of curate, or damaged"):
        read_exercises(str(tmp_path), trust=TrustPolicy(include_altered=True))


def test_a_part_of_a_set_is_always_the_same_and_keeps_its_order(livecodebench):
    every = [one.id for one in read_exercises(str(livecodebench))]
    two = [one.id for one in read_exercises(str(livecodebench), max_problems=2)]
    three = [one.id for one in read_exercises(str(livecodebench), max_problems=3)]
    assert len(two) == 2
    assert set(two) < set(three) < set(every)
    assert three == [id for id in every if id in three]


def test_unreadable_problems_are_named_and_left_out(tmp_path, caplog):
    bad = livecodebench_row(
        "bad", "Add.", [("1 2", "Error: out of range")] * 2, func_name="add", starter_code="class S"
    )
    path = write_jsonl(tmp_path / "test.jsonl", [*tiny_world.rows(), bad])
    assert len(read_exercises(str(path))) == 6
    assert "livecodebench/bad is unreadable and left out" in caplog.text


@pytest.mark.parametrize(
    ("rows", "window", "said"),
    [
        ([ROW], "2024-08-01..2025-02-01", "HumanEval has no dates"),
        ([{**ROW, "test": "def check("}], "", "HumanEval/0 cannot be read"),
        ([{"text": "hello"}], "", "is neither a dataset that curate built nor rows of HumanEval, "),
        (tiny_world.rows(), "2024-13-01..2025-02-01", "is not FROM..TO, such as"),
        (tiny_world.rows(), "2025-02-01..2024-08-01", "Give FROM..TO, the earlier date first"),
        (tiny_world.rows(), "1999-01-01..1999-02-01", "contains no problems from 1999"),
    ],
)
def test_the_error_explains_why_a_set_cannot_be_used(tmp_path, rows, window, said):
    with pytest.raises(CurateError, match=said):
        read_exercises(str(write_jsonl(tmp_path / "set.jsonl", rows)), window)


@pytest.mark.skipif(not LIVECODEBENCH.is_dir(), reason="the real data are not beside this checkout")
def test_the_window_of_deepcoder_in_real_files_of_livecodebench():
    found = read_exercises(str(LIVECODEBENCH), "2024-08-01..2025-02-01")
    assert 0 < len(found) < 121
    assert all(one.judge.suite.cases for one in found)


def test_an_answer_in_cpp_is_judged_where_it_is_allowed_and_the_tests_read_input(box):
    chat, suite = [{"role": "user", "content": "Add."}], Suite([Case("1 2", "3")])
    answer = "```cpp\n#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b; }\n```"
    either = SuiteJudge(suite, languages=("cpp", "python"))
    assert either.judge(answer, box).verdict == ACCEPTED
    assert SuiteJudge(suite).judge(answer, box).verdict == NO_CODE
    called = Suite([Case("[1]", "1")], entry_point="f")
    asserted = Suite([Case("f(1)", "1")], checker="python", assertions=Assertions(("f",)))
    assert replace(either, suite=called).judge(answer, box).verdict == NO_CODE
    assert replace(either, suite=asserted).judge(answer, box).verdict == NO_CODE
    assert Exercise("sum", chat, either).fingerprint != Exercise("sum", chat, SuiteJudge(suite)).fingerprint
