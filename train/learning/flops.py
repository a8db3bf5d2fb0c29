"""Floating-point operations of matrix products, computed from a model's configuration.

A forward pass takes 2 for each weight that multiplies a token. Causal attention takes 4 x layers x heads x head width
for each pair of tokens. T tokens have T²/2 pairs, as in FlashAttention-2 (arXiv:2307.08691, section 4.1); PaLM
(arXiv:2204.02311, appendix B) counts T². A backward pass takes twice as many as the forward pass; for frozen weights,
as many.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from train.config import Config

Lengths = tuple[int, Sequence[int]]  # tokens of a prompt, and of each of its completions


def count_attention_pairs(prompt: int, completions: Iterable[int]) -> float:
    """Count the token pairs of causal attention over a prompt, computed once, and its completions."""
    return prompt**2 / 2 + sum(length * prompt + length**2 / 2 for length in completions)


class Flops(NamedTuple):
    """Floating-point operations of a model."""

    per_token: float  # of the layers, for each token
    per_prediction: float  # of the head, for each predicted token
    per_pair: float  # of attention, for each pair of tokens

    def compute_total(self, groups: Iterable[Lengths]) -> float:
        """Return the operations for groups, if each prompt is computed once."""
        return sum(
            self.per_token * (prompt + sum(completions))
            + self.per_prediction * sum(completions)
            + self.per_pair * count_attention_pairs(prompt, completions)
            for prompt, completions in groups
        )


def count_forward_flops(hf_config: Any) -> Flops:
    """Count the operations of a forward pass of a model with this transformers configuration."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        causal: Any = AutoModelForCausalLM.from_config(hf_config)  # type: ignore[no-untyped-call]
    text = hf_config.get_text_config()
    head, embedding = causal.get_output_embeddings().weight, causal.get_input_embeddings().weight
    routed = getattr(text, "num_experts_per_tok", 1) / (
        getattr(text, "num_experts", None) or getattr(text, "num_local_experts", None) or 1
    )
    layers = sum(
        weight.numel() * (routed if ".experts." in name else 1.0)
        for name, weight in causal.named_parameters()
        if weight.ndim > 1 and weight is not head and weight is not embedding
    )
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return Flops(2 * layers, 2.0 * head.numel(), 4.0 * text.num_hidden_layers * text.num_attention_heads * head_dim)


def count_training_flops(forward: Flops, config: Config, *, recomputed: bool = False) -> Flops:
    """Count the operations of training on a batch, including the objective's extra forward passes.

    recomputed: whether to count recomputation in backward: layers under activation checkpointing, the head always, and
    attention scores, which are half of the attention

    The first update takes old log-probabilities from its own forward pass (`Learner.update`), unless a mask of whole
    completions needs them earlier.
    """
    objective, epochs = config.objective, config.optimizer.epochs
    old = 1.0 if objective.mismatch_high else 1 - 1 / config.optimizer.minibatches
    extra_forwards = old * (objective.old == "learner") + (objective.kl > 0)
    again = recomputed and config.model.activation_checkpointing
    weights = epochs * (2 if config.model.lora_rank else 3) + extra_forwards
    return Flops(
        forward.per_token * (weights + epochs * again),
        forward.per_prediction * (weights + epochs * recomputed),
        forward.per_pair * (epochs * (3 + again + recomputed / 2) + extra_forwards),
    )
