"""The mathematics of policy optimization: pure functions, one formula each, with its source.

Names end in the shape of their tensor. P prompts have G completions each. N completions have T tokens in all,
concatenated without padding; `sample_index_T` has the index of each token's completion. A mask is 1.0 where a token
counts. `logp` is under the weights being trained, `old` under those at the beginning of the step. `sampler` is as the
sampling engine reported it, after temperature.

Losses are per token; an aggregation reduces them to a number. The caller passes the denominator of the whole batch. So
partial sums add up, and the gradient does not depend on the division into micro-batches and ranks.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

_LOG_RATIO_BOUND = 20.0  # before exp, as in verl: beyond it, a ratio carries no information and its gradient overflows


def compute_outcome_advantages(rewards_PG: Tensor, *, by_std: bool, epsilon: float = 1e-4) -> Tensor:
    """Return (P, G), the advantage of each completion over the others of its prompt.

    GRPO (DeepSeekMath, arXiv:2402.03300, sec. 4.1.2): (r - mean) / (std + epsilon), with the unbiased std as in TRL.
    Dr.GRPO (arXiv:2503.20783), by_std = False, omits the division. Unknown rewards (nan) are excluded from mean and
    std. For any epsilon, unknown rewards, single completions and equal rewards have advantage 0 exactly.
    """
    known_PG = ~rewards_PG.isnan()
    n_P1 = known_PG.sum(1, keepdim=True)
    mean_P1 = rewards_PG.nansum(1, keepdim=True) / n_P1.clamp(min=1)
    centered_PG = torch.where(known_PG, rewards_PG - mean_P1, 0.0)
    if not by_std:
        return centered_PG
    variance_P1 = centered_PG.square().sum(1, keepdim=True) / (n_P1 - 1).clamp(min=1)
    # The mean is rounded, so equal rewards may differ from it, which a small epsilon would amplify.
    differ_P1 = rewards_PG.nan_to_num(-math.inf).amax(1, True) > rewards_PG.nan_to_num(math.inf).amin(1, True)
    return torch.where(differ_P1, centered_PG / (variance_P1.sqrt() + epsilon), 0.0)


def compute_step_advantages(
    steps: Sequence[Sequence[tuple[int, float]]], lengths: Sequence[int], *, by_std: bool, epsilon: float = 1e-4
) -> list[list[float]]:
    """Return the advantage of each token of each completion of a prompt, from step rewards.

    steps    for each completion, (number of tokens up to the end, reward) of each step
    lengths  tokens of each completion

    DeepSeekMath (arXiv:2402.03300, sec. 4.1.3): rewards are normalized over all steps of all completions; a token's
    advantage is the sum over the steps that end at or after it.
    """
    rewards = torch.tensor([[reward for of_one in steps for _, reward in of_one]], dtype=torch.float64)
    normalized = iter(compute_outcome_advantages(rewards, by_std=by_std, epsilon=epsilon)[0].tolist())
    advantages = []
    for of_one, length in zip(steps, lengths, strict=True):
        at_end = [0.0] * max(length, 1)  # a completion without tokens still counts in the group's mean
        for end, _ in of_one:
            at_end[min(max(end, 1), len(at_end)) - 1] += next(normalized)
        advantages.append(list(accumulate(reversed(at_end)))[::-1][:length])
    return advantages


def ratio(logp_T: Tensor, old_logp_T: Tensor) -> Tensor:
    """Return (T,), exp(logp - old) with a bounded exponent."""
    return (logp_T - old_logp_T).clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND).exp()


def clipped_loss(
    logp_T: Tensor, old_logp_T: Tensor, advantage_T: Tensor, *, low: float, high: float, delta: float | None = None
) -> Tensor:
    """Return (T,), PPO's loss -min(r A, clip(r, 1 - low, 1 + high) A) (arXiv:1707.06347).

    A high above low is DAPO's clip-higher (arXiv:2503.14476): 0.2 and 0.28 in DeepCoder. delta is INTELLECT-2's bound
    of r for negative A (arXiv:2505.07291, sec. 3.4): -min(min(r, delta) A, clip(r) A). With delta >= 1 + high, this is
    known as dual clip with c = delta.
    """
    ratio_T = ratio(logp_T, old_logp_T)
    bounded_T = ratio_T if delta is None else ratio_T.clamp(max=delta)
    clipped_T = ratio_T.clamp(1 - low, 1 + high)
    return -torch.minimum(bounded_T * advantage_T, clipped_T * advantage_T)


def k3(logp_T: Tensor, reference_T: Tensor) -> Tensor:
    """Return (T,), e^d - d - 1 with d = reference - logp: Schulman's third estimator of KL(policy || reference),
    unbiased and never negative (DeepSeekMath eq. 4).
    """
    difference_T = (reference_T - logp_T).clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND)
    return difference_T.exp() - difference_T - 1


def truncated_importance_weights(old_logp_T: Tensor, sampler_logp_T: Tensor, *, cap: float = 2.0) -> Tensor:
    """Return (T,), min(old / sampler, cap), without gradient.

    Truncated importance sampling (fengyao.notion.site/off-policy-rl) corrects for an engine whose probabilities differ
    from the trainer's. Weights are per token: their product over 16K tokens would vanish, however small the
    differences.
    """
    return ratio(old_logp_T.detach(), sampler_logp_T).clamp(max=cap)


def mask_mismatched_sequences(
    old_logp_T: Tensor, sampler_logp_T: Tensor, mask_T: Tensor, sample_index_T: Tensor, n_samples: int, *,
    low: float, high: float,
) -> Tensor:  # fmt: skip
    """Return (T,), the mask without completions whose geometric mean of old / sampler is outside [low, high]."""
    sums_N = old_logp_T.new_zeros(n_samples).index_add(
        0, sample_index_T, (old_logp_T - sampler_logp_T).detach() * mask_T
    )
    counts_N = mask_T.new_zeros(n_samples).index_add(0, sample_index_T, mask_T)
    mean_N = (sums_N / counts_N.clamp(min=1)).exp()
    return mask_T * ((mean_N >= low) & (mean_N <= high))[sample_index_T]


def token_mean(loss_T: Tensor, mask_T: Tensor, *, n_tokens: float) -> Tensor:
    """Return a scalar that weighs all tokens equally (DAPO, DeepCoder). n_tokens: counted tokens of the batch."""
    return (loss_T * mask_T).sum() / max(n_tokens, 1.0)


def sequence_mean(
    loss_T: Tensor, mask_T: Tensor, sample_index_T: Tensor, *, tokens_N: Tensor, n_sequences: float
) -> Tensor:
    """Return a scalar that weighs all completions equally, and the tokens within each (DeepSeekMath eq. 3).

    tokens_N     counted tokens of each completion
    n_sequences  completions in the batch with counted tokens
    """
    return (loss_T * mask_T / tokens_N.clamp(min=1)[sample_index_T]).sum() / max(n_sequences, 1.0)


def constant_length_mean(loss_T: Tensor, mask_T: Tensor, *, n_sequences: float, max_tokens: int) -> Tensor:
    """Return a scalar, the sum divided by completions x maximum length (Dr.GRPO), which has no length bias."""
    return (loss_T * mask_T).sum() / max(n_sequences * max_tokens, 1.0)


def mask_overlong(mask_T: Tensor, truncated_N: Tensor, sample_index_T: Tensor) -> Tensor:
    """Return (T,), the mask without truncated completions: overlong filtering, as described for DAPO and DeepCoder."""
    return mask_T * ~truncated_N[sample_index_T]


def zero_overlong_advantages(advantage_N: Tensor, rewards_N: Tensor, truncated_N: Tensor) -> Tensor:
    """Return (N,), the advantages with 0 for truncated completions with reward 0, as in DeepCoder's released code.

    Their tokens stay in the denominator, their rewards in the group's mean and std.
    """
    return torch.where(truncated_N & (rewards_N == 0), 0.0, advantage_N)
