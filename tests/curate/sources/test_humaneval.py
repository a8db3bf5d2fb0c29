import pytest
from source_rows import DATA, humaneval_row, write_jsonl

from curate.problem import Problem, Rejection
from curate.reading.tables import locate
from curate.sources.humaneval import read
from sandbox import Assertions, Case, Program

HELPER = "import math\n\n\ndef half(x: float) -> float:\n    return x / 2\n\n\n"


def read_rows(tmp_path, *rows):
    return list(read(locate(str(write_jsonl(tmp_path / "HumanEval.jsonl", list(rows))))))


def test_a_row_becomes_a_problem_with_an_assertion_suite(tmp_path):
    (problem,) = read_rows(tmp_path, humaneval_row(7))
    assert problem.id == "humaneval/7"
    assert problem.statement == "Return the sum of x and y, which are\nwhole numbers.\n>>> add(1, 2)\n3"
    assert problem.starter_code == HELPER + "def add(x: int, y: int) -> int:\n"
    assert problem.tests.assertions == Assertions(("add",), HELPER)
    assert problem.tests.cases == (Case("add(1, 2)", "3"), Case("assert abs(half(add(1, 2)) - 1.5) < 1e-06", ""))
    row = humaneval_row(7)
    assert problem.solutions == (Program(row["prompt"] + row["canonical_solution"]),)


@pytest.mark.parametrize(
    "change",
    [{"prompt": "def add("}, {"prompt": "def other(): pass"}, {"prompt": "def add(x): pass"}, {"test": None}],
)
def test_a_row_that_cannot_be_read_is_a_rejection_and_the_rest_is_read(tmp_path, change):
    broken, whole = read_rows(tmp_path, humaneval_row(0, **change), humaneval_row(1))
    assert isinstance(broken, Rejection)
    assert (broken.id, broken.reason, whole.id) == ("humaneval/0", "unparsable", "humaneval/1")


@pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside this checkout")
def test_all_of_humaneval_is_read():
    problems = list(read(locate(str(DATA / "eval" / "HumanEval.jsonl.gz"))))
    assert {type(problem) for problem in problems} == {Problem}
    cases = [case for problem in problems for case in problem.tests.cases]
    assert (len(problems), sum(case.expected != "" for case in cases), len(cases)) == (164, 1071, 1128)
    assert all(problem.starter_code and problem.starter_code.strip() not in problem.statement for problem in problems)
