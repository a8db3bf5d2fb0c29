"""Several rewards are added up to a single one."""

import math

import pytest
from answers import program_answer, text_answer
from hypothesis import given
from hypothesis import strategies as st

from rewards.code import CodeReward
from rewards.form import ALPHA_PER_THOUSAND, LengthBudgetReward
from rewards.reward import Reward, Task
from rewards.weighted import WeightedReward
from sandbox import Case, Suite

NUMBERS = st.floats(-1e6, 1e6)
ECHO = Suite([Case("1", "1")])


def constant(value, verdict="given", seconds=1.0):
    return lambda answer, task: Reward(value, verdict, seconds)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5))
def test_the_value_is_the_weighted_sum(pairs):
    total = WeightedReward([(weight, constant(value)) for weight, value in pairs])(text_answer(""), Task())
    assert total.value == pytest.approx(math.fsum(weight * value for weight, value in pairs), abs=1e-3)
    assert total.seconds == len(pairs)


@given(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=5), NUMBERS)
def test_one_unknown_reward_makes_the_sum_unknown(values, weight):
    total = WeightedReward([(weight, constant(value, str(value))) for value in values])(text_answer(""), Task())
    assert (total.value is None) == (None in values)
    assert total.verdict == ("None" if None in values else str(values[0]))


def test_the_reward_of_intellect_2_is_such_a_sum(box):
    reward = WeightedReward([(1.0, CodeReward(box)), (ALPHA_PER_THOUSAND, LengthBudgetReward())])
    right = program_answer("print(input())")
    assert reward(right, Task(tests=ECHO, target_tokens=2010)).value == pytest.approx(1 - 0.0003 * 2000)


def test_the_sum_keeps_the_values_of_the_rewards_that_have_names():
    parts = [(2.0, constant(0.5), "code"), (1.0, constant(1.0)), (0.1, constant(-3.0), "length")]
    assert WeightedReward(parts)(text_answer(""), Task()).parts == (("code", 0.5), ("length", -3.0))
    lost = WeightedReward([parts[0], (1.0, constant(None), "math"), parts[2]])(text_answer(""), Task()).parts
    assert dict(lost)["code"] == 0.5
    assert math.isnan(dict(lost)["math"])
    assert math.isnan(dict(lost)["length"])


def test_rewards_of_steps_are_added_up_with_their_weights():
    def process(answer, task):
        return Reward(0.5, "given", steps=((3, 1.0), (7, -1.0)))

    total = WeightedReward([(1.0, constant(1.0)), (0.5, process)])(text_answer("0123456789"), Task())
    assert total.steps == ((3, 0.5), (7, -0.5), (10, 1.0))
    assert total.value == 1.25
    assert WeightedReward([(1.0, constant(1.0))])(text_answer("0123456789"), Task()).steps == ()


@pytest.mark.parametrize("steps", [((3, 1.0), (2, 1.0)), ((-1, 1.0),), ((1, math.nan),)])
def test_steps_have_finite_rewards_and_an_order(steps):
    with pytest.raises(ValueError, match="step"):
        Reward(1.0, "given", steps=steps)


def test_a_lost_sandbox_is_not_half_a_reward(closed_box):
    reward = WeightedReward([(0.5, LengthBudgetReward()), (1.0, CodeReward(closed_box))])
    scored = reward(program_answer("print(input())"), Task(tests=ECHO, target_tokens=10))
    assert (scored.value, scored.verdict) == (None, "sandbox_failed")


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_weights_must_be_finite_numbers(weight):
    with pytest.raises(ValueError, match="finite"):
        WeightedReward([(1.0, constant(1.0)), (weight, constant(1.0))])


def test_an_empty_sum_is_refused():
    with pytest.raises(ValueError, match="at least one part"):
        WeightedReward([])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_reward_that_is_not_a_finite_number_cannot_be_created(value):
    with pytest.raises(ValueError, match="finite number"):
        Reward(value, "given")
    with pytest.raises(ValueError, match="finite number"):
        WeightedReward([(1e308, constant(1e308))])(text_answer(""), Task())
