"""The figures of a batch are compared with figures computed by hand, and with TRL's."""

from dataclasses import dataclass, replace
from math import isnan, nan

import pytest
from described_metrics import metric_description
from made_outcomes import outcome

from train.evaluation.evaluate import EvaluationResult
from train.evaluation.results.result import TokenCounts
from train.run.step_metrics import compute_batch_metrics, compute_reward_metrics, count_solved_groups, percentile


@dataclass(frozen=True)
class Rollout:
    problem_id: str = "p"
    prompt_ids: tuple[int, ...] = (1, 2, 3)
    token_ids: tuple[int, ...] = (4, 5)
    versions: tuple[int, ...] = (6, 7)
    truncated: bool = False
    text: str = ""
    reward: float = 1.0
    verdict: str = "accepted"
    reward_seconds: float = 0.1
    source: str = "taco"
    reward_components: tuple[tuple[str, float], ...] = (("code", 1.0), ("format", 0.5))


RIGHT = Rollout()
WRONG = replace(
    RIGHT, reward=0.0, verdict="time_limit", reward_seconds=0.5, reward_components=(("code", 0.0), ("format", 0.5))
)
LOST = replace(RIGHT, reward=nan, verdict="", reward_seconds=nan, reward_components=(("code", nan), ("format", nan)))
CUT = replace(WRONG, token_ids=(4, 5, 6, 7), versions=(4, 5, 6, 7), truncated=True, verdict="no_code")


def test_the_figures_of_a_batch_equal_those_computed_by_hand():
    found = compute_batch_metrics(
        [(RIGHT, WRONG), (CUT, WRONG), (RIGHT, RIGHT)],
        version=7,
        tokens_before=100,
    )
    assert found["reward"] == pytest.approx(0.5)
    assert found["reward_std"] == pytest.approx((6 * 0.25 / 5) ** 0.5)
    assert found["frac_reward_zero_std"] == pytest.approx(2 / 3)
    assert (found["batch/solve_none"], found["batch/solve_all"], found["batch/solve_partial"]) == (1, 1, 1)
    assert (found["rewards/code/mean"], found["rewards/format/mean"]) == (0.5, 0.5)
    assert found["rewards/format/std"] == 0
    assert (found["reward_timeouts"], found["reward_no_signal"]) == (2, 0)
    assert (found["reward_latency_s/p50"], found["reward_latency_s/p95"]) == (0.1, 0.5)
    assert found["completions/mean_length"] == pytest.approx(14 / 6)
    assert (found["completions/min_length"], found["completions/max_length"]) == (2, 4)
    assert (found["completions/mean_terminated_length"], found["completions/max_terminated_length"]) == (2, 2)
    assert found["completions/clipped_ratio"] == pytest.approx(1 / 6)
    assert found["num_tokens"] == 100 + 6 * 3 + 14
    assert found["staleness/mean"] == pytest.approx((5 * 1 + 3 + 2 + 1) / 14)
    assert found["staleness/max"] == 3


def test_each_source_and_each_reward_has_figures_of_its_own():
    sum_ = replace(WRONG, source="math", reward_components=(("math", 1.0),), reward=1.0, verdict="accepted")
    difference = replace(LOST, source="math", reward_components=(("math", nan),), token_ids=(4,) * 6, versions=(4,) * 6)
    found = compute_batch_metrics([(RIGHT, WRONG), (sum_, difference)], version=7)
    assert (found["sources/taco/reward"], found["sources/taco/solve_rate"]) == (0.5, 0.5)
    assert (found["sources/math/reward"], found["sources/math/solve_rate"]) == (1.0, 1.0)
    assert (found["sources/taco/mean_length"], found["sources/math/mean_length"]) == (2, 4)
    assert (found["rewards/code/mean"], found["rewards/math/mean"]) == (0.5, 1.0)
    assert isnan(found["rewards/math/std"])


def test_completions_lost_by_the_sandbox_are_counted_and_not_averaged():
    groups = [[1, nan, 0], [nan, nan, nan], [1, nan, 1]]
    found = compute_reward_metrics(groups) | count_solved_groups(groups)
    assert found["reward"] == pytest.approx(3 / 4)
    assert found["reward_std"] == pytest.approx(0.5)
    assert found["frac_reward_zero_std"] == 0.5
    assert found["reward_no_signal"] == 5
    assert (found["batch/solve_none"], found["batch/solve_all"], found["batch/solve_partial"]) == (0, 1, 1)


