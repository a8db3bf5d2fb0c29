"""The descriptions of all metrics of a run, the metrics of a batch, and the performance of a step.

Names are TRL's where TRL has one. Unknown rewards (nan) are excluded, and unknown metrics are nan.
"""

import resource
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, isnan, nan, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

from rewards.form import compute_task_reward
from rewards.reward import ACCEPTED
from train.learning.flops import count_forward_flops, count_training_flops

if TYPE_CHECKING:
    from train.config import Config
    from train.rollouts.groups import Group, Rollout

# "NAME" stands for a reward, a source, a group's signal, or a number of samples.
METRIC_DESCRIPTIONS: dict[str, str] = {
    "step": "batches trained on; 0: before the first",
    "reward": "mean reward of the completions; with the online filter, of those that are trained on",
    "reward_std": "standard deviation of the rewards over the whole batch (n - 1, as TRL)",
    "frac_reward_zero_std": "share of groups with equal rewards, which give no gradient",
    "rewards/NAME/mean": "mean of one reward function, before its weight",
    "rewards/NAME/std": "standard deviation of one reward function (n - 1)",
    "reward_model/loss": "loss of the reward model in training: -log sigmoid(better - worse), mean over rankings",
    "reward_model/accuracy": "share of completion pairs that it ordered correctly, before each update on them",
    "reward_model/pairs": "completion pairs that it was trained on",
    "reward_model/replayed": "rankings replayed from before its previous training",
    "sources/NAME/reward": "mean reward of the completions for problems of one source",
    "sources/NAME/solve_rate": "share of these completions that are accepted: correct programs or answers",
    "sources/NAME/mean_length": "mean tokens of these completions",
    "reward_no_signal": "completions without a reward: the sandbox or a checker failed, or a function returned None",
    "reward_timeouts": "completions whose program exceeded its time limit",
    "reward_latency_s/p50": "median seconds of scoring a completion, without queueing",
    "reward_latency_s/p95": "95th percentile of these seconds",
    "batch/solve_none": "groups without a completion with a task reward above 0 (DeepCoder)",
    "batch/solve_all": "groups whose completions all have a task reward of at least 1 (DeepCoder)",
    "batch/solve_partial": "the other groups; those without any signal are in none of the three",
    "completions/mean_length": "mean tokens of a completion",
    "completions/min_length": "tokens of the shortest completion",
    "completions/max_length": "tokens of the longest completion",
    "completions/mean_terminated_length": "mean tokens of completions that are not truncated; 0: all are",
    "completions/min_terminated_length": "tokens of the shortest of them",
    "completions/max_terminated_length": "tokens of the longest of them",
    "completions/clipped_ratio": "share of the completions truncated at the length limit",
    "num_tokens": "tokens since the run's start, prompts and completions",
    "staleness/mean": "mean number of weight updates between a token's sampling and its training",
    "staleness/max": "largest such number of a token",
    "loss": "training loss, mean over the updates of the step",
    "grad_norm": "norm of the gradient before clipping",
    "learning_rate": "learning rate, mean over the updates of the step",
    "counted_tokens": "completion tokens in the loss, mean over the updates of the step",
    "entropy": "entropy of the policy's next token in nats, mean over the tokens in the loss",
    "kl": "k3 estimate of KL(policy || reference), mean over tokens",
    "clip_ratio/low_mean": "share of the tokens clipped at 1 - clip_low (their advantage is negative)",
    "clip_ratio/low_min": "smallest such share of a completion",
    "clip_ratio/high_mean": "share of the tokens clipped at 1 + clip_high (their advantage is positive)",
    "clip_ratio/high_max": "largest such share of a completion",
    "clip_ratio/region_mean": "share of the tokens clipped at either bound",
    "sampling/sampling_logp_difference/mean": "mean |learner's log-probability - sampler's| over tokens",
    "sampling/sampling_logp_difference/p99": "99th percentile of these differences",
    "sampling/sampling_logp_difference/max": "largest of these differences",
    "sampling/importance_sampling_ratio/min": "smallest ratio of the learner's to the sampler's probability",
    "sampling/importance_sampling_ratio/mean": "mean of these ratios",
    "sampling/importance_sampling_ratio/max": "largest of these ratios",
    "mismatch/kl": "k3 estimate of KL(sampler || learner), mean over tokens",
    "mismatch/token_mult_prob_error": "mean exp |learner's log-probability - sampler's| (NeMo-RL: <= 1.05)",
    "mismatch/weight_mean": "mean importance weight that corrects this mismatch",
    "mismatch/weight_truncated": "share of tokens with a weight at its upper bound, objective.truncation",
    "mismatch/weight_ess": "effective sample size of these weights as a share of the tokens; 1: all are equal",
    "mismatch/kept": "share of the tokens whose completion is within the bounds of the mismatch",
    "parity/token_mult_prob_error": "the same error on the probe, after loading new weights",
    "parity/logp_difference_max": "largest difference of log-probabilities in that comparison",
    "parity/checked": "share of the weights with compared checksums",
    "parity/proof_s": "seconds of these comparisons after weights were loaded",
    "skipped": "share of the updates skipped because no token was in the loss",
    "groups/age_mean": "async only: mean number of versions between a group's start version and its training",
    "groups/age_max": "largest such number; never above rollout.staleness",
    "groups/cut": "groups of the batch; fewer than rollout.prompts after rollout.max_rounds rounds",
    "groups/running": "groups being sampled",
    "groups/ready": "scored groups in the queue for training",
    "groups/outstanding": "groups dispatched and neither used nor rejected",
    "length_bias": "mean length of the completions trained on, divided by that of all completions with the same start "
    "version; below 1, short ones are preferred",
    "answers/spans": "mean number of weight versions that sampled a completion",
    "answers/broken": "invalid results rejected by the controller",
    "leases/lost": "groups that workers lost since the previous batch",
    "workers/alive": "live rollout workers",
    "workers/dead": "workers lost with leased groups since the controller started",
    "workers/tokens_per_second": "tokens sampled per second by all workers, as they report",
    "controller/lag_s": "longest wait of a worker for the controller's reply, in seconds; above 0.05, move rewards to "
    "other machines: sandbox.backend",
    "workers/cache_use": "used share of the fullest engine's cache",
    "filter/NAME": "groups sampled for the batch, by signal (none: no completion is right; all, some, unknown, "
    "cut_off); prompts refused; rounds of sampling",
    "stage": "number of the stage, counted from 0",
    "epoch": "prompts sampled since the run's start, divided by the size of the dataset",
    "perf/tokens_per_second": "tokens of the batch, prompts and completions, per second of the step",
    "perf/training_tokens_per_second": "tokens computed by the learner, each prompt once, per second of training",
    "perf/mfu": "share of the peak bfloat16 FLOPS of the learner's GPUs used in training, recomputation not counted; "
    "only on GPUs with a known peak",
    "perf/host_memory_gib": "peak memory of the trainer's process on its machine",
    "perf/machine_memory_share": "used share of the machine's memory at the end of the step",
    "perf/device_memory_gib": "peak memory of torch on the first GPU; only on GPUs",
    "step_time": "seconds of the step, without evaluation",
    "idle/trainer": "share of the step's time in which the learner waited",
    "idle/sampler": "share of the step's time in which the sampler waited; under async, mean share of the last "
    "seconds in which a worker sampled no token",
    "weight_sync_s": "seconds until the sampler had the new weights; under async, until workers could fetch them",
    "weight_load_s": "seconds in which the worker in the trainer's process loaded and verified the previous weights",
    "eval/pass@1": "mean share of correct samples per problem of the evaluation set; truncated samples are judged by "
    "their program. With several suites, the names of this and the following metrics begin with eval/SUITE",
    "eval/pass@1_low": "lower end of its 95% confidence interval",
    "eval/pass@1_high": "upper end of that interval",
    "eval/pass@NAME": "mean probability that at least one of that many samples is correct (Chen et al. 2021)",
    "eval/clipped_ratio": "share of the evaluation's samples truncated at the length limit",
    "eval/clipped_correct_ratio": "share of the evaluation's samples that are truncated but correct",
    "eval/no_code": "share of the evaluation's samples without a program",
    "eval/no_signal": "samples of the evaluation without a verdict",
    "eval/mean_length": "mean tokens of a sample of the evaluation",
}


