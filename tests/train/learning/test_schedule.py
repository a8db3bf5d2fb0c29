"""The learning rate follows its schedule over the updates of a run."""

import pytest

from train.config import OptimizerConfig
from train.learning.learner import compute_learning_rate


def rates(total, **settings):
    return [
        compute_learning_rate(n, OptimizerConfig(learning_rate=2.0, **settings), total_updates=total)
        for n in range(total)
    ]


def test_the_rate_is_constant_after_warm_up():
    assert rates(6, warmup_steps=4) == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_a_cosine_falls_from_the_full_rate_to_nearly_zero():
    found = rates(10, schedule="cosine", warmup_steps=2)
    assert found[:3] == [1.0, 2.0, 2.0]
    assert found[2:] == sorted(found[2:], reverse=True)
    assert found[6] == pytest.approx(1.0)  # half way
    assert 0 < found[-1] < 0.1


def test_the_rate_does_not_rise_again_in_a_run_longer_than_planned():
    late = compute_learning_rate(15, OptimizerConfig(schedule="cosine"), total_updates=10)
    assert late == 0
