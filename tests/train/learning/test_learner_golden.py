"""An update has the loss and gradient of the same objective written naively: with full logits, token by token."""

import math
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402
from learner_states import state_of  # noqa: E402

from train.config import ModelConfig, ObjectiveConfig, OptimizerConfig  # noqa: E402
from train.learning.learner import Learner  # noqa: E402

TEMPERATURE, MAX_TOKENS = 0.8, 20
OBJECTIVES = {
    "grpo": ObjectiveConfig(
        by_std=True, clip_high=0.2, kl=0.04, aggregation="sequence_mean", overlong="none", old="learner"
    ),
    "grpo-plus": ObjectiveConfig(overlong="mask"),
    "grpo-plus-old-of-learner": ObjectiveConfig(overlong="mask", old="learner"),
    "deepcoder-code": ObjectiveConfig(overlong="zero_advantage"),
    "dr-grpo": ObjectiveConfig(clip_high=0.2, aggregation="constant_length", overlong="none"),
    "two-sided": ObjectiveConfig(clip_high=0.2, delta=4.0, kl=0.001, overlong="none", old="learner"),
    "two-sided-sampler": ObjectiveConfig(clip_high=0.2, delta=4.0, overlong="none"),
    "truncated-weights": ObjectiveConfig(old="learner", truncation=2.0, overlong="none"),
    "of-another-model": ObjectiveConfig(
        old="learner", mismatch_low=0.3, mismatch_high=3.0, aggregation="sequence_mean"
    ),
    "entropy": ObjectiveConfig(entropy=0.05, aggregation="sequence_mean"),
    "all": ObjectiveConfig(
        delta=4.0, kl=0.1, entropy=0.02, old="learner", truncation=1.5, mismatch_low=0.2, mismatch_high=5.0
    ),
}


def logits(model, sequence):
    ids = torch.tensor([[*sequence.prompt_ids, *sequence.token_ids]])
    return model(input_ids=ids).logits[0, len(sequence.prompt_ids) - 1 : -1].double() / TEMPERATURE


def logps(model, sequence):
    logp_TV = logits(model, sequence).log_softmax(1)
    return [logp_TV[place, token] for place, token in enumerate(sequence.token_ids)]


def naive(now, began, sequences, objective):
    """Return the loss, with its gradient with respect to the weights of the model `now`.

    `began` is the model with the weights from the beginning of the batch, which are also those of the reference.
    """
    needs_sampler = objective.old == "sampler" or objective.truncation > 0 or objective.mismatch_high > 0
    per_sequence, counts = [], []
    for sequence in sequences:
        with torch.no_grad():
            at_begin = [logp.item() for logp in logps(began, sequence)]
        logp_TV = logits(now, sequence).log_softmax(1)
        dropped = objective.overlong == "mask" and sequence.truncated
        counted = [not dropped and (math.isfinite(mu) or not needs_sampler) for mu in sequence.sampler_logprobs]
        counted = [count and drew for count, drew in zip(counted, sequence.sampled_mask or counted, strict=True)]
        kept = True
        if objective.mismatch_high and any(counted):
            gaps = [old - mu for old, mu, c in zip(at_begin, sequence.sampler_logprobs, counted, strict=True) if c]
            kept = objective.mismatch_low <= math.exp(sum(gaps) / len(gaps)) <= objective.mismatch_high
        total = torch.zeros((), dtype=torch.float64)
        for place, token in enumerate(sequence.token_ids):
            if not counted[place] or not kept:
                continue
            logp, mu = logp_TV[place, token], sequence.sampler_logprobs[place]
            advantage = sequence.advantages[place]
            if objective.overlong == "zero_advantage" and sequence.truncated and sequence.reward == 0:
                advantage = 0.0
            old = mu if objective.old == "sampler" else at_begin[place]
            ratio = torch.exp(logp - old)
            low, high = 1 - objective.clip_low, 1 + objective.clip_high
            clipped = ratio if low <= ratio.item() <= high else torch.tensor(min(max(ratio.item(), low), high))
            first = ratio * advantage
            if objective.delta is not None and ratio.item() > objective.delta:
                first = torch.tensor(objective.delta * advantage)
            term = -min(first, clipped * advantage, key=lambda value: value.item())
            if objective.truncation:
                term = term * min(math.exp(old - mu), objective.truncation)
            if objective.kl:
                difference = at_begin[place] - logp
                term = term + objective.kl * (torch.exp(difference) - difference - 1)
            if objective.entropy:
                term = term + objective.entropy * (logp_TV[place].exp() * logp_TV[place]).sum()
            total = total + term
        per_sequence.append(total)
        counts.append(sum(counted))
    alive = sum(count > 0 for count in counts)
    if objective.aggregation == "token_mean":
        return sum(per_sequence) / sum(counts)
    if objective.aggregation == "sequence_mean":
        return sum(total / max(count, 1) for total, count in zip(per_sequence, counts, strict=True)) / alive
    return sum(per_sequence) / (alive * MAX_TOKENS)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return random_models.folder(tmp_path_factory.mktemp("golden") / "model")


