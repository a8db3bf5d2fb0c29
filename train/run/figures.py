"""The figures of a batch, as pure functions, and what every figure of a run means.

Names are TRL's where TRL has one. A reward of nan (no signal) is left out of everything that is said of rewards, and
a figure of which nothing is known is nan.
"""

import re
from collections.abc import Mapping, Sequence
from math import ceil, isnan, nan, sqrt
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from train.rollouts.batch import Group

# "NAME" in a name stands for a word: that of a reward, what a group teaches, or a number of samples.
MEANINGS: dict[str, str] = {
    "step": "batches trained on; 0: before the first",
    "reward": "mean reward of the completions; with the online filter of those that are trained on",
    "reward_std": "standard deviation of the rewards over the whole batch (n - 1, as TRL)",
    "frac_reward_zero_std": "share of the groups whose rewards are all the same: nothing is learnt from them",
    "rewards/NAME/mean": "mean of one reward function, before its weight",
    "rewards/NAME/std": "standard deviation of one reward function (n - 1)",
    "reward_no_signal": "completions of which nothing is known, because the sandbox or a checker failed",
    "reward_timeouts": "completions whose program exceeded its time limit",
    "reward_latency_s/p50": "seconds that scoring a completion took once its turn had come, median",
    "reward_latency_s/p95": "the same, which 95% do not exceed",
    "batch/solve_none": "groups of which no completion has a reward above 0 (DeepCoder)",
    "batch/solve_all": "groups of which every completion has a reward of at least 1 (DeepCoder)",
    "batch/solve_partial": "the other groups; those without any signal are in none of the three",
    "completions/mean_length": "tokens of a completion, mean",
    "completions/min_length": "tokens of the shortest completion",
    "completions/max_length": "tokens of the longest completion",
    "completions/mean_terminated_length": "tokens of completions that came to an end by themselves, mean; 0: none did",
    "completions/min_terminated_length": "tokens of the shortest of these",
    "completions/max_terminated_length": "tokens of the longest of these",
    "completions/clipped_ratio": "share of the completions that were cut off at the length limit",
    "num_tokens": "tokens since the run's start, prompts and completions",
    "staleness/mean": "updates of the weights between the sampling of a token and its training, mean over tokens",
    "staleness/max": "the same, of the oldest token",
    "loss": "what the optimizer minimises, mean over the updates of the step",
    "grad_norm": "norm of the gradient before it is clipped",
    "learning_rate": "of the optimizer, mean over the updates of the step",
    "counted_tokens": "completion tokens that took part in an update, mean over the updates of the step",
    "entropy": "entropy of the policy's next token in nats, mean over the tokens that count",
    "kl": "k3 estimate of KL(policy || reference), mean over tokens",
    "clip_ratio/low_mean": "share of the tokens clipped at 1 - clip_low (their advantage is negative)",
    "clip_ratio/low_min": "the same share of the completion that has least",
    "clip_ratio/high_mean": "share of the tokens clipped at 1 + clip_high (their advantage is positive)",
    "clip_ratio/high_max": "the same share of the completion that has most",
    "clip_ratio/region_mean": "both together",
    "sampling/sampling_logp_difference/mean": "|log-probability by the learner - by the sampler|, mean over tokens",
    "sampling/sampling_logp_difference/max": "the same, largest",
    "sampling/importance_sampling_ratio/min": "least probability by the learner over that by the sampler",
    "sampling/importance_sampling_ratio/mean": "the same, mean",
    "sampling/importance_sampling_ratio/max": "the same, largest",
    "mismatch/kl": "k3 estimate of KL(sampler || learner), mean over tokens",
    "mismatch/token_mult_prob_error": "mean exp |log-probability by the learner - by the sampler| (NeMo-RL: <= 1.05)",
    "mismatch/weight_mean": "weight of a token for that mismatch, mean",
    "mismatch/kept": "share of the tokens whose completion the bounds of the mismatch have left in",
    "parity/token_mult_prob_error": "the same error, of a probe that is sampled after new weights were handed over",
    "parity/logp_difference_max": "largest difference of log-probabilities in that probe",
    "skipped": "share of the updates that were left out, because no token counted",
    "filter/NAME": "groups sampled for the batch, by what they teach: none or all solved, some, unknown, cut_off; "
    "prompts refused; rounds of sampling",
    "stage": "number of the stage, from 0",
    "epoch": "prompts asked since the run's start, in datasets",
    "step_time": "seconds of the step, evaluation left out",
    "idle/trainer": "share of the step's time in which the learner waited",
    "idle/sampler": "share of the step's time in which the sampler waited",
    "weight_sync_s": "seconds until the sampler had the new weights",
    "eval/pass@1": "share of right samples on the evaluation set, mean over its problems",
    "eval/pass@1_low": "lower end of the 95% confidence interval of that",
    "eval/pass@1_high": "its upper end",
    "eval/pass@NAME": "chance that one of so many samples is right (Chen et al. 2021), mean over problems",
    "eval/clipped_ratio": "share of the evaluation's answers that were cut off at the length limit",
    "eval/no_code": "share of the evaluation's answers without a program",
    "eval/no_signal": "samples of the evaluation without a verdict",
    "eval/mean_length": "tokens of an answer of the evaluation, mean",
}


