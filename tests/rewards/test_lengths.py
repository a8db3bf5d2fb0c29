"""Rewards for the length of an answer."""

import pytest
from answers import say
from hypothesis import given
from hypothesis import strategies as st

from rewards.length_budget import ALPHA_PER_THOUSAND, TARGETS, LengthBudget, words
from rewards.overlong import Overlong
from rewards.reward import Answer, Task

LENGTHS = st.integers(0, 200_000)


@pytest.mark.parametrize(
    ("length", "value", "verdict"),
    [(4000, 0.0, "on_target"), (3999, -0.001, "shorter"), (4001, -0.001, "longer"), (0, -4.0, "shorter")],
)
def test_the_budget_costs_the_distance_from_the_target(length, value, verdict):
    reward = LengthBudget()(say("", length), Task(target_tokens=4000))
    assert (reward.value, reward.verdict) == (value, verdict)


@given(LENGTHS, st.integers(1, 100_000), st.integers(0, 50_000))
def test_the_budget_is_the_papers_formula_and_symmetric(length, target, away):
    def cost(length):
        return LengthBudget()(say("", length), Task(target_tokens=target)).value

    assert ALPHA_PER_THOUSAND * cost(length) == pytest.approx(-0.0003 * abs(target - length))
    assert cost(target + away) == cost(max(target - away, 0)) or away > target


def test_the_prompt_says_the_target():
    assert [words(target) for target in TARGETS][1] == "Think for 4000 tokens before giving a response."
    with pytest.raises(ValueError, match="at least 1"):
        words(0)


@pytest.mark.parametrize(
    ("length", "value", "verdict"),
    [
        (0, 0.0, "short"),
        (60, 0.0, "short"),
        (61, -0.025, "long"),
        (80, -0.5, "long"),
        (100, -1.0, "long"),
        (101, -1.0, "long"),
        (9999, -1.0, "long"),
    ],
)
def test_the_punishment_grows_from_the_beginning_of_the_buffer_to_the_limit(length, value, verdict):
    reward = Overlong(40)(say("", length), Task(max_tokens=100))
    assert (reward.value, reward.verdict) == (pytest.approx(value), verdict)


@given(LENGTHS, st.integers(2, 100_000), st.data())
def test_the_punishment_is_the_papers_formula(length, most, data):
    buffer = data.draw(st.integers(1, most - 1))
    if length <= most - buffer:
        expected = 0.0
    elif length <= most:
        expected = ((most - buffer) - length) / buffer
    else:
        expected = -1.0
    assert Overlong(buffer)(say("", length), Task(max_tokens=most)).value == pytest.approx(expected)


def test_a_task_that_says_nothing_of_length_is_a_mistake():
    with pytest.raises(ValueError, match="target_tokens"):
        LengthBudget()(say(""), Task())
    with pytest.raises(ValueError, match="max_tokens"):
        Overlong()(say(""), Task())
    with pytest.raises(ValueError, match="smaller"):
        Overlong(100)(say(""), Task(max_tokens=100))
    with pytest.raises(ValueError, match="at least 1"):
        Overlong(0)
    with pytest.raises(ValueError, match="at least 0"):
        Answer("", -1)
