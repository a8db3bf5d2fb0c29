"""A problem's other solutions show whether its tests are right."""

import json
from dataclasses import replace

import pytest
from source_rows import SUM, SUM_TESTS

from curate.json_records import from_json, to_json
from curate.judging import CaseFailure
from curate.problem import Problem, Wrapping
from curate.reading.solutions import parse_solution
from curate.stage import BuildRow
from curate.stages.cross_check import CrossCheckRecord, CrossCheckStage
from curate.stages.verify import VerificationStage
from sandbox import Case, Limits, Suite, Verdict

PYTHON = ("python",)
# Any two numbers with this sum are right, but the tests accept only one pair.
PAIRS = [(f"{total}\n", f"0 {total}\n") for total in range(8)]
MIN_FIRST = "n = int(input())\nprint(0, n)"
ANOTHER = "n = int(input())\nprint(0, n) if n < 5 else print(1, n - 1)"


def problem(*solutions, tests=SUM_TESTS, wrapping=Wrapping.NONE, **suite):
    suite = Suite([Case(i, o) for i, o in tests], limits=Limits(wall_seconds=1.0), **suite)
    return Problem(
        "taco/0", "taco", "", suite, solutions=tuple(map(parse_solution, solutions)), licence="", wrapping=wrapping
    )


def opinion(box, problem, others=3):
    verify = VerificationStage(tries=8, languages=PYTHON, seed=0)
    cross_check = CrossCheckStage(verify, others=others)
    row = BuildRow(problem)
    row = verify.apply_record(row, verify.examine(row, lambda seed: box))
    assert cross_check.key(row) is not None
    return replace(cross_check.examine(row, lambda seed: box), spent_cpu_seconds=0)


def test_other_solutions_that_pass_are_counted(box):
    found = opinion(box, problem(SUM, SUM + "  # again", SUM + "  # once more"))
    assert found == CrossCheckRecord(n_passing=2, n_executed=2)


def test_no_more_solutions_are_run_than_requested(box):
    assert opinion(box, problem(*(SUM + "#" * n for n in range(5))), others=1) == CrossCheckRecord(
        n_passing=1, n_executed=1
    )


def test_solutions_with_other_answers_to_some_tests_dissent(box):
    found = opinion(box, problem(MIN_FIRST, ANOTHER, tests=PAIRS))
    assert replace(found, failures=()) == CrossCheckRecord(n_dissenting=1, n_executed=1)
    assert found.failures == (
        CaseFailure(solution_index=1, test_index=5, verdict=Verdict.WRONG_ANSWER, detail="1 4\n"),
    )


def test_the_test_at_which_most_solutions_dissent_shows_it(box):
    late = "n = int(input())\nprint(0, n) if n < 6 else print(2, n - 2)"
    later = "n = int(input())\nprint(0, n) if n < 6 else print(1, n - 1)  # "
    found = opinion(box, problem(MIN_FIRST, ANOTHER, late, later, tests=PAIRS))
    assert found.n_dissenting == 3
    assert [(failure.test_index, failure.detail) for failure in found.failures] == [
        (6, "1 5\n"),
        (6, "2 4\n"),
        (6, "1 5\n"),
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("n = int(input())\nprint(0, n if n < 2 else 0)", id="most tests failed"),
        pytest.param("n = int(input())\nprint(0, n // (n - 7) * 0 + n)", id="a crash"),
    ],
)
def test_solutions_that_are_merely_wrong_do_not_dissent(box, other):
    assert opinion(box, problem(MIN_FIRST, other, tests=PAIRS)) == CrossCheckRecord(n_executed=1)


def test_tests_are_wrong_if_most_solutions_agree_on_another_answer(box):
    tests = [*SUM_TESTS[:-1], (SUM_TESTS[-1][0], "-1\n")]
    found = opinion(box, problem(SUM, SUM + "  # again", "print(0)", tests=tests))
    assert replace(found, failures=()) == CrossCheckRecord(n_wrong_tests=1, n_executed=3)
    assert [(failure.test_index, failure.detail) for failure in found.failures] == [
        (5, "0\n"),
        (5, "11\n"),
        (5, "11\n"),
    ]


def test_tests_of_calls_can_be_wrong_too(box):
    tests = [("[1]", "2"), ("[2]", "3"), ("[3]", "5")]
    solutions = ["def f(n):\n    return n + 1", "def f(n):\n    return 1 + n"]
    assert opinion(box, problem(*solutions, tests=tests, entry_point="f", checker="exact")).n_wrong_tests == 1


def test_wrapped_values_are_read_without_their_wrapping(box):
    tests = [("[1]", "[2]"), ("[2]", "[4]")]
    solutions = ["def f(n):\n    return n + 1", "def f(n):\n    return 1 + n"]
    whole = problem(*solutions, tests=tests, entry_point="f", checker="exact", wrapping=Wrapping.UNDECIDED)
    assert opinion(box, whole).n_wrong_tests == 1


def test_solutions_are_wrong_if_they_disagree_with_each_other(box):
    assert opinion(box, problem("print(0)", "print(-1)", "print(-2)")) == CrossCheckRecord(n_executed=3)


def test_a_single_solution_proves_nothing_against_the_tests(box):
    assert opinion(box, problem("print(0)")) == CrossCheckRecord()


def test_an_opinion_survives_being_recorded():
    found = CrossCheckRecord(1, 2, 3, 4, 0.5, (CaseFailure(1, 0, Verdict.WRONG_ANSWER, "\udc80"),))
    assert from_json(CrossCheckRecord, json.loads(json.dumps(to_json(found)))) == found
