import pytest

from curate.dedup.problem_series import find_difference
from curate.problem import Problem
from sandbox import Assertions, Case, Suite


def problem(title="", tests=(), entry_point=None, statement=""):
    suite = Suite([Case(i, o) for i, o in tests], entry_point=entry_point)
    return Problem("taco/0", "taco", statement, suite, solutions=None, licence="", title=title)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Find X-Sum I", "Find X-Sum Ii", id="one and two"),
        pytest.param("Two Sum", "two-sum-ii", id="unnumbered and two"),
        pytest.param("1172_c2_pictures_hard_version_13029", "1172_C1. Pictures (easy version)", id="hard and easy"),
    ],
)
def test_parts_of_a_series_are_different_problems(one, other):
    assert find_difference(problem(one), problem(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Two Sum II", "two-sum-ii", id="the same part"),
        pytest.param("150_A. Win or Freeze", "151_c_win_or_freeze_133", id="two divisions"),
        pytest.param("", "Two Sum II", id="no title"),
        pytest.param("4184", "Two Sum II", id="a number for a title"),
    ],
)
def test_titles_that_name_no_part_prove_nothing(one, other):
    assert find_difference(problem(one), problem(other)) is None


def test_functions_with_different_names_are_different_problems():
    assert find_difference(problem(entry_point="mergesort"), problem(entry_point="quicksort"))
    assert find_difference(problem(entry_point="sort"), problem(entry_point="sort")) is None
    assert find_difference(problem(entry_point="sort"), problem()) is None


def test_functions_called_with_more_arguments_are_different_problems():
    two, three = (
        problem(tests=[("[[1], 2]", "3")], entry_point="f"),
        problem(tests=[("[[1], 2, 3]", "4")], entry_point="f"),
    )
    either = problem(tests=[("[[5], 2]", "3"), ("[[5], 2, 3]", "4")], entry_point="f")
    assert find_difference(two, three)
    assert find_difference(two, either) is None
    assert find_difference(two, problem(entry_point="f")) is None
    assert find_difference(two, problem(tests=[("not JSON", "3")], entry_point="f")) is None


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        pytest.param("the easy version of the problem", "the hard version of the problem", True, id="easy and hard"),
        pytest.param("an easy version of this problem", "a harder version of a problem", True, id="a harder"),
        pytest.param("the hard version of the problem", "the extreme version of the problem", True, id="extreme"),
        pytest.param("the easy version of the problem", "an easier version of this problem", False, id="one and same"),
        pytest.param("the easy version of the problem", "all there is", False, id="only one says so"),
    ],
)
def test_problems_that_call_themselves_another_version_are_different(one, other, differ):
    statements = [f"This is {text}. The versions differ in n only." for text in (one, other)]
    assert bool(find_difference(*(problem(statement=statement) for statement in statements))) is differ


def test_another_answer_to_the_same_input_is_a_different_problem():
    assert find_difference(problem(tests=[("1 2\n", "3\n")]), problem(tests=[("1 2", "2")]))
    assert find_difference(
        problem(tests=[("[1, 2]", "3")], entry_point="f"), problem(tests=[("[1,2]", "2")], entry_point="f")
    )


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param([("1 2\n", "0.5\n")], id="the same"),
        pytest.param([("1 2", "0.50000000")], id="more digits"),
        pytest.param([("3 4", "7")], id="no input in common"),
        pytest.param([], id="no tests"),
    ],
)
def test_tests_without_a_contradiction_prove_nothing(tests):
    assert find_difference(problem(tests=[("1 2\n", "0.5\n")]), problem(tests=tests)) is None


def test_the_case_of_an_answer_proves_nothing():
    assert find_difference(problem(tests=[("1", "YES")]), problem(tests=[("1", "Yes\n")])) is None


def test_tests_that_are_python_code_are_compared_with_such_tests():
    def asked(names, *cases):
        suite = Suite([Case(*case) for case in cases], checker="python", assertions=Assertions(names))
        return Problem("mbpp/0", "mbpp", "", suite, solutions=None, licence="")

    assert "functions" in find_difference(asked(("f",)), asked(("g",)))
    assert find_difference(asked(("f",), ("f(1)", "2")), asked(("f",), ("f(1)", "2"), ("assert f(1)", ""))) is None
    assert "answers" in find_difference(asked(("f",), ("f(1)", "2")), asked(("f",), ("f(1)", "3")))
    assert find_difference(asked(("f",), ("f(1)", "2")), problem(tests=[("f(1)", "3")])) is None
