"""The objective of a minibatch: its masks, loss and metrics.

The section [objective] selects the formulas of objectives.py. All values are indexed by token (sequences.py), so the
losses of rows can be summed, and metrics depend neither on packing nor on ranks.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from train.config import ObjectiveConfig
from train.learning.objectives import (
    compute_clipped_loss,
    compute_constant_length_mean,
    compute_ratio,
    compute_sequence_mean,
    compute_token_mean,
    compute_truncated_importance_weights,
    estimate_kl,
    mask_mismatched_sequences,
    mask_overlong,
    zero_overlong_advantages,
)
from train.learning.sequences import TrainingSequence

Logprobs = Sequence[Tensor] | None  # one tensor per sequence, with one number per completion token


@dataclass(frozen=True, slots=True)
class Minibatch:
    """The tensors of a minibatch of T completion tokens and N completions.

    has_sampler_logprob_T  1.0 where the sampler reported a finite log-probability
    weight_T               importance weight of each token in the policy loss
    denominator_mask_T     1.0 for tokens counted in the denominators
    loss_mask_T            1.0 for tokens summed in the loss, a subset of the counted tokens
    max_tokens             maximum completion length, for the aggregation "constant_length"
    """

    sample_index_T: Tensor
    advantage_T: Tensor
    sampler_logp_T: Tensor
    has_sampler_logprob_T: Tensor
    old_logp_T: Tensor
    reference_logp_T: Tensor | None
    weight_T: Tensor
    denominator_mask_T: Tensor
    loss_mask_T: Tensor
    tokens_N: Tensor
    n_tokens: float
    n_sequences: float
    max_tokens: int

    def select(self, indices: Tensor) -> "Minibatch":
        """Return a minibatch with these tokens only, but with the denominators of the whole minibatch."""
        return self._with_tensors("_T", lambda tensor: tensor[indices])

    def to(self, device: torch.device | str) -> "Minibatch":
        return self._with_tensors(("_T", "_N"), lambda tensor: tensor.to(device))

    def _with_tensors(self, suffix: str | tuple[str, ...], change: Callable[[Tensor], Tensor]) -> "Minibatch":
        tensors = {field.name: getattr(self, field.name) for field in fields(self) if field.name.endswith(suffix)}
        changed: dict[str, Any] = {name: change(tensor) for name, tensor in tensors.items() if tensor is not None}
        return replace(self, **changed)


def build_minibatch(
    sequences: Sequence[TrainingSequence], objective: ObjectiveConfig, old: Logprobs, reference: Logprobs, *,
    max_tokens: int = 0, device: torch.device | str = "cpu",
) -> Minibatch:  # fmt: skip
    """Convert the sequences to tensors over their tokens.

    old        the learner's log-probabilities; None: use the sampler's, which `replace_old_logprobs` may replace
    reference  the reference's log-probabilities; None without a reference

    If the objective needs sampler log-probabilities, tokens without a finite one are masked. Completions masked by
    `mismatch_low` and `mismatch_high` stay in the denominators, as in AReaL, so the mask does not change the weights of
    other completions.
    """
    lengths_N = torch.tensor([len(sequence.token_ids) for sequence in sequences], dtype=torch.int64)
    samples = torch.arange(len(sequences)).repeat_interleave(lengths_N)
    truncated_N = torch.tensor([sequence.truncated for sequence in sequences], dtype=torch.bool)
    sampler_T = torch.tensor([logprob for sequence in sequences for logprob in sequence.sampler_logprobs])
    advantage_T = torch.tensor([advantage for sequence in sequences for advantage in sequence.advantages])
    has_sampler_logprob_T = sampler_T.isfinite()
    sampler_T = torch.where(has_sampler_logprob_T, sampler_T, 0.0)
    old_T = sampler_T if old is None else torch.cat([torch.empty(0), *old])
    sampled = [sequence.sampled_mask or (True,) * len(sequence.token_ids) for sequence in sequences]
    denominator_mask_T = torch.tensor([float(token) for mask in sampled for token in mask])
    if objective.old == "sampler" or objective.truncation or objective.mismatch_high:
        denominator_mask_T = denominator_mask_T * has_sampler_logprob_T
    if objective.overlong in ("mask", "unknown"):
        denominator_mask_T = mask_overlong(denominator_mask_T, truncated_N, samples)
    elif objective.overlong == "zero_advantage":
        rewards_N = torch.tensor([sequence.reward for sequence in sequences])
        advantage_T = zero_overlong_advantages(advantage_T, rewards_N[samples], truncated_N[samples])
    loss_mask_T, weight_T = denominator_mask_T, torch.ones_like(sampler_T)
    if old is not None and objective.mismatch_high:
        loss_mask_T = mask_mismatched_sequences(
            old_T, sampler_T, denominator_mask_T, samples, len(sequences),
            low=objective.mismatch_low, high=objective.mismatch_high,
        )  # fmt: skip
    if old is not None and objective.truncation:
        weight_T = compute_truncated_importance_weights(old_T, sampler_T, cap=objective.truncation)
    tokens_N = torch.zeros(len(sequences)).index_add(0, samples, denominator_mask_T)
    reference_T = None if reference is None else torch.cat([torch.empty(0), *reference])
    n_tokens, n_sequences = float(denominator_mask_T.sum()), float((tokens_N > 0).sum())
    return Minibatch(
        samples, advantage_T, sampler_T, has_sampler_logprob_T.float(), old_T, reference_T, weight_T,
        denominator_mask_T, loss_mask_T, tokens_N, n_tokens, n_sequences, max_tokens,
    ).to(device)  # fmt: skip


def replace_old_logprobs(batch: Minibatch, old_logp_T: Tensor, objective: ObjectiveConfig) -> Minibatch:
    """Replace the old log-probabilities and the importance weights; keep the mask of `mismatch_high`."""
    weight_T = batch.weight_T
    if objective.truncation:
        weight_T = compute_truncated_importance_weights(old_logp_T, batch.sampler_logp_T, cap=objective.truncation)
    return replace(batch, old_logp_T=old_logp_T, weight_T=weight_T)


def compute_loss(logp_T: Tensor, entropy_T: Tensor, batch: Minibatch, objective: ObjectiveConfig) -> Tensor:
    """Return the contribution of these tokens to the minibatch's loss, a scalar.

    The importance weights that correct the sampler's mismatch apply to the policy term only, as in TRL.
    """
    low, high, delta = objective.clip_low, objective.clip_high, objective.delta
    clipped_T = compute_clipped_loss(logp_T, batch.old_logp_T, batch.advantage_T, low=low, high=high, delta=delta)
    loss_T = batch.weight_T * clipped_T
    if batch.reference_logp_T is not None:
        loss_T = loss_T + objective.kl * estimate_kl(logp_T, batch.reference_logp_T)
    if objective.entropy:
        loss_T = loss_T - objective.entropy * entropy_T
    if objective.aggregation == "token_mean":
        return compute_token_mean(loss_T, batch.loss_mask_T, n_tokens=batch.n_tokens)
    if objective.aggregation == "sequence_mean":
        return compute_sequence_mean(
            loss_T, batch.loss_mask_T, batch.sample_index_T, tokens_N=batch.tokens_N, n_sequences=batch.n_sequences
        )
    return compute_constant_length_mean(
        loss_T, batch.loss_mask_T, n_sequences=batch.n_sequences, max_tokens=batch.max_tokens
    )


def compute_minibatch_metrics(
    logp_T: Tensor, entropy_T: Tensor, batch: Minibatch, objective: ObjectiveConfig
) -> dict[str, float]:
    """Return the metrics of an update under TRL's names, over the tokens in the denominators."""
    mask_T = batch.denominator_mask_T
    metrics = {
        "loss": compute_loss(logp_T, entropy_T, batch, objective).item(),
        "entropy": _masked_mean(entropy_T, mask_T),
        **_compute_clip_ratios(logp_T, batch, objective),
        **_measure_sampler_mismatch(logp_T, batch, objective),
    }
    if batch.reference_logp_T is not None:
        metrics["kl"] = _masked_mean(estimate_kl(logp_T, batch.reference_logp_T), mask_T)
    if objective.truncation:
        weight_T = batch.weight_T.double() * mask_T
        squares = batch.n_tokens * weight_T.square().sum().item()
        metrics["mismatch/weight_mean"] = _masked_mean(batch.weight_T, mask_T)
        metrics["mismatch/weight_truncated"] = _masked_mean((batch.weight_T >= objective.truncation).float(), mask_T)
        # Effective sample size, as a share: 1 for equal weights, near 0 if a few weights dominate.
        metrics["mismatch/weight_ess"] = weight_T.sum().item() ** 2 / squares if squares else 0.0
    if objective.mismatch_high:
        metrics["mismatch/kept"] = batch.loss_mask_T.sum().item() / batch.n_tokens
    return metrics


