"""Evaluations are due by steps, by time, or by both, and always before the first step and after the last."""

import pytest

from train.config import EvaluationConfig
from train.run.evaluation_scheduler import EvaluationSchedule


def due(settings, *, last=10, seconds_per_step=60, evaluated=0.0):
    """Return the steps after which an evaluation is due."""
    schedule = EvaluationSchedule(settings, last, evaluated_seconds=evaluated)
    found = []
    for step in range(last + 1):
        seconds = step * seconds_per_step
        if schedule.is_due(step, seconds):
            schedule.evaluated_seconds = seconds
            found.append(step)
    return found


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        (EvaluationConfig(every_steps=4), [0, 4, 8, 10]),
        (EvaluationConfig(every_steps=0), [0, 10]),
        (EvaluationConfig(every_steps=0, every_minutes=3), [0, 3, 6, 9, 10]),
        (EvaluationConfig(every_steps=4, every_minutes=3), [0, 3, 4, 7, 8, 10]),
    ],
)
def test_steps_and_minutes_decide(settings, steps):
    assert due(settings) == steps


def test_the_time_goes_on_when_a_run_is_resumed():
    schedule = EvaluationSchedule(EvaluationConfig(every_steps=0, every_minutes=30), 100, evaluated_seconds=600.0)
    assert not schedule.is_due(7, 600 + 29 * 60)
    assert schedule.is_due(7, 600 + 30 * 60)
