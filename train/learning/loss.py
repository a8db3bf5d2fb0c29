"""The objective of a minibatch: which tokens count, what the loss is, and the figures that people watch.

Assembled from objectives.py as a run's `[objective]` says. Everything is at its place (sequences.py), so that a row's
loss is that of its places, and the figures are those of all of them, however they lay in rows and ranks.
"""

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from train.config import Objective
from train.learning.objectives import (
    clipped_loss,
    constant_length,
    k3,
    overlong_to_zero,
    ratio,
    sampler_weights,
    sequence_mask,
    sequence_mean,
    token_mean,
    without_overlong,
)
from train.learning.sequences import Sequence

Logprobs = SequenceOf[Tensor] | None  # for each sequence, one number a completion token


@dataclass(frozen=True, slots=True)
class Minibatch:
    """T places, N completions. counts_T: in the denominators; kept_T: in the sum too. most_tokens: the longest answer
    allowed, for the aggregation `constant_length`."""

    sample_T: Tensor
    advantage_T: Tensor
    sampler_T: Tensor
    heard_T: Tensor  # 1.0 where the sampler told a finite log-probability
    old_T: Tensor
    reference_T: Tensor | None
    weight_T: Tensor
    counts_T: Tensor
    kept_T: Tensor
    tokens_N: Tensor
    n_tokens: float
    n_sequences: float
    most_tokens: int

    def at(self, places: Tensor) -> "Minibatch":
        """Some of the places; the denominators stay those of all."""
        return replace(
            self,
            sample_T=self.sample_T[places],
            advantage_T=self.advantage_T[places],
            sampler_T=self.sampler_T[places],
            heard_T=self.heard_T[places],
            old_T=self.old_T[places],
            reference_T=None if self.reference_T is None else self.reference_T[places],
            weight_T=self.weight_T[places],
            counts_T=self.counts_T[places],
            kept_T=self.kept_T[places],
        )


def minibatch(
    sequences: SequenceOf[Sequence], objective: Objective, old: Logprobs, reference: Logprobs, *, most_tokens: int = 0,
    device: str = "cpu",
) -> Minibatch:  # fmt: skip
    """old: the learner's own, or None where the sampler's are what the ratio starts from.

    A token of which the sampler told nothing finite counts nowhere if that number is needed. Completions that
    `mismatch_low` and `mismatch_high` leave out stay in the denominators, as in AReaL: those that remain do not count
    for more.
    """
    lengths_N = torch.tensor([len(each.token_ids) for each in sequences], dtype=torch.int64)
    samples = torch.arange(len(sequences)).repeat_interleave(lengths_N)
    truncated_N = torch.tensor([each.truncated for each in sequences], dtype=torch.bool)
    sampler_T = torch.tensor([number for each in sequences for number in each.sampler_logprobs])
    advantage_T = torch.tensor([number for each in sequences for number in each.advantages])
    heard_T = sampler_T.isfinite()
    sampler_T = torch.where(heard_T, sampler_T, 0.0)
    old_T = sampler_T if old is None else torch.cat([torch.empty(0), *old])
    counts_T = torch.ones_like(sampler_T)
    if old is None or objective.truncation or objective.mismatch_high:
        counts_T = counts_T * heard_T
    if objective.overlong in ("mask", "unknown"):
        counts_T = without_overlong(counts_T, truncated_N, samples)
    elif objective.overlong == "zero_advantage":
        rewards_N = torch.tensor([each.reward for each in sequences])
        advantage_T = overlong_to_zero(advantage_T, rewards_N[samples], truncated_N[samples])
    kept_T, weight_T = counts_T, torch.ones_like(sampler_T)
    if old is not None and objective.mismatch_high:
        kept_T = sequence_mask(
            old_T, sampler_T, counts_T, samples, len(sequences),
            low=objective.mismatch_low, high=objective.mismatch_high,
        )  # fmt: skip
    if old is not None and objective.truncation:
        weight_T = sampler_weights(old_T, sampler_T, most=objective.truncation)
    tokens_N = torch.zeros(len(sequences)).index_add(0, samples, counts_T)
    return Minibatch(
        samples.to(device),
        advantage_T.to(device),
        sampler_T.to(device),
        heard_T.float().to(device),
        old_T.to(device),
        None if reference is None else torch.cat([torch.empty(0), *reference]).to(device),
        weight_T.to(device),
        counts_T.to(device),
        kept_T.to(device),
        tokens_N.to(device),
        float(counts_T.sum()),
        float((tokens_N > 0).sum()),
        most_tokens,
    )


