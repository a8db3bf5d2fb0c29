"""Descriptions of all metrics of a run, and the computation of batch, reward and performance metrics.

Metrics that TRL also has use TRL's names. Unknown rewards (nan) are excluded, and unknown metrics are nan.
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
    "step": "number of batches trained on so far",
    "reward": "mean reward of the completions; with the online filter, only of completions trained on",
    "reward_std": "standard deviation of the rewards over the whole batch (n - 1, as TRL)",
    "frac_reward_zero_std": "share of groups with equal rewards, which give no gradient",
    "rewards/NAME/mean": "mean of one reward function, without its weight",
    "rewards/NAME/std": "standard deviation of one reward function (n - 1)",
    "reward_model/loss": "loss of the reward model in training: -log sigmoid(better - worse), mean over rankings",
    "reward_model/accuracy": "share of completion pairs that the reward model ordered correctly before the update on "
    "them",
    "reward_model/pairs": "completion pairs in a training of the reward model",
    "reward_model/replayed": "rankings replayed from earlier trainings of the reward model",
    "sources/NAME/reward": "mean reward of the completions for problems of one source",
    "sources/NAME/solve_rate": "share of correct programs or answers among the completions of one source",
    "sources/NAME/mean_length": "mean tokens of the completions of one source",
    "reward_no_signal": "completions without a reward: the sandbox or a checker failed, or a function returned None",
    "reward_timeouts": "completions whose program exceeded its time limit",
    "reward_latency_s/p50": "median seconds of scoring a completion, without queueing",
    "reward_latency_s/p95": "95th percentile of the seconds of scoring a completion, without queueing",
    "batch/solve_none": "groups without a completion with a task reward above 0 (DeepCoder)",
    "batch/solve_all": "groups whose completions all have a task reward of at least 1 (DeepCoder)",
    "batch/solve_partial": "groups with a known reward in neither batch/solve_none nor batch/solve_all",
    "completions/mean_length": "mean tokens of a completion",
    "completions/min_length": "tokens of the shortest completion",
    "completions/max_length": "tokens of the longest completion",
    "completions/mean_terminated_length": "mean tokens of untruncated completions; 0 if there are none",
    "completions/min_terminated_length": "tokens of the shortest untruncated completion; 0 if there are none",
    "completions/max_terminated_length": "tokens of the longest untruncated completion; 0 if there are none",
    "completions/clipped_ratio": "share of the completions truncated at the length limit",
    "num_tokens": "tokens of prompts and completions since the run's start",
    "staleness/mean": "number of versions between a token's sampling and its training, mean over tokens",
    "staleness/max": "number of versions between a token's sampling and its training, maximum over tokens",
    "loss": "training loss, mean over the updates of the step",
    "grad_norm": "norm of the gradient before clipping",
    "learning_rate": "learning rate, mean over the updates of the step",
    "counted_tokens": "completion tokens in the loss, mean over the updates of the step",
    "entropy": "entropy of the policy's next token in nats, mean over the tokens in the loss",
    "kl": "k3 estimate of KL(policy || reference), mean over tokens",
    "clip_ratio/low_mean": "share of tokens clipped at 1 - clip_low, which have negative advantages",
    "clip_ratio/low_min": "share of tokens clipped at 1 - clip_low, minimum over completions",
    "clip_ratio/high_mean": "share of tokens clipped at 1 + clip_high, which have positive advantages",
    "clip_ratio/high_max": "share of tokens clipped at 1 + clip_high, maximum over completions",
    "clip_ratio/region_mean": "share of the tokens clipped at either bound",
    "sampling/sampling_logp_difference/mean": "|learner's - sampler's log-probability|, mean over tokens",
    "sampling/sampling_logp_difference/p99": "|learner's - sampler's log-probability|, 99th percentile over tokens",
    "sampling/sampling_logp_difference/max": "|learner's - sampler's log-probability|, maximum over tokens",
    "sampling/importance_sampling_ratio/min": "learner's probability / sampler's probability, minimum over tokens",
    "sampling/importance_sampling_ratio/mean": "learner's probability / sampler's probability, mean over tokens",
    "sampling/importance_sampling_ratio/max": "learner's probability / sampler's probability, maximum over tokens",
    "mismatch/kl": "k3 estimate of KL(sampler || learner), mean over tokens",
    "mismatch/token_mult_prob_error": "exp |learner's - sampler's log-probability|, mean over tokens (NeMo-RL bounds "
    "it by 1.05)",
    "mismatch/weight_mean": "importance weight that corrects the mismatch of sampler and learner, mean over tokens",
    "mismatch/weight_truncated": "share of tokens with an importance weight at its upper bound, objective.truncation",
    "mismatch/weight_ess": "effective sample size of the importance weights as a share of the tokens; 1: equal weights",
    "mismatch/kept": "share of tokens in completions whose mismatch is within the configured bounds",
    "parity/token_mult_prob_error": "exp |learner's - sampler's log-probability|, mean over the probe's tokens, after "
    "loading weights",
    "parity/logp_difference_max": "|learner's - sampler's log-probability|, maximum over the probe's tokens",
    "parity/checked": "share of the loaded weights whose checksums were compared",
    "parity/proof_s": "seconds of comparing checksums and probe after loading weights",
    "skipped": "share of the updates skipped because no token was in the loss",
    "groups/age_mean": "async only: versions between a group's start version and its training, mean over groups",
    "groups/age_max": "async only: versions between a group's start version and its training, maximum over groups; at "
    "most rollout.staleness",
    "groups/cut": "groups in the batch; fewer than rollout.prompts if rollout.max_rounds rounds did not suffice",
    "groups/running": "groups being sampled",
    "groups/ready": "scored groups in the queue for training",
    "groups/outstanding": "dispatched groups neither trained on nor rejected",
    "length_bias": "mean length of the completions trained on, divided by that of all completions with the same start "
    "version; below 1: short completions are preferred",
    "answers/spans": "number of weight versions that sampled a completion, mean over completions",
    "answers/broken": "sample results that the controller rejected as invalid",
    "leases/lost": "leases of groups lost by workers since the previous batch",
    "workers/alive": "live rollout workers",
    "workers/dead": "workers that died while holding leases, since the controller started",
    "workers/tokens_per_second": "tokens per second of all workers, as reported by them",
    "controller/lag_s": "longest wait of a worker for the controller's reply, in seconds; above 0.05, move rewards to "
    "other machines: sandbox.backend",
    "workers/cache_use": "used share of the KV cache of the engine with the fullest one",
    "filter/NAME": "groups sampled for the batch, by signal (none: no completion is right; all, some, unknown, "
    "cut_off); prompts refused; rounds of sampling",
    "stage": "index of the stage of completion length, from 0",
    "epoch": "prompts sampled since the run's start, divided by the size of the dataset",
    "perf/tokens_per_second": "tokens of prompts and completions in the batch, per second of the step",
    "perf/training_tokens_per_second": "tokens computed by the learner, each prompt once, per second of training",
    "perf/mfu": "share of the peak bfloat16 FLOPS of the learner's GPUs used in training, without recomputation; only "
    "on GPUs with a known peak",
    "perf/host_memory_gib": "peak host memory of the trainer's process",
    "perf/machine_memory_share": "used share of the machine's host memory at the end of the step",
    "perf/device_memory_gib": "peak memory allocated by torch on the first GPU; only on GPUs",
    "step_time": "seconds of the step, without evaluation",
    "idle/trainer": "share of the step in which the learner waited",
    "idle/sampler": "share of the step in which the sampler waited; under async, share of the last seconds in which a "
    "worker sampled no token, mean over workers",
    "weight_sync_s": "seconds until the sampler had the new weights; under async, until workers could fetch them",
    "weight_load_s": "seconds in which the worker in the trainer's process loaded and verified the previous weights",
    "eval/pass@1": "share of correct samples of a problem, mean over the evaluation set; truncated samples are judged "
    "by their program. With several suites, metric names begin with eval/SUITE instead of eval",
    "eval/pass@1_low": "lower bound of the 95% confidence interval of eval/pass@1",
    "eval/pass@1_high": "upper bound of the 95% confidence interval of eval/pass@1",
    "eval/pass@NAME": "probability that at least one of NAME samples of a problem is correct (Chen et al. 2021), mean "
    "over problems",
    "eval/clipped_ratio": "share of the evaluation's samples truncated at the length limit",
    "eval/clipped_correct_ratio": "share of the evaluation's samples truncated but correct",
    "eval/no_code": "share of the evaluation's samples without a program",
    "eval/no_signal": "samples of the evaluation without a verdict",
    "eval/mean_length": "mean tokens of a sample of the evaluation",
}


def compute_batch_metrics(groups: "Sequence[Group]", *, version: int, tokens_before: float = 0) -> dict[str, float]:
    """Return the metrics of a batch's completions.

    version        version of the weights before this batch's updates
    tokens_before  num_tokens of the previous step

    Raises ValueError for a batch without a completion.
    """
    rollouts = [rollout for group in groups for rollout in group]
    if not rollouts:
        raise ValueError("a batch without a completion has no metrics")
    ages = [version - token for rollout in rollouts for token in rollout.versions]
    reward_seconds = [rollout.reward_seconds for rollout in rollouts]
    lengths = [len(rollout.token_ids) for rollout in rollouts]
    terminated = [len(rollout.token_ids) for rollout in rollouts if not rollout.truncated] or [0]  # 0, as in TRL
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
        "completions/mean_terminated_length": fmean(terminated),
        "completions/min_terminated_length": min(terminated),
        "completions/max_terminated_length": max(terminated),
        "completions/clipped_ratio": fmean(rollout.truncated for rollout in rollouts),
        "num_tokens": tokens_before + sum(len(r.prompt_ids) + len(r.token_ids) for r in rollouts),
        "staleness/mean": mean(ages),
        "staleness/max": max(ages, default=nan),
    }


def combine_update_metrics(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Combine the metrics of a step's updates: the minimum of names that end in "min", maximum for "max", else mean."""
    combined = {}
    for name in dict.fromkeys(name for update in updates for name in update):
        values = [update[name] for update in updates if not isnan(update.get(name, nan))]
        combine = min if name.endswith("min") else max if name.endswith("max") else fmean
        combined[name] = combine(values) if values else nan
    return combined


