"""Simulated runs of the real controller keep the bound, and are as fast as arithmetic says."""

import pytest

from train.planning.engine import (
    H100,
    EngineTimings,
    LearnerTimings,
    ModelSize,
    estimate_engine_timings,
    estimate_learner_timings,
)
from train.planning.simulate import ONE_OFF, SYNC, Layout, LogNormalLengths, TrainingMode, Workload, simulate

# One token of every answer takes a second, whatever else runs; rewards and weights take no time.
EVEN = EngineTimings(1.0, 0.0, 0.0, 0.0, 0.0, 1e9)
AT_ONCE = (1e-6, 2e-6, 3e-6)


def workload(tokens: int = 100, **changes: float) -> Workload:
    return Workload(4, 2, 0, LogNormalLengths(tokens, 0.0, 1000), reward_seconds=AT_ONCE, token_stride=1, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("way", "seconds"), [(SYNC, 100 + 40), (ONE_OFF, 100)], ids=str)
def test_a_step_takes_as_long_as_the_parts_that_do_not_overlap(way: TrainingMode, seconds: float) -> None:
    learner = LearnerTimings(seconds_per_token=40 / 800, batch_seconds=0.0, publish_seconds=0.0)
    outcome = simulate(way, workload(), Layout(2, EVEN, learner), steps=4)
    assert outcome.step_seconds == pytest.approx(seconds, rel=0.01)
    assert outcome.staleness_max == way.staleness


@pytest.mark.parametrize("bound", [0, 1, 2, 4, 8])
def test_asynchronous_steps_take_as_long_as_the_bound_on_staleness_makes_them(bound: int) -> None:
    learner = LearnerTimings(seconds_per_token=0.0, batch_seconds=30.0, publish_seconds=0.0)
    outcome = simulate(TrainingMode("async", bound), workload(), Layout(2, EVEN, learner), steps=6)
    # From being asked to being published, a batch takes 100 s + 30 s, and bound + 1 batches are under way at a time.
    assert outcome.step_seconds == pytest.approx(max(30, 130 / (bound + 1)), rel=0.01)


@pytest.mark.parametrize("way", [SYNC, ONE_OFF, TrainingMode("async", 2)], ids=str)
def test_a_batch_that_the_engines_cannot_draw_at_once_is_drawn_in_turns(way: TrainingMode) -> None:
    two_at_once = EngineTimings(1.0, 0.0, 0.0, 0.0, 0.0, 1e9, max_concurrent=2)
    outcome = simulate(way, workload(), Layout(1, two_at_once, LearnerTimings(0.0, 1.0, 0.0)), steps=3)
    assert outcome.step_seconds == pytest.approx(400 + (way.pipeline == "sync"), rel=0.01)


def test_engines_that_finish_what_they_have_begun_lose_time() -> None:
    model = ModelSize(1.5e9, 28_672)
    layout = Layout(4, estimate_engine_timings(model, H100, gpus=1), estimate_learner_timings(model, H100, gpus=1))
    heavy = Workload(8, 8, 20, LogNormalLengths.with_mean(4000, limit=32768))
    ways = TrainingMode("async", 2), TrainingMode("async", 2, interrupts=False)
    interrupted, drained = (simulate(way, heavy, layout, steps=10) for way in ways)
    assert interrupted.step_seconds < drained.step_seconds
    assert drained.staleness_max <= 2


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_no_token_is_older_than_the_bound_whatever_the_lengths(bound: int) -> None:
    heavy = Workload(4, 4, 20, LogNormalLengths.with_mean(2000, limit=16384), rejected_share=0.3)
    model = ModelSize(1.5e9, 28_672)
    layout = Layout(3, estimate_engine_timings(model, H100, gpus=1), estimate_learner_timings(model, H100, gpus=1))
    outcome = simulate(TrainingMode("async", bound), heavy, layout, steps=20)
    assert outcome.staleness_max <= bound
    assert 0 <= outcome.learner_idle_share <= 1
    assert 0 <= outcome.engine_idle_share <= 1


def test_the_same_seed_gives_the_same_run() -> None:
    layout = Layout(2, EVEN, LearnerTimings(0.01, 0.0, 1.0))
    one, same, other = (
        simulate(TrainingMode("async", 2), workload(rejected_share=0.5), layout, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same != other
