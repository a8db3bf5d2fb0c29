"""The mathematics of policy optimization: pure functions, one formula each, with its source.

Names end in the shape of their tensor. P prompts have G completions each. N completions have T tokens in all,
concatenated without padding; `sample_index_T` has the index of each token's completion. A mask is 1.0 where a token
counts.

    logp          log-probability of a token under the weights in training
    old_logp      under the weights at the beginning of the step
    sampler_logp  as the sampling engine reported it, after temperature

Losses are per token, and an aggregation reduces them to a scalar. The caller passes the denominator of the whole batch,
so the scalars of micro-batches and ranks add up to the batch's loss. Their number does not change the gradient.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

_LOG_RATIO_BOUND = 20.0  # as in verl; beyond it, exp and its gradient overflow, and the ratio carries no information


def compute_outcome_advantages(rewards_PG: Tensor, *, by_std: bool, epsilon: float = 1e-4) -> Tensor:
    """Return the advantage of each completion over the others of its prompt, of shape (P, G).

    GRPO (DeepSeekMath, arXiv:2402.03300, sec. 4.1.2): (r - mean) / (std + epsilon), with the unbiased std as in TRL.
    Dr.GRPO (arXiv:2503.20783), by_std = False, omits the division. Mean and std exclude unknown rewards (nan). The
    advantage is exactly 0 for unknown rewards, for equal rewards, and for single completions.
    """
    known_PG = ~rewards_PG.isnan()
    n_P1 = known_PG.sum(1, keepdim=True)
    mean_P1 = rewards_PG.nansum(1, keepdim=True) / n_P1.clamp(min=1)
    centered_PG = torch.where(known_PG, rewards_PG - mean_P1, 0.0)
    if not by_std:
        return centered_PG
    variance_P1 = centered_PG.square().sum(1, keepdim=True) / (n_P1 - 1).clamp(min=1)
    # Equal rewards may differ from their rounded mean, and division by a small epsilon would amplify the difference.
    differ_P1 = rewards_PG.nan_to_num(-math.inf).amax(1, True) > rewards_PG.nan_to_num(math.inf).amin(1, True)
    return torch.where(differ_P1, centered_PG / (variance_P1.sqrt() + epsilon), 0.0)


def compute_step_advantages(
    steps: Sequence[Sequence[tuple[int, float]]], lengths: Sequence[int], *, by_std: bool, epsilon: float = 1e-4
) -> list[list[float]]:
    """Compute the advantages of all tokens of a prompt's completions from step rewards.

    steps    for each completion: (number of tokens up to the step's end, reward) of each step
    lengths  number of tokens of each completion

    As in DeepSeekMath (arXiv:2402.03300, sec. 4.1.3), rewards are normalized over all steps of all completions. A
    token's advantage is the sum over the steps that end at or after the token.
    """
    rewards = torch.tensor([[reward for of_one in steps for _, reward in of_one]], dtype=torch.float64)
    normalized = iter(compute_outcome_advantages(rewards, by_std=by_std, epsilon=epsilon)[0].tolist())
    advantages = []
    for of_one, length in zip(steps, lengths, strict=True):
        at_end = [0.0] * max(length, 1)  # an empty completion still consumes its normalized rewards
        for end, _ in of_one:
            at_end[min(max(end, 1), len(at_end)) - 1] += next(normalized)
        advantages.append(list(accumulate(reversed(at_end)))[::-1][:length])
    return advantages


def compute_ratio(logp_T: Tensor, old_logp_T: Tensor) -> Tensor:
    """Return exp(logp - old) of each token, with a bounded exponent."""
    return (logp_T - old_logp_T).clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND).exp()


def compute_clipped_loss(
    logp_T: Tensor, old_logp_T: Tensor, advantage_T: Tensor, *, low: float, high: float, delta: float | None = None
) -> Tensor:
    """Return PPO's loss of each token, -min(r A, clip(r, 1 - low, 1 + high) A) (arXiv:1707.06347).

    low, high  with high > low, this is DAPO's clip-higher (arXiv:2503.14476); 0.2 and 0.28 in DeepCoder
    delta      INTELLECT-2's bound of r for negative A (arXiv:2505.07291, sec. 3.4): -min(min(r, delta) A, clip(r) A).
               With delta >= 1 + high, this is known as dual clip with c = delta.
    """
    ratio_T = compute_ratio(logp_T, old_logp_T)
    bounded_T = ratio_T if delta is None else ratio_T.clamp(max=delta)
    clipped_T = ratio_T.clamp(1 - low, 1 + high)
    return -torch.minimum(bounded_T * advantage_T, clipped_T * advantage_T)


def estimate_kl(logp_T: Tensor, reference_T: Tensor) -> Tensor:
    """Return Schulman's k3 estimate of KL(policy || reference) for each token: e^d - d - 1 with d = reference - logp.

    It is unbiased and never negative (DeepSeekMath eq. 4).
    """
    difference_T = (reference_T - logp_T).clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND)
    return difference_T.exp() - difference_T - 1


def compute_truncated_importance_weights(old_logp_T: Tensor, sampler_logp_T: Tensor, *, cap: float = 2.0) -> Tensor:
    """Return min(old / sampler, cap) of each token, without gradient.

    Truncated importance sampling (fengyao.notion.site/off-policy-rl) corrects for an engine whose probabilities differ
    from the trainer's. Weights are per token, because their product over 16K tokens would vanish even for tiny
    differences.
    """
    return compute_ratio(old_logp_T.detach(), sampler_logp_T).clamp(max=cap)


def mask_mismatched_sequences(
    old_logp_T: Tensor, sampler_logp_T: Tensor, mask_T: Tensor, sample_index_T: Tensor, n_samples: int, *,
    low: float, high: float,
) -> Tensor:  # fmt: skip
    """Mask completions whose geometric mean of old / sampler is outside [low, high], in addition to `mask_T`."""
    sums_N = old_logp_T.new_zeros(n_samples).index_add(
        0, sample_index_T, (old_logp_T - sampler_logp_T).detach() * mask_T
    )
    counts_N = mask_T.new_zeros(n_samples).index_add(0, sample_index_T, mask_T)
    mean_N = (sums_N / counts_N.clamp(min=1)).exp()
    return mask_T * ((mean_N >= low) & (mean_N <= high))[sample_index_T]


def compute_token_mean(loss_T: Tensor, mask_T: Tensor, *, n_tokens: float) -> Tensor:
    """Return the mean loss with equal weights of all tokens (DAPO, DeepCoder).

    n_tokens: number of counted tokens in the batch
    """
    return (loss_T * mask_T).sum() / max(n_tokens, 1.0)


def compute_sequence_mean(
    loss_T: Tensor, mask_T: Tensor, sample_index_T: Tensor, *, tokens_N: Tensor, n_sequences: float
) -> Tensor:
    """Return the mean over completions of the mean loss of their tokens (DeepSeekMath eq. 3).

    tokens_N     number of counted tokens of each completion
    n_sequences  number of completions in the batch with counted tokens
    """
    return (loss_T * mask_T / tokens_N.clamp(min=1)[sample_index_T]).sum() / max(n_sequences, 1.0)


def compute_constant_length_mean(loss_T: Tensor, mask_T: Tensor, *, n_sequences: float, max_tokens: int) -> Tensor:
    """Return the sum of losses divided by completions x maximum length (Dr.GRPO), without length bias."""
    return (loss_T * mask_T).sum() / max(n_sequences * max_tokens, 1.0)


def mask_overlong(mask_T: Tensor, truncated_N: Tensor, sample_index_T: Tensor) -> Tensor:
    """Mask truncated completions, in addition to `mask_T`: overlong filtering as in DAPO's and DeepCoder's reports."""
    return mask_T * ~truncated_N[sample_index_T]


def zero_overlong_advantages(advantage_N: Tensor, rewards_N: Tensor, truncated_N: Tensor) -> Tensor:
    """Set the advantages of truncated completions with reward 0 to 0, as in DeepCoder's released code.

    Their tokens stay in the denominator, and their rewards in the group's mean and std.
    """
    return torch.where(truncated_N & (rewards_N == 0), 0.0, advantage_N)