def compute_reward_metrics(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return the metrics of a batch's rewards. groups: rewards of each group; nan if unknown."""
    known = [[reward for reward in group if not isnan(reward)] for group in groups]
    rewards = [reward for group in known for reward in group]
    return {
        "reward": mean(rewards),
        "reward_std": std(rewards),
        "frac_reward_zero_std": mean([float(min(group) == max(group)) for group in known if group]),
        "reward_no_signal": sum(map(len, groups)) - len(rewards),
    }


def count_solved_groups(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Count the groups solved by none, all and some of their completions. groups: task rewards of each group."""
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


# Peak dense bfloat16 FLOPS from data sheets, by a part of the device's name; longer names precede their prefixes.
_PEAKS = {
    "B200": 2250e12, "H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "H800": 989e12, "H20": 148e12,
    "A100": 312e12, "A800": 312e12, "L40S": 362e12, "A10G": 70e12, "L4": 121e12, "RTX 4090": 165e12,
}  # fmt: skip
_GIB = 2**30


def get_peak_flops(device: str) -> float:
    """Return a GPU's peak bfloat16 FLOPS by name; 0 if unknown."""
    return next((peak for name, peak in _PEAKS.items() if name in device), 0.0)


class Performance:
    """Computation of performance metrics. n_ranks: number of the learner's processes, each with its own GPU."""

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
