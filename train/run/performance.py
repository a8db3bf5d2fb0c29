"""Speed and memory of a run: figures of a step, and the floating-point operations of training on a batch.

Counted are products of matrices: 2 for each weight and token forward, and those of causal attention. Backward takes
twice as many; for weights that are frozen, once as many. What is computed again to save memory is not counted.
"""

import resource
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from train.config import Config

if TYPE_CHECKING:
    from train.rollouts.groups import Group

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

    from train.learning.policy import load_hf_config

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


# Dense products of matrices in bfloat16, operations per second, from the makers' data sheets; by a part of the name
# of the device, the more special one first.
_PEAKS = {
    "B200": 2250e12, "H200": 989e12, "H100 PCIe": 756e12, "H100": 989e12, "H800": 989e12, "H20": 148e12,
    "A100": 312e12, "A800": 312e12, "L40S": 362e12, "A10G": 70e12, "L4": 121e12, "RTX 4090": 165e12,
}  # fmt: skip
_GIB = 2**30


class Performance:
    """Figures of the steps of a run.

    n_ranks: number of processes that the learner consists of, each with a GPU of its own
    """

    def __init__(self, config: Config, *, n_ranks: int) -> None:
        import torch

        self._config = config
        self._on_gpu = torch.cuda.is_available()
        device = torch.cuda.get_device_name() if self._on_gpu and config.model.dtype == "bfloat16" else ""
        self._peak = n_ranks * next((peak for name, peak in _PEAKS.items() if name in device), 0.0)  # 0: unknown
        self._size = flops_per_token(config.model.path) if self._peak else None

    def step_metrics(self, groups: "Sequence[Group]", *, train_seconds: float, step_seconds: float) -> dict[str, float]:
        """Return the figures of a step that trained on these groups."""
        lengths = [(len(group[0].prompt_ids), [len(rollout.token_ids) for rollout in group]) for group in groups]
        figures = {
            "perf/tokens_per_second": sum(n * len(answers) + sum(answers) for n, answers in lengths) / step_seconds,
            "perf/training_tokens_per_second": sum(n + sum(answers) for n, answers in lengths) / train_seconds,
            "perf/host_memory_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _GIB,
            "perf/machine_memory_share": psutil.virtual_memory().percent / 100,
        }
        if self._on_gpu:
            import torch

            figures["perf/device_memory_gib"] = torch.cuda.max_memory_allocated() / _GIB
        if self._size is not None:
            figures["perf/mfu"] = training_flops(self._size, lengths, self._config) / train_seconds / self._peak
        return figures