def loss(logp_T: Tensor, entropy_T: Tensor, of: Minibatch, objective: Objective) -> Tensor:
    """Scalar: the part that these places have in the minibatch's loss. The weights of the sampler's mismatch are on
    the policy's term only, as in TRL."""
    loss_T = of.weight_T * clipped_loss(
        logp_T, of.old_T, of.advantage_T, low=objective.clip_low, high=objective.clip_high, delta=objective.delta
    )
    if of.reference_T is not None:
        loss_T = loss_T + objective.kl * k3(logp_T, of.reference_T)
    if objective.entropy:
        loss_T = loss_T - objective.entropy * entropy_T
    if objective.aggregation == "token_mean":
        return token_mean(loss_T, of.kept_T, n_tokens=of.n_tokens)
    if objective.aggregation == "sequence_mean":
        return sequence_mean(loss_T, of.kept_T, of.sample_T, tokens_N=of.tokens_N, n_sequences=of.n_sequences)
    return constant_length(loss_T, of.kept_T, n_sequences=of.n_sequences, most_tokens=of.most_tokens)


def figures(logp_T: Tensor, entropy_T: Tensor, of: Minibatch, objective: Objective) -> dict[str, float]:
    """Under TRL's names, over the tokens that count; those of the sampler's mismatch over those of them that the
    sampler told. The learner's side of a mismatch is `old` where it is the learner's, and else `logp`.

    TRL's clip_ratio/low_min and high_max are over processes; here they are over completions, which are the same
    however many processes there are.
    """
    made = {"loss": loss(logp_T, entropy_T, of, objective).item(), "entropy": _mean(entropy_T, of.counts_T)}
    if of.reference_T is not None:
        made["kl"] = _mean(k3(logp_T, of.reference_T), of.counts_T)
    ratio_T = ratio(logp_T, of.old_T)
    low_T = ((ratio_T < 1 - objective.clip_low) & (of.advantage_T < 0)).float() * of.counts_T
    high_T = ((ratio_T > 1 + objective.clip_high) & (of.advantage_T > 0)).float() * of.counts_T
    alive_N = of.tokens_N > 0
    for name, clipped_T, of_completions in (("low", low_T, torch.min), ("high", high_T, torch.max)):
        made[f"clip_ratio/{name}_mean"] = _mean(clipped_T, of.counts_T)
        share_N = torch.zeros_like(of.tokens_N).index_add(0, of.sample_T, clipped_T)[alive_N] / of.tokens_N[alive_N]
        edge = "min" if name == "low" else "max"
        made[f"clip_ratio/{name}_{edge}"] = of_completions(share_N).item()
    made["clip_ratio/region_mean"] = _mean(low_T + high_T, of.counts_T)
    told_T = of.counts_T * of.heard_T
    if told_T.any():
        learner_T = logp_T if objective.old == "sampler" else of.old_T
        difference_T, by_T = (learner_T - of.sampler_T).abs(), ratio(learner_T, of.sampler_T)
        among = told_T > 0
        made |= {
            "sampling/sampling_logp_difference/mean": _mean(difference_T, told_T),
            "sampling/sampling_logp_difference/max": difference_T[among].max().item(),
            "sampling/importance_sampling_ratio/min": by_T[among].min().item(),
            "sampling/importance_sampling_ratio/mean": _mean(by_T, told_T),
            "sampling/importance_sampling_ratio/max": by_T[among].max().item(),
            "mismatch/kl": _mean(k3(of.sampler_T, learner_T), told_T),  # KL(sampler || learner)
            "mismatch/token_mult_prob_error": _mean(difference_T.exp(), told_T),  # NeMo-RL's; at most 1.05 is well
        }
    if objective.truncation:
        made["mismatch/weight_mean"] = _mean(of.weight_T, of.counts_T)
    if objective.mismatch_high:
        made["mismatch/kept"] = of.kept_T.sum().item() / of.n_tokens
    return made


def _mean(values_T: Tensor, mask_T: Tensor) -> float:
    return (values_T.double() * mask_T).sum().item() / max(mask_T.double().sum().item(), 1.0)
