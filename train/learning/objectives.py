"""The mathematics of policy optimisation: pure functions, one formula each, with its source.

Shapes are the endings of names. P prompts, G completions of each; N completions of a batch, T their tokens one after
another ("packed", no padding); `sample_T` says to which completion a token belongs, 0 to N - 1. A mask is 1.0 where a
token counts. `logp` is the log-probability under the weights being trained, `old` under those that began the step,
`sampler` the one that the sampling engine reported, after temperature.

Losses are per token; an aggregation turns them into a number. Its denominator is that of the whole batch, given from
outside, so that the gradient does not depend on how the batch is split over micro-batches and ranks: sum over the
parts.
"""

import torch
from torch import Tensor

_LOG_RATIO_BOUND = 20.0  # before exp, as verl: beyond it a ratio says nothing and its gradient would be infinite


def outcome_advantages(rewards_PG: Tensor, *, by_std: bool, epsilon: float = 1e-4) -> Tensor:
    """(P, G): how much better each completion is than the others of its prompt.

    GRPO (DeepSeekMath, arXiv:2402.03300, sec. 4.1.2): (r - mean) / (std + epsilon), the unbiased std of TRL.
    Dr.GRPO (arXiv:2503.20783) leaves the division out: by_std False.
    A reward that is nan, no signal, takes no part in mean and std, and its advantage is 0. So is that of a
    completion that is alone.
    """
    known_PG = ~rewards_PG.isnan()
    n_P1 = known_PG.sum(1, keepdim=True)
    mean_P1 = rewards_PG.nansum(1, keepdim=True) / n_P1.clamp(min=1)
    centred_PG = torch.where(known_PG, rewards_PG - mean_P1, 0.0)
    if not by_std:
        return centred_PG
    variance_P1 = centred_PG.square().sum(1, keepdim=True) / (n_P1 - 1).clamp(min=1)
    return centred_PG / (variance_P1.sqrt() + epsilon)


def process_advantages(
    step_rewards_K: Tensor, step_end_K: Tensor, step_sample_K: Tensor, group_N: Tensor, position_T: Tensor,
    sample_T: Tensor, *, epsilon: float = 1e-4,
) -> Tensor:  # fmt: skip
    """(T,): advantages from rewards of single steps, K of them in the batch.

    DeepSeekMath sec. 4.1.3: every step's reward is normalised by mean and std of all steps of its group, and a token's
    advantage is the sum over the steps of its completion that end at its position or later. step_end_K is the position
    of a step's last token within its completion, position_T that of a token.
    """
    normal_K = torch.empty_like(step_rewards_K)
    group_K = group_N[step_sample_K]
    for group in torch.unique(group_K):
        of_group_K = group_K == group
        rewards = step_rewards_K[of_group_K]
        std = rewards.std() if len(rewards) > 1 else rewards.new_zeros(())
        normal_K[of_group_K] = (rewards - rewards.mean()) / (std + epsilon)
    later_TK = (sample_T[:, None] == step_sample_K) & (step_end_K >= position_T[:, None])
    return later_TK.to(normal_K.dtype) @ normal_K


def ratio(logp_T: Tensor, old_T: Tensor) -> Tensor:
    """(T,): probability now by probability then."""
    return (logp_T - old_T).clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND).exp()


def clipped_loss(
    logp_T: Tensor, old_T: Tensor, advantage_T: Tensor, *, low: float, high: float, delta: float | None = None
) -> Tensor:
    """(T,): -min(r A, clip(r, 1 - low, 1 + high) A), PPO's (arXiv:1707.06347).

    high above low is DAPO's clip-higher (arXiv:2503.14476): 0.2 and 0.28 in DeepCoder. delta is the bound that
    INTELLECT-2 (arXiv:2505.07291, sec. 3.4) puts on r where A is negative: -min(min(r, delta) A, clip(r) A); for
    delta >= 1 + high it is what others call dual clip with c = delta.
    """
    ratio_T = ratio(logp_T, old_T)
    bounded_T = ratio_T if delta is None else ratio_T.clamp(max=delta)
    clipped_T = ratio_T.clamp(1 - low, 1 + high)
    return -torch.minimum(bounded_T * advantage_T, clipped_T * advantage_T)


def k3(logp_T: Tensor, reference_T: Tensor) -> Tensor:
    """(T,): e^d - d - 1 with d = reference - logp: Schulman's third estimator of KL(policy || reference), unbiased and
    never negative (DeepSeekMath eq. 4)."""
    difference_T = (reference_T - logp_T).clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND)
    return difference_T.exp() - difference_T - 1


def sampler_weights(old_T: Tensor, sampler_T: Tensor, *, most: float = 2.0) -> Tensor:
    """(T,): min(old / sampler, most), without gradient: corrects for a sampling engine whose probabilities differ from
    the trainer's (truncated importance sampling, fengyao.notion.site/off-policy-rl). By token: the product over a
    completion vanishes at 16K tokens, however small the differences."""
    return ratio(old_T.detach(), sampler_T).clamp(max=most)


def sequence_mask(
    old_T: Tensor, sampler_T: Tensor, mask_T: Tensor, sample_T: Tensor, n_samples: int, *, low: float, high: float
) -> Tensor:
    """(T,): the mask without completions whose geometric mean of old / sampler leaves [low, high]: whatever sampled
    them was another model."""
    sums_N = old_T.new_zeros(n_samples).index_add(0, sample_T, (old_T - sampler_T).detach() * mask_T)
    counts_N = mask_T.new_zeros(n_samples).index_add(0, sample_T, mask_T)
    mean_N = (sums_N / counts_N.clamp(min=1)).exp()
    return mask_T * ((mean_N >= low) & (mean_N <= high))[sample_T]


def token_mean(loss_T: Tensor, mask_T: Tensor, *, n_tokens: float) -> Tensor:
    """Scalar: each token of the batch counts the same (DAPO, DeepCoder). n_tokens: those that count in the batch."""
    return (loss_T * mask_T).sum() / max(n_tokens, 1.0)


def sequence_mean(loss_T: Tensor, mask_T: Tensor, sample_T: Tensor, *, tokens_N: Tensor, n_sequences: float) -> Tensor:
    """Scalar: each completion counts the same, and within it each token (DeepSeekMath eq. 3). tokens_N: tokens that
    count of each; n_sequences: completions of the batch that have any."""
    return (loss_T * mask_T / tokens_N.clamp(min=1)[sample_T]).sum() / max(n_sequences, 1.0)


def constant_length(loss_T: Tensor, mask_T: Tensor, *, n_sequences: float, most_tokens: int) -> Tensor:
    """Scalar: the sum by completions times the longest length allowed, a constant (Dr.GRPO): no bias by length."""
    return (loss_T * mask_T).sum() / max(n_sequences * most_tokens, 1.0)


def without_overlong(mask_T: Tensor, truncated_N: Tensor, sample_T: Tensor) -> Tensor:
    """(T,): the mask without completions that were cut at the length limit: whether they were right is not known.
    DAPO's overlong filtering, and DeepCoder's as it is described: out of numerator and denominator."""
    return mask_T * ~truncated_N[sample_T]


def overlong_to_zero(advantage_N: Tensor, rewards_N: Tensor, truncated_N: Tensor) -> Tensor:
    """(N,): DeepCoder's released code instead: advantage 0 where the reward is 0 and the answer was cut. Its tokens
    stay in the denominator, and its reward has taken part in the group's mean and std."""
    return torch.where(truncated_N & (rewards_N == 0), 0.0, advantage_N)