def _compute_clip_ratios(logp_T: Tensor, batch: Minibatch, objective: ObjectiveConfig) -> dict[str, float]:
    """Return the shares of clipped tokens. low_min and high_max are over completions (in TRL: over processes)."""
    ratio_T, mask_T = compute_ratio(logp_T, batch.old_logp_T), batch.denominator_mask_T
    low_T = ((ratio_T < 1 - objective.clip_low) & (batch.advantage_T < 0)).float() * mask_T
    high_T = ((ratio_T > 1 + objective.clip_high) & (batch.advantage_T > 0)).float() * mask_T
    alive_N = batch.tokens_N > 0

    def compute_share_N(clipped_T: Tensor) -> Tensor:
        clipped_N = torch.zeros_like(batch.tokens_N).index_add(0, batch.sample_index_T, clipped_T)
        return clipped_N[alive_N] / batch.tokens_N[alive_N]

    return {
        "clip_ratio/low_mean": _masked_mean(low_T, mask_T),
        "clip_ratio/low_min": compute_share_N(low_T).min().item(),
        "clip_ratio/high_mean": _masked_mean(high_T, mask_T),
        "clip_ratio/high_max": compute_share_N(high_T).max().item(),
        "clip_ratio/region_mean": _masked_mean(low_T + high_T, mask_T),
    }


