"""The penalty of the length budget grows with the distance from the length that the prompt asks for."""

import pytest
from answers import text_answer
from hypothesis import given
from hypothesis import strategies as st

from rewards.form import ALPHA_PER_THOUSAND, TARGETS, LengthBudgetReward, format_length_instruction
from rewards.reward import Task


@pytest.mark.parametrize(
    ("length", "value", "verdict"),
    [(4000, 0.0, "on_target"), (3999, -0.001, "shorter"), (4001, -0.001, "longer"), (0, -4.0, "shorter")],
)
def test_the_budget_costs_the_distance_from_the_target(length, value, verdict):
    reward = LengthBudgetReward()(text_answer("", length), Task(target_tokens=4000))
    assert (reward.value, reward.verdict) == (value, verdict)


@given(st.integers(0, 200_000), st.integers(1, 100_000), st.integers(0, 50_000))
def test_the_budget_follows_the_papers_formula_and_is_symmetric(length, target, distance):
    def cost(length):
        return LengthBudgetReward()(text_answer("", length), Task(target_tokens=target)).value

    assert ALPHA_PER_THOUSAND * cost(length) == pytest.approx(-0.0003 * abs(target - length))
    assert cost(target + distance) == cost(max(target - distance, 0)) or distance > target


def test_the_prompt_states_the_target():
    assert [format_length_instruction(target) for target in TARGETS][
        1
    ] == "Think for 4000 tokens before giving a response."
    with pytest.raises(ValueError, match="at least 1"):
        format_length_instruction(0)


def test_a_task_without_a_target_is_a_mistake():
    with pytest.raises(ValueError, match="target_tokens"):
        LengthBudgetReward()(text_answer(""), Task())
