"""A run goes on to its next stage at the right time."""

from train.config import StageConfig
from train.rollouts.context_schedule import ContextSchedule

STAGES = [
    StageConfig(8, until_clipped=0.5, over_steps=2),
    StageConfig(16, until_clipped=0.5, over_steps=2),
    StageConfig(32),
]


def stages(cut, **options):
    """Return the stage after each step."""
    course = ContextSchedule(STAGES, **options)
    return [(course.advance(step, share), course.index)[1] for step, share in enumerate(cut, 1)]


def test_a_stage_ends_when_answers_are_cut_off_over_some_steps():
    assert stages([0.9, 0.0, 0.3, 0.7, 0.9, 0.9, 0.9]) == [0, 0, 0, 1, 1, 2, 2]


def test_answers_sampled_ahead_do_not_count_for_the_new_stage():
    assert stages([0.5, 0.5, 1.0, 0.1, 0.1, 0.9], sampled_ahead=True) == [0, 1, 1, 1, 1, 2]


def test_a_resumed_run_also_counts_the_earlier_steps():
    course = ContextSchedule(STAGES, sampled_ahead=True)
    for step, share in enumerate([0.5, 0.5, 1.0, 0.5], 1):
        course.advance(step, share)
    again = ContextSchedule(STAGES, course.index, tuple(course.recent_truncated), sampled_ahead=True)
    assert again.advance(5, 0.5)
