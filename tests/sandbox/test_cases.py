"""Tests as data: wrong ones are refused where they are made, and the text of a suite is the suite."""

import dataclasses
import pickle
from typing import Any

import pytest

from sandbox import Assertions, Case, Limits, Suite


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1, 2), "Case.input must be text, not int"),
        (("1", 2), "Case.expected must be text, not int"),
        ((["1"], "1"), "Case.input must be text, not list"),
        (("1", None), "Case.expected must be text, not NoneType"),
        (("1", "2", 3), "Case.trial must be text, not int"),
    ],
)
def test_a_case_that_is_not_text_is_refused_in_words(arguments: tuple[Any, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Case(*arguments)


def test_a_suite_of_anything_but_cases_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Suite.cases must be Case\(input, expected\), not tuple"):
        Suite([("1", "2")])  # type: ignore[list-item]


def test_cases_are_values() -> None:
    case = Case(expected="2", input="1")
    assert (case, hash(case), repr(case)) == (Case("1", "2"), hash(Case("1", "2")), "Case(input='1', expected='2')")
    assert pickle.loads(pickle.dumps(case)) == dataclasses.replace(case) == case
    with pytest.raises(dataclasses.FrozenInstanceError):
        case.input = "3"  # type: ignore[misc]


def test_the_text_of_a_suite_is_the_suite() -> None:
    suite = Suite([Case("1", "2")], "f", "floats", Limits(memory_mb=64), assertions=Assertions(("f",), "g", "s"))
    assert Suite.from_json(suite.to_json()) == suite


def test_a_suite_takes_one_trial_for_each_case_or_none() -> None:
    suite = Suite([Case("1", "2"), Case("3", "4")])
    tried = suite.with_trials(["", "5"])
    assert (tried.trials, suite.trials) == (("", "5"), ())
    assert tried != suite == tried.with_trials(())
    assert tried.with_trials(()).to_json() == suite.to_json()
    with pytest.raises(ValueError, match="shorter"):
        suite.with_trials(["5"])
