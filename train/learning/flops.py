"""How many floating-point operations training on a batch takes, from the model's configuration alone.

Counted are products of matrices: 2 for each weight and token forward, and those of causal attention. Backward takes
twice as many; for weights that are frozen, once as many. What is computed again to save memory is not counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from train.config import Config

Lengths = tuple[int, Sequence[int]]  # tokens of a prompt, and of each of its answers


@dataclass(frozen=True, slots=True)
class FlopsPerToken:
    """What a token costs.

    body_weights     weights that each token is multiplied by; of experts, those that it is routed to
    head_weights     weights of the head, by which only tokens that predict others are multiplied
    attention_width  layers times the width of all heads together
    """

    body_weights: float
    head_weights: float
    attention_width: float


def flops_per_token(path: str) -> FlopsPerToken:
    """Return the size of a model without its weights. Raises LearnerError if there is no such model."""
    import torch
    from transformers import AutoModelForCausalLM

    from train.learning.model.policy import load_hf_config

    config = load_hf_config(path)
    with torch.device("meta"):
        causal: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    text = config.get_text_config()
    head, embedding = causal.get_output_embeddings().weight, causal.get_input_embeddings().weight
    routed = getattr(text, "num_experts_per_tok", 1) / (
        getattr(text, "num_experts", None) or getattr(text, "num_local_experts", None) or 1
    )
    body = sum(
        weight.numel() * (routed if ".experts." in name else 1.0)
        for name, weight in causal.named_parameters()
        if weight.ndim > 1 and weight is not head and weight is not embedding
    )
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return FlopsPerToken(body, head.numel(), text.num_hidden_layers * text.num_attention_heads * head_dim)


def forward_flops(size: FlopsPerToken, groups: Iterable[Lengths]) -> float:
    """Return the operations of one forward pass over groups of answers, each with its prompt computed once."""
    total = 0.0
    for prompt, completions in groups:
        tokens = prompt + sum(completions)
        pairs = prompt**2 / 2 + sum(completion * prompt + completion**2 / 2 for completion in completions)
        total += (
            2 * size.body_weights * tokens + 2 * size.head_weights * sum(completions) + 4 * size.attention_width * pairs
        )
    return total


def training_flops(size: FlopsPerToken, groups: Iterable[Lengths], config: Config) -> float:
    """Return the operations of training on a batch, with the forward passes that its objective needs besides."""
    backward = 1 if config.model.lora_rank else 2
    besides = (config.objective.old == "learner") + (config.objective.kl > 0)
    return forward_flops(size, groups) * (config.optimizer.epochs * (1 + backward) + besides)
