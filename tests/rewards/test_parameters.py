"""Wrong parameters of rewards are errors in the caller's words, when the reward is made."""

from collections.abc import Callable
from typing import Any

import pytest

from rewards import (
    AsyncRewards,
    CodeReward,
    Completion,
    FormatReward,
    LengthBudgetReward,
    MathReward,
    OverlongPenalty,
    PartialReward,
    Task,
    WeightedReward,
)
from rewards.trl import RewardFunction
from sandbox import Sandbox

Make = Callable[[Any], object]


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        pytest.param(lambda box: CodeReward(7), TypeError, "box must be a Sandbox, not int", id="no sandbox"),
        pytest.param(lambda box: CodeReward(box, select="best"), ValueError, "select must be one of", id="select"),
        pytest.param(lambda box: CodeReward(box, tests="3"), TypeError, "tests must be a whole number", id="tests"),
        pytest.param(lambda box: PartialReward(box, tests=0), ValueError, "tests must be at least 1", id="no tests"),
        pytest.param(lambda box: CodeReward(box, n_tests=3), TypeError, "n_tests", id="a name that does not exist"),
        pytest.param(
            lambda box: CodeReward(box, min_test_seconds="6"),
            TypeError,
            "min_test_seconds must be a number, not str '6'",
            id="seconds as text",
        ),
        pytest.param(lambda box: FormatReward(opened="no"), TypeError, "opened must be True or False", id="flag"),
        pytest.param(
            lambda box: OverlongPenalty(1.5), TypeError, "buffer_tokens must be a whole number", id="part of a token"
        ),
        pytest.param(lambda box: MathReward("2"), TypeError, "processes must be a whole number", id="processes"),
        pytest.param(
            lambda box: WeightedReward(LengthBudgetReward()), TypeError, "parts must be a list of pairs", id="no list"
        ),
        pytest.param(
            lambda box: WeightedReward([LengthBudgetReward()]),
            TypeError,
            "each part must be a pair (weight, reward)",
            id="no pair",
        ),
        pytest.param(
            lambda box: WeightedReward([(LengthBudgetReward(), 1.0)]),
            TypeError,
            "a weight must be a number",
            id="pair in reverse",
        ),
        pytest.param(
            lambda box: WeightedReward([(1.0, 2.0)]), TypeError, "must be a reward, such as", id="two weights"
        ),
        pytest.param(lambda box: AsyncRewards(box), TypeError, "reward must be a reward, such as", id="a sandbox"),
        pytest.param(lambda box: RewardFunction(box), TypeError, "reward must be a reward", id="a sandbox for TRL"),
        pytest.param(
            lambda box: RewardFunction(LengthBudgetReward(), max_tokens=0),
            ValueError,
            "max_tokens must be at",
            id="no token",
        ),
        pytest.param(lambda box: Completion(b"x", 1), TypeError, "Completion.text must be text, not bytes", id="bytes"),
        pytest.param(lambda box: Task(tests="{}"), TypeError, "Task.tests must be a Suite, not str; call", id="JSON"),
    ],
)
def test_a_wrong_parameter_is_named(make: Make, kind: type[Exception], words: str, box: Sandbox) -> None:
    with pytest.raises(kind) as raised:
        make(box)
    assert words in str(raised.value)
