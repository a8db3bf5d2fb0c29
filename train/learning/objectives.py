"""The mathematics of policy optimisation: pure functions, one formula each, with its source.

Names end in the shape of their tensor. There are P prompts with G completions each, so N completions in a batch, whose
T tokens come one after another ("packed", without padding); `sample_T` has the number of each token's completion, 0 to
N - 1. A mask is 1.0 where a token counts. Three log-probabilities occur: `logp` under the weights being trained, `old`
under the weights at the beginning of the step, and `sampler` as the sampling engine reported it, after temperature.

Losses are per token; an aggregation turns them into a number. The caller passes the denominator of the whole batch, so
that the parts of a batch can be added up: the gradient does not depend on how the batch is split over micro-batches and
ranks.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

_LOG_RATIO_BOUND = 20.0  # before exp, as in verl: beyond it a ratio says nothing and its gradient would be infinite


def outcome_advantages(rewards_PG: Tensor, *, by_std: bool, epsilon: float = 1e-4) -> Tensor:
    """Return (P, G), how much better each completion is than the others of its prompt.

    GRPO (DeepSeekMath, arXiv:2402.03300, sec. 4.1.2): (r - mean) / (std + epsilon), with the unbiased std
    as in TRL. Dr.GRPO (arXiv:2503.20783) leaves out the division: by_std is False.
    A reward of nan (no signal) is left out of mean and std, and its advantage is 0. The advantage of a completion
    without others is 0 as well, and so are all advantages of a prompt whose rewards are the same, for any epsilon.
    """
    known_PG = ~rewards_PG.isnan()
    n_P1 = known_PG.sum(1, keepdim=True)
    mean_P1 = rewards_PG.nansum(1, keepdim=True) / n_P1.clamp(min=1)
    centred_PG = torch.where(known_PG, rewards_PG - mean_P1, 0.0)
    if not by_std:
        return centred_PG
    variance_P1 = centred_PG.square().sum(1, keepdim=True) / (n_P1 - 1).clamp(min=1)
    # Their mean is rounded, so that equal rewards can differ from it, which a small epsilon would blow up.
    differ_P1 = rewards_PG.nan_to_num(-math.inf).amax(1, True) > rewards_PG.nan_to_num(math.inf).amin(1, True)
    return torch.where(differ_P1, centred_PG / (variance_P1.sqrt() + epsilon), 0.0)


def step_reward_advantages(
    steps: Sequence[Sequence[tuple[int, float]]], lengths: Sequence[int], *, by_std: bool, epsilon: float = 1e-4
) -> list[list[float]]:
    """Return the advantage of each token of each completion of a prompt, from the rewards of their steps.

    steps    for each completion, the number of tokens up to the end of each step, and the reward of that step
    lengths  tokens of each completion

    DeepSeekMath (arXiv:2402.03300, sec. 4.1.3): the rewards of all steps of all completions are normalised together,
    and the advantage of a token is the sum of those of the steps that end with this token or later.
    """
    rewards = torch.tensor([[reward for of_one in steps for _, reward in of_one]], dtype=torch.float64)
    normalised = iter(outcome_advantages(rewards, by_std=by_std, epsilon=epsilon)[0].tolist())
    advantages = []
    for of_one, length in zip(steps, lengths, strict=True):
        at_end = [0.0] * max(length, 1)  # an answer without tokens still counts in the mean of the group
        for end, _ in of_one:
            at_end[min(max(end, 1), len(at_end)) - 1] += next(normalised)
        advantages.append(list(accumulate(reversed(at_end)))[::-1][:length])
    return advantages


def ratio(logp_T: Tensor, old_logp_T: Tensor) -> Tensor:
    """Return (T,), each probability in `logp` divided by its counterpart in `old`; both are given as logarithms."""
    return (logp_T - old_logp_T).clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND).exp()


def clipped_loss(
    logp_T: Tensor, old_logp_T: Tensor, advantage_T: Tensor, *, low: float, high: float, delta: float | None = None
) -> Tensor:
    """Return (T,), PPO's loss -min(r A, clip(r, 1 - low, 1 + high) A) (arXiv:1707.06347).

    A high above low is DAPO's clip-higher (arXiv:2503.14476): 0.2 and 0.28 in DeepCoder. delta is the bound that
    INTELLECT-2 (arXiv:2505.07291, sec. 3.4) puts on r where A is negative: -min(min(r, delta) A, clip(r) A); for
    delta >= 1 + high, others call this dual clip with c = delta.
    """
    ratio_T = ratio(logp_T, old_logp_T)
    bounded_T = ratio_T if delta is None else ratio_T.clamp(max=delta)
    clipped_T = ratio_T.clamp(1 - low, 1 + high)
    return -torch.minimum(bounded_T * advantage_T, clipped_T * advantage_T)


def k3(logp_T: Tensor, reference_T: Tensor) -> Tensor:
    """Return (T,), e^d - d - 1 with d = reference - logp. This is Schulman's third estimator of
    KL(policy || reference), which is unbiased and never negative (DeepSeekMath eq. 4)."""
    difference_T = (reference_T - logp_T).clamp(-_LOG_RATIO_BOUND, _LOG_RATIO_BOUND)
    return difference_T.exp() - difference_T - 1


def truncated_importance_weights(old_logp_T: Tensor, sampler_logp_T: Tensor, *, cap: float = 2.0) -> Tensor:
    """Return (T,), min(old / sampler, cap), without gradient.

    These weights correct for a sampling engine whose probabilities differ from the trainer's (truncated importance
    sampling, fengyao.notion.site/off-policy-rl). There is one per token, because their product over a completion of
    16K tokens would vanish, however small the differences are.
    """
    return ratio(old_logp_T.detach(), sampler_logp_T).clamp(max=cap)


def mask_mismatched_sequences(
    old_logp_T: Tensor, sampler_logp_T: Tensor, mask_T: Tensor, sample_index_T: Tensor, n_samples: int, *,
    low: float, high: float,
) -> Tensor:  # fmt: skip
    """Return (T,), the mask without completions whose geometric mean of old / sampler is outside [low, high]: another
    model must have sampled them."""
    sums_N = old_logp_T.new_zeros(n_samples).index_add(
        0, sample_index_T, (old_logp_T - sampler_logp_T).detach() * mask_T
    )
    counts_N = mask_T.new_zeros(n_samples).index_add(0, sample_index_T, mask_T)
    mean_N = (sums_N / counts_N.clamp(min=1)).exp()
    return mask_T * ((mean_N >= low) & (mean_N <= high))[sample_index_T]


def token_mean(loss_T: Tensor, mask_T: Tensor, *, n_tokens: float) -> Tensor:
    """Return a scalar in which all tokens count the same (DAPO, DeepCoder); n_tokens of the batch count."""
    return (loss_T * mask_T).sum() / max(n_tokens, 1.0)


def sequence_mean(
    loss_T: Tensor, mask_T: Tensor, sample_index_T: Tensor, *, tokens_N: Tensor, n_sequences: float
) -> Tensor:
    """Return a scalar in which all completions count the same, as do the tokens within each (DeepSeekMath eq. 3).

    tokens_N     number of tokens that count in each completion
    n_sequences  number of completions in the batch that have any such token
    """
    return (loss_T * mask_T / tokens_N.clamp(min=1)[sample_index_T]).sum() / max(n_sequences, 1.0)


def constant_length_mean(loss_T: Tensor, mask_T: Tensor, *, n_sequences: float, max_tokens: int) -> Tensor:
    """Return a scalar, the sum divided by a constant, completions times maximum length (Dr.GRPO): no bias by length."""
    return (loss_T * mask_T).sum() / max(n_sequences * max_tokens, 1.0)


def mask_overlong(mask_T: Tensor, truncated_N: Tensor, sample_index_T: Tensor) -> Tensor:
    """Return (T,), the mask without completions that were cut off at the length limit, since it is unknown whether they
    would have been right. Like DAPO's overlong filtering, and DeepCoder's as it is described, this takes them out of
    numerator and denominator."""
    return mask_T * ~truncated_N[sample_index_T]


def zero_overlong_advantages(advantage_N: Tensor, rewards_N: Tensor, truncated_N: Tensor) -> Tensor:
    """Return (N,), the advantages with 0 where the reward is 0 and the answer was cut off, as DeepCoder's released code
    does. The tokens of such an answer stay in the denominator, and its reward counts in the group's mean and std."""
    return torch.where(truncated_N & (rewards_N == 0), 0.0, advantage_N)
