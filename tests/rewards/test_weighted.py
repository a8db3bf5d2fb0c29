"""Several rewards as one."""

import math

import pytest
from answers import program, say
from hypothesis import given
from hypothesis import strategies as st

from rewards.code import CodeReward
from rewards.length_budget import ALPHA_PER_THOUSAND, LengthBudget
from rewards.reward import Reward, Task
from rewards.weighted import Weighted
from sandbox import Case, Sandbox, Suite

NUMBERS = st.floats(-1e6, 1e6)
ECHO = Suite([Case("1", "1")])


def giving(value, verdict="said", seconds=1.0):
    return lambda answer, task: Reward(value, verdict, seconds)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5))
def test_the_whole_is_the_weighted_sum(pairs):
    whole = Weighted([(weight, giving(value)) for weight, value in pairs])(say(""), Task())
    assert whole.value == pytest.approx(math.fsum(weight * value for weight, value in pairs), abs=1e-3)
    assert whole.seconds == len(pairs)


@given(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=5), NUMBERS)
def test_what_one_part_does_not_know_the_whole_does_not_know(values, weight):
    whole = Weighted([(weight, giving(value, str(value))) for value in values])(say(""), Task())
    assert (whole.value is None) == (None in values)
    assert whole.verdict == ("None" if None in values else str(values[0]))


def test_intellect_2s_reward_is_a_sum_of_ours(box):
    reward = Weighted([(1.0, CodeReward(box)), (ALPHA_PER_THOUSAND, LengthBudget())])
    right = program("print(input())")
    assert reward(right, Task(tests=ECHO, target_tokens=2010)).value == pytest.approx(1 - 0.0003 * 2000)


def test_a_lost_sandbox_is_not_half_a_reward():
    lost = Sandbox(workers=1)
    lost.close()
    reward = Weighted([(0.5, LengthBudget()), (1.0, CodeReward(lost))])
    scored = reward(program("print(input())"), Task(tests=ECHO, target_tokens=10))
    assert (scored.value, scored.verdict) == (None, "sandbox_failed")


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused(weight):
    with pytest.raises(ValueError, match="finite"):
        Weighted([(1.0, giving(1.0)), (weight, giving(1.0))])


def test_nothing_is_no_reward():
    with pytest.raises(ValueError, match="at least one part"):
        Weighted([])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_reward_that_is_no_number_does_not_come_into_being(value):
    with pytest.raises(ValueError, match="finite number"):
        Reward(value, "said")
    with pytest.raises(ValueError, match="finite number"):
        Weighted([(1e308, giving(1e308))])(say(""), Task())
