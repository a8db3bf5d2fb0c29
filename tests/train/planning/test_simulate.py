"""Simulated runs of the real controller keep the bound, and are as fast as arithmetic says."""

from dataclasses import replace
from statistics import fmean

import pytest

from train.learning.flops import Flops
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
MODEL = ModelSize(1.5e9, 28_672, Flops(2.6e9, 0.4e9, 172_032), Flops(11.7e9, 1.8e9, 860_160))


def workload(tokens: int = 100, **changes: float) -> Workload:
    return Workload(4, 2, 0, LogNormalLengths(tokens, 0.0, 1000), reward_seconds=AT_ONCE, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("way", "seconds"), [(SYNC, 100 + 40), (ONE_OFF, 100)], ids=str)
def test_a_step_takes_as_long_as_the_parts_that_do_not_overlap(way: TrainingMode, seconds: float) -> None:
    learner = LearnerTimings(seconds_per_token=40 / 800, batch_seconds=0.0, publish_seconds=0.0)
    outcome = simulate(way, workload(), Layout(2, EVEN, learner))
    assert outcome.step_seconds == pytest.approx(seconds, rel=0.01)
    assert outcome.staleness_max == way.staleness


@pytest.mark.parametrize("bound", [0, 1, 2, 4, 8])
def test_asynchronous_steps_take_as_long_as_the_bound_on_staleness_makes_them(bound: int) -> None:
    learner = LearnerTimings(seconds_per_token=0.0, batch_seconds=30.0, publish_seconds=0.0)
    outcome = simulate(TrainingMode("async", bound), workload(), Layout(2, EVEN, learner))
    # From being asked to being published, a batch takes 100 s + 30 s, and bound + 1 batches are under way at a time.
    assert outcome.step_seconds == pytest.approx(max(30, 130 / (bound + 1)), rel=0.01)


@pytest.mark.parametrize("way", [SYNC, ONE_OFF, TrainingMode("async", 2)], ids=str)
def test_a_batch_that_the_engines_cannot_draw_at_once_is_drawn_in_turns(way: TrainingMode) -> None:
    two_at_once = EngineTimings(1.0, 0.0, 0.0, 0.0, 0.0, 1e9, max_concurrent=2)
    outcome = simulate(way, workload(), Layout(1, two_at_once, LearnerTimings(0.0, 1.0, 0.0)))
    assert outcome.step_seconds == pytest.approx(400 + (way.pipeline == "sync"), rel=0.01)


def test_engines_that_finish_what_they_have_begun_lose_time_if_they_have_much_to_do() -> None:
    layout = Layout(2, estimate_engine_timings(MODEL, H100, gpus=1), estimate_learner_timings(MODEL, H100, gpus=4))
    heavy = Workload(32, 8, 20, LogNormalLengths.with_mean(4000, limit=32768))
    ways = TrainingMode("async", 8), TrainingMode("async", 8, interrupts=False)
    interrupted, drained = (simulate(way, heavy, layout, max_cycles=8) for way in ways)
    assert interrupted.step_seconds < 0.95 * drained.step_seconds
    assert drained.staleness_max <= 8


def test_training_takes_longer_for_pairs_of_tokens_that_attention_compares() -> None:
    learner = LearnerTimings(0.0, 0.0, 0.0, seconds_per_pair=40 / (8 * (100 * 50 + 100**2 / 2) + 4 * 50**2 / 2))
    work = replace(workload(), prompt_tokens=50)
    assert simulate(SYNC, work, Layout(2, EVEN, learner)).step_seconds == pytest.approx(100 + 40, rel=0.01)


@pytest.mark.parametrize("bound", [0, 5])
def test_the_time_of_a_step_is_as_exact_as_the_result_says_although_batches_come_in_bursts(bound: int) -> None:
    layout = Layout(64, estimate_engine_timings(MODEL, H100, gpus=1), estimate_learner_timings(MODEL, H100, gpus=8))
    work = Workload(32, 4, 20, LogNormalLengths.with_mean(4000, limit=16384))
    found, *others = (simulate(TrainingMode("async", bound), work, layout, seed=seed) for seed in range(6))
    assert found.step_seconds_error <= 0.05
    assert found.n_steps % (bound + 1) == 0
    assert found.step_seconds == pytest.approx(fmean(other.step_seconds for other in others), rel=0.05)


def test_a_run_that_stays_inexact_ends_and_says_so() -> None:
    layout = Layout(4, estimate_engine_timings(MODEL, H100, gpus=1), estimate_learner_timings(MODEL, H100, gpus=8))
    erratic = Workload(1, 2, 20, LogNormalLengths.with_mean(1000, sigma=2.0, limit=1_000_000))
    outcome = simulate(SYNC, erratic, layout, max_cycles=7)
    assert outcome.n_steps == 7
    assert outcome.step_seconds_error > 0.1


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_no_token_is_older_than_the_bound_whatever_the_lengths(bound: int) -> None:
    heavy = Workload(4, 4, 20, LogNormalLengths.with_mean(2000, limit=16384), rejected_share=0.3)
    layout = Layout(3, estimate_engine_timings(MODEL, H100, gpus=1), estimate_learner_timings(MODEL, H100, gpus=1))
    outcome = simulate(TrainingMode("async", bound), heavy, layout)
    assert outcome.staleness_max <= bound
    assert 0 <= outcome.learner_idle_share <= 1
    assert 0 <= outcome.engine_idle_share <= 1


def test_the_same_seed_gives_the_same_run() -> None:
    layout = Layout(2, EVEN, LearnerTimings(0.01, 0.0, 1.0))
    one, same, other = (
        simulate(TrainingMode("async", 2), workload(rejected_share=0.5), layout, seed=seed) for seed in (1, 1, 2)
    )
    assert one == same != other
