"""Tiny models with random weights, and random completions, which are all that tests of arithmetic need."""

import random
from pathlib import Path
from typing import Any

VOCABULARY = 37
_CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"tie_word_embeddings": False, "head_dim": 16}),
    "llama": ("Llama", {"tie_word_embeddings": False}),
    "mistral": ("Mistral", {"sliding_window": 6}),
    "qwen3-moe": (
        "Qwen3Moe",
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 16},
    ),
    "phi": ("Phi", {}),  # its head has a bias
    "gemma2": ("Gemma2", {"head_dim": 16}),  # its logits are capped
    "granite": ("Granite", {"logits_scaling": 4.0}),
    "mamba": ("Mamba", {"state_size": 4}),
}


def folder(path: Path, family: str = "qwen2", *, seed: int = 0, **sizes: int) -> str:
    """Save a model with two layers of width 32, or of other sizes, and return its folder.

    Its weights are large enough that its predictions are far from uniform.
    """
    import torch
    import transformers

    name, more = _CONFIGURATIONS[family]
    settings = getattr(transformers, f"{name}Config")(
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 128,
            "initializer_range": 0.3,
            **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **more},
            **sizes,
        },
    )
    torch.manual_seed(seed)
    model = getattr(transformers, f"{name}ForCausalLM")(settings)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.3 * torch.randn_like(parameter)  # a bias of 0 could be left out unnoticed
    model.save_pretrained(path)
    return str(path)


def sequences(n: int = 12, *, seed: int = 0, longest: int = 14, answers: int = 3) -> list[Any]:
    """Return random sequences; each prompt has so many answers.

    Advantages differ from token to token, some answers are cut off, and some log-probabilities of the sampler are nan.
    """
    from train.learning.sequences import TrainingSequence

    rng = random.Random(seed)
    made: list[Any] = []
    for number in range(n):
        tokens = rng.randint(1, longest)
        prompt_ids = tuple(rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 9)))
        made.append(
            TrainingSequence(
                prompt_ids=made[-1].prompt_ids if number % answers else prompt_ids,
                token_ids=tuple(rng.randrange(VOCABULARY) for _ in range(tokens)),
                sampler_logprobs=tuple(
                    float("nan") if rng.random() < 0.05 else rng.uniform(-6, -1) for _ in range(tokens)
                ),
                advantages=tuple(rng.uniform(-1, 1) for _ in range(tokens)),
                truncated=number % 4 == 3,
                reward=float(number % 8 == 7),
            )
        )
    return made
