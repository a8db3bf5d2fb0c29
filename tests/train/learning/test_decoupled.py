"""The decoupled objective is AReaL's J = mean min(w, C) min(u A, clip(u) A): it is compared with an independent
implementation in float64, number by number, and with finite differences."""

import math
import random
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from train.config import ObjectiveConfig  # noqa: E402
from train.learning.loss import build_minibatch, compute_loss, compute_minibatch_metrics  # noqa: E402
from train.learning.sequences import TrainingSequence  # noqa: E402

DECOUPLED = ObjectiveConfig(old="learner", truncation=2.0, clip_low=0.2, clip_high=0.28, overlong="none")
LENGTHS = (1, 4, 7, 3, 12, 5)
N_TOKENS = sum(LENGTHS)


def drawn(seed, *, stale):
    """Return sequences with the log-probabilities of the behaviour policy, those of the proximal policy, and those of
    the policy being trained. stale: how far they are apart."""
    rng = random.Random(seed)
    behaviour = [[rng.uniform(-3, -0.1) for _ in range(n)] for n in LENGTHS]
    proximal = [[logp + rng.gauss(0, stale) for logp in row] for row in behaviour]
    policy = [[logp + rng.gauss(0, 0.3) for logp in row] for row in proximal]
    sequences = [
        TrainingSequence((1, 2), tuple(range(n)), tuple(row), (rng.choice((-1.5, -0.25, 0.5, 2.0)),) * n, False, 0.0)
        for n, row in zip(LENGTHS, behaviour, strict=True)
    ]
    return sequences, proximal, policy


def areal(sequences, proximal, policy, *, most, low, high):
    """Return -J and its gradient with respect to each log-probability of the policy, as the formula says."""
    total, gradients = 0.0, []
    for sequence, prox_row, row in zip(sequences, proximal, policy, strict=True):
        for behaviour, prox, logp, advantage in zip(
            sequence.sampler_logprobs, prox_row, row, sequence.advantages, strict=True
        ):
            w, u = min(math.exp(prox - behaviour), most), math.exp(logp - prox)
            clipped = min(max(u, 1 - low), 1 + high)
            total += w * min(u * advantage, clipped * advantage)
            is_free = u * advantage <= clipped * advantage
            gradients.append(-w * u * advantage / N_TOKENS if is_free else 0.0)
    return -total / N_TOKENS, gradients


def in_float64(batch):
    tensors = (
        "advantage_T",
        "sampler_logp_T",
        "has_sampler_logprob_T",
        "old_logp_T",
        "weight_T",
        "denominator_mask_T",
        "loss_mask_T",
        "tokens_N",
    )
    return replace(batch, **{name: getattr(batch, name).double() for name in tensors})


def rows(values):
    return [torch.tensor(row, dtype=torch.float64) for row in values]


@pytest.mark.parametrize("stale", [0.05, 0.8])
@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_are_those_of_areals_formula(seed, stale):
    sequences, proximal, policy = drawn(seed, stale=stale)
    batch = in_float64(build_minibatch(sequences, DECOUPLED, rows(proximal), None))
    logp_T = torch.cat(rows(policy)).requires_grad_()
    found = compute_loss(logp_T, torch.zeros(N_TOKENS), batch, DECOUPLED)
    found.backward()
    expected, gradients = areal(sequences, proximal, policy, most=2.0, low=0.2, high=0.28)
    assert found.item() == pytest.approx(expected, rel=1e-5)  # weights come from numbers in float32
    torch.testing.assert_close(logp_T.grad, torch.tensor(gradients, dtype=torch.float64), rtol=1e-5, atol=1e-9)
    assert 0 < sum(gradient == 0 for gradient in gradients) < N_TOKENS  # some are clipped, and some are not


def test_parts_of_a_batch_add_up_to_the_loss_of_the_whole():
    sequences, proximal, policy = drawn(3, stale=0.8)
    batch = build_minibatch(sequences, DECOUPLED, rows(proximal), None)
    logp_T, entropy_T = torch.cat(rows(policy)).float(), torch.zeros(N_TOKENS)
    whole = compute_loss(logp_T, entropy_T, batch, DECOUPLED)
    parts = [torch.arange(first, min(first + 5, N_TOKENS)) for first in range(0, N_TOKENS, 5)]
    pieces = [compute_loss(logp_T[part], entropy_T[part], batch.select(part), DECOUPLED) for part in parts]
    torch.testing.assert_close(sum(pieces), whole)


def test_without_staleness_the_decoupled_objective_is_the_plain_one():
    """With eta = 0 the learner recomputes what the sampler said, so the weight is 1 and both ratios are the same."""
    sequences, proximal, policy = drawn(1, stale=0.0)
    logp_T, entropy_T = torch.cat(rows(policy)).float(), torch.zeros(N_TOKENS)
    plain = replace(DECOUPLED, old="sampler", truncation=0.0)
    old = [row.float() for row in rows(proximal)]
    decoupled = compute_loss(logp_T, entropy_T, build_minibatch(sequences, DECOUPLED, old, None), DECOUPLED)
    torch.testing.assert_close(
        decoupled, compute_loss(logp_T, entropy_T, build_minibatch(sequences, plain, None, None), plain)
    )


def test_no_token_weighs_more_than_the_bound_and_the_figures_say_how_many_would():
    sequences, proximal, policy = drawn(2, stale=1.5)
    batch = build_minibatch(sequences, DECOUPLED, [row.float() for row in rows(proximal)], None)
    ratios = [
        math.exp(prox - behaviour)
        for sequence, row in zip(sequences, proximal, strict=True)
        for prox, behaviour in zip(row, sequence.sampler_logprobs, strict=True)
    ]
    weights = [min(each, 2.0) for each in ratios]
    torch.testing.assert_close(batch.weight_T, torch.tensor(weights))
    assert not batch.weight_T.requires_grad
    figures = compute_minibatch_metrics(torch.cat(rows(policy)).float(), torch.zeros(N_TOKENS), batch, DECOUPLED)
    assert figures["mismatch/weight_truncated"] == pytest.approx(sum(each >= 2 for each in ratios) / N_TOKENS)
    assert figures["mismatch/weight_mean"] == pytest.approx(sum(weights) / N_TOKENS)
    ess = sum(weights) ** 2 / (N_TOKENS * sum(each**2 for each in weights))
    assert figures["mismatch/weight_ess"] == pytest.approx(ess)
    assert 0 < figures["mismatch/weight_truncated"] < 1


def test_a_token_beyond_the_bound_stays_in_the_denominator():
    sequences, proximal, policy = drawn(2, stale=1.5)
    batch = build_minibatch(sequences, DECOUPLED, [row.float() for row in rows(proximal)], None)
    assert batch.n_tokens == N_TOKENS
    assert batch.loss_mask_T.equal(batch.denominator_mask_T)
