"""What a batch costs is compared with the operations that torch counts while a model computes, and a learner trains."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402

from train.config import Config, DataConfig, ModelConfig, ObjectiveConfig, OptimizerConfig  # noqa: E402
from train.learning.flops import Flops, count_attention_pairs, count_forward_flops, count_training_flops  # noqa: E402
from train.learning.learner import Learner  # noqa: E402
from train.learning.policy import load_hf_config  # noqa: E402

DECOUPLED = ObjectiveConfig(old="learner")


def of_forward(path: str) -> Flops:
    return count_forward_flops(load_hf_config(path))


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_a_forward_pass_takes_the_operations_that_torch_counts(tmp_path, family):
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoModelForCausalLM

    path = random_models.folder(tmp_path, family)
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager")
    flops, prompt, answer = of_forward(path), 5, 40
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.randint(random_models.VOCABULARY, (1, prompt + answer)))
    # torch's attention computes the half that causality hides, and this pass has logits for the prompt, too
    hidden_half = flops.per_pair * (prompt + answer) ** 2 / 2
    expected = flops.compute_total([(prompt, [answer])]) + hidden_half + flops.per_prediction * prompt
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.01)


def test_only_the_experts_of_a_token_count(tmp_path):
    from transformers import AutoModelForCausalLM

    path = random_models.folder(tmp_path, "qwen3-moe")
    model = AutoModelForCausalLM.from_pretrained(path)
    weights = {name: weight.numel() for name, weight in model.named_parameters() if weight.ndim > 1}
    experts = sum(n for name, n in weights.items() if ".experts." in name)
    embeddings = sum(n for name, n in weights.items() if "embed_tokens" in name or "lm_head" in name)
    assert of_forward(path).per_token == 2 * (sum(weights.values()) - embeddings - experts / 2)  # two of four


def test_attention_counts_each_pair_of_tokens_once_and_pairs_with_a_shared_prompt_for_each_answer():
    def causal(tokens: int, before: int = 0) -> int:
        return sum(before + own for own in range(1, tokens + 1))  # each token, with itself and all before it

    expected = causal(500) + causal(3000, before=500) + causal(9000, before=500)
    assert count_attention_pairs(500, [3000, 9000]) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("objective", "minibatches", "model"),
    [
        (ObjectiveConfig(), 2, {}),
        (DECOUPLED, 1, {}),
        (DECOUPLED, 4, {}),
        (replace(DECOUPLED, kl=0.1), 2, {}),
        (replace(DECOUPLED, mismatch_high=1e9), 2, {}),
        (DECOUPLED, 2, {"activation_checkpointing": True}),
    ],
)
def test_training_takes_the_operations_that_torch_counts(tmp_path, objective, minibatches, model):
    from torch.utils.flop_counter import FlopCounterMode

    settings = Config(
        ModelConfig(random_models.folder(tmp_path), **model),
        DataConfig("d"),
        objective=objective,
        optimizer=OptimizerConfig(minibatches=minibatches, epochs=2, row_tokens=128),
    )
    learner = Learner(settings.model, settings.objective, settings.optimizer, temperature=1.0, total_updates=99, seed=0)
    prompts = [(number, 7, 7) for number in range(1, 9)]
    (sequence,) = random_models.sequences(1)
    ones = (1.0,) * 50
    batch = [
        replace(sequence, prompt_ids=prompt, token_ids=(answer,) * 50, sampler_logprobs=ones, advantages=ones)
        for prompt in prompts
        for answer in (3, 4)
    ]
    size = len(batch) // minibatches
    with FlopCounterMode(display=False) as counter:
        learner.begin_batch(batch)
        for _ in range(settings.optimizer.epochs):
            for start in range(0, len(batch), size):
                learner.update(batch[start : start + size])
    products = [
        flops for name, flops in counter.get_flop_counts()["Global"].items() if str(name) in ("aten.mm", "aten.addmm")
    ]  # without attention, which is computed whole on a CPU; the last token of an answer predicts nothing
    flops = count_training_flops(of_forward(settings.model.path), settings, recomputed=True)._replace(per_pair=0.0)
    # Activation checkpointing stops before the last product of a layer, of which nothing is saved.
    tolerance = 0.05 if model else 0.02
    assert sum(products) == pytest.approx(flops.compute_total([(3, [49, 49])] * len(prompts)), rel=tolerance)


def test_what_is_computed_again_counts_for_the_time_of_training_but_not_for_its_use_of_the_gpu():
    forward = Flops(1.0, 1.0, 1.0)
    plain = Config(ModelConfig("m", activation_checkpointing=True), DataConfig("d"))
    assert count_training_flops(forward, plain) == (3, 3, 3)
    assert count_training_flops(forward, plain, recomputed=True) == (4, 4, 4.5)
    lora = replace(plain, model=replace(plain.model, lora_rank=4))
    assert count_training_flops(forward, lora) == (2, 2, 3)  # attention has no weights that could be frozen