def of_length(*parts):
    """Return a group with rewards for code and for length, given these for each completion."""
    return tuple(
        replace(RIGHT, reward=code + 0.3 * length, reward_components=(("code", code), ("length_budget", length)))
        for code, length in parts
    )


ALL_RIGHT, NONE_RIGHT = of_length((1, -0.1), (1, -2)), of_length((0, -0.1), (0, -2))
ONE_RIGHT = of_length((1, -2), (0, -0.1))


def test_a_reward_for_length_does_not_hide_that_all_or_no_completions_of_a_group_are_right():
    found = compute_batch_metrics([ALL_RIGHT, NONE_RIGHT, ONE_RIGHT], version=7)
    assert (found["batch/solve_none"], found["batch/solve_all"], found["batch/solve_partial"]) == (1, 1, 1)
    assert found["frac_reward_zero_std"] == 0


def test_the_online_filter_looks_at_task_rewards():
    pytest.importorskip("torch", reason="torch is not installed; `make test` installs it")
    from train.rollouts.groups import classify_group_signal

    assert [classify_group_signal(group) for group in (ALL_RIGHT, NONE_RIGHT, ONE_RIGHT)] == ["all", "none", "some"]
    near, far = (replace(RIGHT, reward=r, reward_components=(("length_budget", r),)) for r in (-0.1, -2.0))
    assert classify_group_signal((near, far)) == "some"  # nothing else is rewarded


def test_the_rewards_of_a_batch_without_any_signal_are_unknown():
    found = compute_batch_metrics([(LOST, LOST)], version=7)
    assert all(isnan(found[name]) for name in ("reward", "reward_std", "frac_reward_zero_std", "reward_latency_s/p95"))
    assert found["reward_no_signal"] == 2


def test_terminated_lengths_are_zero_as_in_trl_if_no_completion_ended():
    found = compute_batch_metrics([(CUT, CUT)], version=7)
    assert found["completions/clipped_ratio"] == 1
    assert found["completions/mean_terminated_length"] == 0


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="without a completion"):
        compute_batch_metrics([()], version=0)


@pytest.mark.parametrize(("share", "wanted"), [(0.5, 50), (0.95, 95), (1.0, 100), (0.0, 1), (0.951, 96)])
def test_percentiles_are_values_that_occurred(share, wanted):
    assert percentile([*range(100, 0, -1), nan], share) == wanted


def test_every_figure_has_a_meaning():
    pytest.importorskip("torch", reason="torch is not installed; `make test` installs it")
    from torch import zeros

    from train.config import ObjectiveConfig
    from train.learning.loss import build_minibatch, compute_minibatch_metrics
    from train.learning.sequences import TrainingSequence

    objective = ObjectiveConfig(old="learner", kl=0.1, truncation=2.0, mismatch_low=0.5, mismatch_high=2.0)
    sequence = TrainingSequence((1,), (2, 3), (-1.0, -1.0), (1.0, 1.0), False, 1.0)
    batch = build_minibatch([sequence], objective, [zeros(2)], [zeros(2)])
    names = {
        *compute_batch_metrics([(RIGHT, WRONG)], version=7),
        *compute_minibatch_metrics(zeros(2), zeros(2), batch, objective),
        *EvaluationResult(4, (outcome("p", "0101"),), TokenCounts(None, None)).compute_metrics(),
    }
    assert [name for name in names if metric_description(name) is None] == []
    assert metric_description("reward/of/nobody") is None


def test_rewards_have_the_numbers_that_trl_would_log():
    pytest.importorskip("trl")
    import torch
    from trl.trainer.utils import nanstd

    groups = [[0.0, 1.0, nan, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.3, 0.7, nan]]
    rewards = torch.tensor(groups, dtype=torch.float64)
    found = compute_reward_metrics(groups)
    assert found["reward"] == pytest.approx(torch.nanmean(rewards).item())
    assert found["reward_std"] == pytest.approx(nanstd(rewards).item())
    by_group = nanstd(rewards, dim=1)
    assert found["frac_reward_zero_std"] == pytest.approx(
        torch.isclose(by_group, torch.zeros_like(by_group)).double().mean().item()
    )