def _measure_sampler_mismatch(logp_T: Tensor, batch: Minibatch, objective: ObjectiveConfig) -> dict[str, float]:
    """Compare the log-probabilities of sampler and learner, over the tokens that have both.

    The learner's are the old ones, or `logp_T` if the old ones come from the sampler.
    """
    compared_T = batch.denominator_mask_T * batch.has_sampler_logprob_T
    if not compared_T.any():
        return {}
    learner_T = logp_T if objective.old == "sampler" else batch.old_logp_T
    difference_T, ratio_T = (learner_T - batch.sampler_logp_T).abs(), compute_ratio(learner_T, batch.sampler_logp_T)
    is_compared = compared_T > 0
    p99_rank = max(1, math.ceil(0.99 * int(is_compared.sum())))
    return {
        "sampling/sampling_logp_difference/mean": _masked_mean(difference_T, compared_T),
        "sampling/sampling_logp_difference/p99": difference_T[is_compared].kthvalue(p99_rank).values.item(),
        "sampling/sampling_logp_difference/max": difference_T[is_compared].max().item(),
        "sampling/importance_sampling_ratio/min": ratio_T[is_compared].min().item(),
        "sampling/importance_sampling_ratio/mean": _masked_mean(ratio_T, compared_T),
        "sampling/importance_sampling_ratio/max": ratio_T[is_compared].max().item(),
        "mismatch/kl": _masked_mean(estimate_kl(batch.sampler_logp_T, learner_T), compared_T),  # KL(sampler || learner)
        # Metric of NeMo-RL, under its name. NeMo-RL tolerates values up to 1.05.
        "mismatch/token_mult_prob_error": _masked_mean(difference_T.exp(), compared_T),
    }


def _masked_mean(values_T: Tensor, mask_T: Tensor) -> float:
    return (values_T.double() * mask_T).sum().item() / max(mask_T.double().sum().item(), 1.0)