def of_two_turns(sequence):
    """Return the sequence with a middle part that the model did not draw, as when a tool answered it."""
    third = len(sequence.token_ids) // 3
    sampled_mask = tuple(not third <= index < 2 * third for index in range(len(sequence.token_ids)))
    return replace(sequence, sampled_mask=sampled_mask)


@pytest.mark.parametrize(
    ("name", "turns"),
    [*((name, 1) for name in OBJECTIVES), *((name, 2) for name in ("grpo", "grpo-plus", "dr-grpo", "all"))],
)
def test_loss_and_gradient_equal_those_of_the_naive_version(path, name, turns):
    from transformers import AutoModelForCausalLM

    objective, given = OBJECTIVES[name], random_models.sequences(16, seed=3)
    if turns == 2:
        given = list(map(of_two_turns, given))
    # Without memory in the first moment it is the gradient, and no norm is clipped here.
    optimizer = OptimizerConfig(learning_rate=0.02, betas=(0.0, 0.99), clip_norm=1e9, row_tokens=48)
    learner = Learner(ModelConfig(path), objective, optimizer, temperature=TEMPERATURE, total_updates=9, seed=0)
    learner.begin_batch(given)
    learner.update(given[:8], max_tokens=MAX_TOKENS)  # now policy, old and reference are three
    now, began = (AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32) for _ in range(2))
    now.load_state_dict(dict(learner.export_weights()), strict=False)
    figures = learner.update(given[8:], max_tokens=MAX_TOKENS)
    expected = naive(now, began, given[8:], objective)
    expected.backward()
    moments = state_of(learner)["moments"]
    gradients = {name: parameter.grad for name, parameter in now.named_parameters()}
    norm = torch.cat([gradient.flatten() for gradient in gradients.values()]).norm().item()
    assert figures["loss"] == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
    assert figures["grad_norm"] == pytest.approx(norm, rel=1e-4)
    assert norm > 1e-3
    for name, gradient in gradients.items():
        torch.testing.assert_close(moments[f"{name}/exp_avg"], gradient, rtol=1e-3, atol=1e-5 * norm)


def test_every_objective_gives_a_different_loss(path):
    """Otherwise, the test above could not tell the objectives apart."""
    given, losses = random_models.sequences(16, seed=3), {}
    for name, objective in OBJECTIVES.items():
        learner = Learner(
            ModelConfig(path),
            objective,
            OptimizerConfig(learning_rate=0.02),
            temperature=TEMPERATURE,
            total_updates=9,
            seed=0,
        )
        learner.begin_batch(given)
        learner.update(given[:8], max_tokens=MAX_TOKENS)
        losses[name] = round(learner.update(given[8:], max_tokens=MAX_TOKENS)["loss"], 6)
    assert len(set(losses.values())) == len(OBJECTIVES), losses