def compute_batch_metrics(groups: "Sequence[Group]", *, version: int, tokens_before: float = 0) -> dict[str, float]:
    """Return the metrics of a batch's completions.

    version        version of the weights being trained
    tokens_before  num_tokens of the previous step

    Raises ValueError for a batch without a completion.
    """
    rollouts = [rollout for group in groups for rollout in group]
    if not rollouts:
        raise ValueError("a batch without a completion has no metrics")
    ages = [version - token for rollout in rollouts for token in rollout.versions]
    reward_seconds = [rollout.reward_seconds for rollout in rollouts]
    lengths = [len(rollout.token_ids) for rollout in rollouts]
    ended = [len(rollout.token_ids) for rollout in rollouts if not rollout.truncated] or [0]  # as TRL
    components: dict[str, list[float]] = {}
    for name, value in (part for rollout in rollouts for part in rollout.reward_components):
        components.setdefault(name, []).append(value)
    by_source: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        by_source.setdefault(rollout.source.replace("/", "_"), []).append(rollout)
    by_source.pop("", None)
    return {
        **compute_reward_metrics([[rollout.reward for rollout in group] for group in groups]),
        **count_solved_groups(
            [[compute_task_reward(r.reward, r.reward_components) for r in group] for group in groups]
        ),
        **{
            f"rewards/{name}/{statistic}": compute(values)
            for name, values in components.items()
            for statistic, compute in (("mean", mean), ("std", std))
        },
        **{name: value for source in by_source.items() for name, value in _compute_source_metrics(*source)},
        "reward_timeouts": sum(rollout.verdict == "time_limit" for rollout in rollouts),
        "reward_latency_s/p50": percentile(reward_seconds, 0.5),
        "reward_latency_s/p95": percentile(reward_seconds, 0.95),
        "completions/mean_length": fmean(lengths),
        "completions/min_length": min(lengths),
        "completions/max_length": max(lengths),
        "completions/mean_terminated_length": fmean(ended),
        "completions/min_terminated_length": min(ended),
        "completions/max_terminated_length": max(ended),
        "completions/clipped_ratio": fmean(rollout.truncated for rollout in rollouts),
        "num_tokens": tokens_before + sum(len(r.prompt_ids) + len(r.token_ids) for r in rollouts),
        "staleness/mean": mean(ages),
        "staleness/max": max(ages, default=nan),
    }


