"""What a batch costs is compared with the operations that torch counts while a model computes."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import random_models  # noqa: E402

from train.config import Config, DataConfig, ModelConfig, ObjectiveConfig, OptimizerConfig  # noqa: E402
from train.run.step_metrics import flops_per_token, forward_flops, training_flops  # noqa: E402


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_a_forward_pass_takes_the_operations_that_torch_counts(tmp_path, family):
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoModelForCausalLM

    path = random_models.folder(tmp_path, family)
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager")
    size, prompt, answer = flops_per_token(path), 5, 40
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.randint(random_models.VOCABULARY, (1, prompt + answer)))
    # torch's attention computes the half that causality hides, and this pass has logits for the prompt, too
    hidden_half = 4 * size.attention_width * (prompt + answer) ** 2 / 2
    expected = forward_flops(size, [(prompt, [answer])]) + hidden_half + 2 * size.head_weights * prompt
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.01)


def test_only_the_experts_of_a_token_count(tmp_path):
    from transformers import AutoModelForCausalLM

    path = random_models.folder(tmp_path, "qwen3-moe")
    model = AutoModelForCausalLM.from_pretrained(path)
    weights = {name: weight.numel() for name, weight in model.named_parameters() if weight.ndim > 1}
    experts = sum(n for name, n in weights.items() if ".experts." in name)
    embeddings = sum(n for name, n in weights.items() if "embed_tokens" in name or "lm_head" in name)
    assert flops_per_token(path).body_weights == sum(weights.values()) - embeddings - experts / 2  # two of four


def test_the_prompt_of_a_group_is_computed_once_and_the_objective_needs_passes_of_its_own(tmp_path):
    size = flops_per_token(random_models.folder(tmp_path))
    alone, together = (forward_flops(size, groups) for groups in ([(50, [9]), (50, [9])], [(50, [9, 9])]))
    assert 0.5 * alone < together < 0.7 * alone
    plain = Config(ModelConfig("m"), DataConfig("d"))
    assert training_flops(size, [(50, [9, 9])], plain) == 3 * together
    decoupled = Config(
        ModelConfig("m"),
        DataConfig("d"),
        objective=ObjectiveConfig(old="learner", kl=0.1),
        optimizer=OptimizerConfig(epochs=2),
    )
    assert training_flops(size, [(50, [9, 9])], decoupled) == (2 * 3 + 2) * together
    lora = Config(ModelConfig("m", lora_rank=4), DataConfig("d"))
    assert training_flops(size, [(50, [9, 9])], lora) == 2 * together
