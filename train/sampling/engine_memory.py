"""An estimate of the memory that an engine needs, from the model's configuration alone."""

from dataclasses import dataclass
from typing import Any

from train.config import ModelConfig

# Approximate, on GPUs: CUDA and its graphs, and the largest step of an engine, in which it fills a prompt's cache.
ENGINE_OVERHEAD_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes on each GPU of an engine.

    weights                the model's, divided among the engine's GPUs
    cache_bytes_per_token  cache of keys and values of one token
    max_sequence_tokens    tokens of the longest prompt and answer together, which the cache must be able to hold
    """

    weights: int
    cache_bytes_per_token: int
    max_sequence_tokens: int


def estimate_engine_memory(
    model: ModelConfig, parameters: int, settings: Any, *, tensor_parallel: int, max_sequence_tokens: int
) -> EngineMemory:
    """Estimate the memory of an engine.

    parameters           the number of the model's parameters
    settings             the configuration of the model in transformers
    max_sequence_tokens  tokens of the longest prompt and answer together
    """
    text = settings.get_text_config()
    n_bytes = 2 if model.dtype == "bfloat16" else 4
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    heads_on_a_gpu = max(1, -(-heads // tensor_parallel))
    return EngineMemory(
        weights=-(-parameters * n_bytes // tensor_parallel),
        cache_bytes_per_token=2 * text.num_hidden_layers * heads_on_a_gpu * width * n_bytes,
        max_sequence_tokens=min(max_sequence_tokens, getattr(text, "max_position_embeddings", max_sequence_tokens)),
    )