def combine_update_metrics(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Combine the metrics of a step's updates: minimum or maximum by the suffix min or max, otherwise the mean."""
    combined = {}
    for name in dict.fromkeys(name for update in updates for name in update):
        values = [update[name] for update in updates if not isnan(update.get(name, nan))]
        combine = min if name.endswith("min") else max if name.endswith("max") else fmean
        combined[name] = combine(values) if values else nan
    return combined


def compute_reward_metrics(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return the metrics of the rewards, given for each group."""
    known = [[reward for reward in group if not isnan(reward)] for group in groups]
    rewards = [reward for group in known for reward in group]
    return {
        "reward": mean(rewards),
        "reward_std": std(rewards),
        "frac_reward_zero_std": mean([float(min(group) == max(group)) for group in known if group]),
        "reward_no_signal": sum(map(len, groups)) - len(rewards),
    }


def count_solved_groups(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Count the groups solved by none, all and some completions, given their task rewards."""
    known = [[reward for reward in group if not isnan(reward)] for group in groups]
    extremes = [(min(group), max(group)) for group in known if group]
    none = sum(highest <= 0 for _, highest in extremes)
    all_ = sum(lowest >= 1 for lowest, _ in extremes)
    return {
        "batch/solve_none": none,
        "batch/solve_all": all_,
        "batch/solve_partial": len(extremes) - none - all_,
    }


def _compute_source_metrics(source: str, rollouts: "Sequence[Rollout]") -> Iterator[tuple[str, float]]:
    known = [rollout for rollout in rollouts if not isnan(rollout.reward)]
    yield f"sources/{source}/reward", mean([rollout.reward for rollout in known])
    yield f"sources/{source}/solve_rate", mean([float(rollout.verdict == ACCEPTED) for rollout in known])
    yield f"sources/{source}/mean_length", fmean(len(rollout.token_ids) for rollout in rollouts)


def mean(values: Sequence[float]) -> float:
    """Return the mean of the values that are not nan; nan if there are none."""
    known = [value for value in values if not isnan(value)]
    return fmean(known) if known else nan


def std(values: Sequence[float]) -> float:
    """Return the standard deviation (n - 1) of the values that are not nan; nan if there are fewer than two."""
    known = [value for value in values if not isnan(value)]
    if len(known) < 2:
        return nan
    center = fmean(known)
    return sqrt(sum((value - center) ** 2 for value in known) / (len(known) - 1))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile of the values that are not nan; nan if there are none."""
    known = sorted(value for value in values if not isnan(value))
    return known[max(ceil(share * len(known)), 1) - 1] if known else nan


# Dense bfloat16 FLOPS from data sheets, by a part of the device's name, more specific names first.
_PEAKS = {
    "B200": 2250e12, "H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "H800": 989e12, "H20": 148e12,
    "A100": 312e12, "A800": 312e12, "L40S": 362e12, "A10G": 70e12, "L4": 121e12, "RTX 4090": 165e12,
}  # fmt: skip
_GIB = 2**30


def get_peak_flops(device: str) -> float:
    """Return a GPU's peak bfloat16 FLOPS by name; 0 if unknown."""
    return next((peak for name, peak in _PEAKS.items() if name in device), 0.0)


class Performance:
    """The performance metrics of a run's steps. n_ranks: the learner's processes, each with its own GPU."""

    def __init__(self, config: "Config", *, n_ranks: int) -> None:
        import torch

        from train.learning.policy import load_hf_config

        self._on_gpu = torch.cuda.is_available()
        device = torch.cuda.get_device_name() if self._on_gpu and config.model.dtype == "bfloat16" else ""
        self._peak = n_ranks * get_peak_flops(device)  # 0: unknown
        self._flops = (
            count_training_flops(count_forward_flops(load_hf_config(config.model.path)), config) if self._peak else None
        )

    def compute_step_metrics(
        self, groups: "Sequence[Group]", *, train_seconds: float, step_seconds: float
    ) -> dict[str, float]:
        """Return the performance metrics of a step that trained on these groups."""
        import psutil
        import torch

        lengths = [(len(group[0].prompt_ids), [len(rollout.token_ids) for rollout in group]) for group in groups]
        metrics = {
            "perf/tokens_per_second": sum(n * len(sampled) + sum(sampled) for n, sampled in lengths) / step_seconds,
            "perf/training_tokens_per_second": sum(n + sum(sampled) for n, sampled in lengths) / train_seconds,
            "perf/host_memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _GIB,
            "perf/machine_memory_share": psutil.virtual_memory().percent / 100,
        }
        if self._on_gpu:
            metrics["perf/device_memory_gib"] = torch.cuda.max_memory_allocated() / _GIB
        if self._flops is not None:
            metrics["perf/mfu"] = self._flops.compute_total(lengths) / train_seconds / self._peak
        return metrics