def meaning(name: str) -> str | None:
    """What a figure means; None for one that nobody has explained."""
    words = (said for known, said in MEANINGS.items() if re.fullmatch(re.escape(known).replace("NAME", "[^/]+"), name))
    return next(words, None)


def of_batch(
    groups: "Sequence[Group]",
    *,
    version: int,
    tokens_before: float = 0,
    parts: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, float]:
    """What the completions of a batch say. version: that of the weights now being trained; tokens_before: num_tokens of
    the step before; parts: of each reward function its values, in the order of the completions.

    Raises ValueError for a batch without a completion.
    """
    rollouts = [rollout for group in groups for rollout in group]
    if not rollouts:
        raise ValueError("a batch without a completion has no figures")
    named = {
        key: value
        for name, values in (parts or {}).items()
        for key, value in ((f"rewards/{name}/mean", mean(values)), (f"rewards/{name}/std", std(values)))
    }
    return {
        **of_rewards([[rollout.reward for rollout in group] for group in groups]),
        **named,
        "reward_timeouts": sum(rollout.verdict == "time_limit" for rollout in rollouts),
        "reward_latency_s/p50": percentile([rollout.reward_seconds for rollout in rollouts], 0.5),
        "reward_latency_s/p95": percentile([rollout.reward_seconds for rollout in rollouts], 0.95),
        **of_lengths([(len(rollout.token_ids), rollout.truncated) for rollout in rollouts]),
        "num_tokens": tokens_before + sum(len(r.prompt_ids) + len(r.token_ids) for r in rollouts),
        **staleness([version - token for rollout in rollouts for token in rollout.versions]),
    }


def of_updates(updates: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of the updates of a step: the least of what is a least, the most of what is a most, else the mean."""
    found = {}
    for name in dict.fromkeys(name for update in updates for name in update):
        values = [update[name] for update in updates if not isnan(update.get(name, nan))]
        of_all = min if name.endswith("min") else max if name.endswith("max") else fmean
        found[name] = of_all(values) if values else nan
    return found


def of_rewards(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Of the rewards of each group."""
    known = [[reward for reward in group if not isnan(reward)] for group in groups]
    rewards = [reward for group in known for reward in group]
    some = [group for group in known if group]
    none = sum(max(group) <= 0 for group in some)
    all_ = sum(min(group) >= 1 for group in some)
    return {
        "reward": mean(rewards),
        "reward_std": std(rewards),
        "frac_reward_zero_std": mean([float(min(group) == max(group)) for group in some]),
        "reward_no_signal": sum(map(len, groups)) - len(rewards),
        "batch/solve_none": none,
        "batch/solve_all": all_,
        "batch/solve_partial": len(some) - none - all_,
    }


def of_lengths(completions: Sequence[tuple[int, bool]]) -> dict[str, float]:
    """Of the tokens of each completion, and whether it was cut off."""
    lengths = [length for length, _ in completions]
    ended = [length for length, truncated in completions if not truncated] or [0]  # as TRL
    return {
        "completions/mean_length": fmean(lengths),
        "completions/min_length": min(lengths),
        "completions/max_length": max(lengths),
        "completions/mean_terminated_length": fmean(ended),
        "completions/min_terminated_length": min(ended),
        "completions/max_terminated_length": max(ended),
        "completions/clipped_ratio": fmean(truncated for _, truncated in completions),
    }


def staleness(ages: Sequence[int]) -> dict[str, float]:
    """Of the age of each token, in updates of the weights."""
    return {"staleness/mean": mean(ages), "staleness/max": max(ages, default=nan)}


def mean(values: Sequence[float]) -> float:
    """Without nan; nan if nothing is left."""
    known = [value for value in values if not isnan(value)]
    return fmean(known) if known else nan


def std(values: Sequence[float]) -> float:
    """With n - 1, without nan; nan if fewer than two are left."""
    known = [value for value in values if not isnan(value)]
    if len(known) < 2:
        return nan
    centre = fmean(known)
    return sqrt(sum((value - centre) ** 2 for value in known) / (len(known) - 1))


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that this share of them does not exceed (nearest rank), without nan; nan if nothing is left."""
    known = sorted(value for value in values if not isnan(value))
    return known[max(ceil(share * len(known)), 1) - 1] if known else nan
