"""Packed attention: each token attends to its own prompt and completion only, without an (L, L) mask.

transformers calls `compute_packed_attention` if a model's attention implementation is "packed". On a GPU in half
precision, one variable-length kernel handles all sequences; otherwise torch's attention handles each sequence
separately. A prompt's queries, keys and values are computed once; keys and values are then copied for each completion.

Context parallelism (Ulysses): ranks can share a row, each with contiguous tokens (sequences.shard_row). Before
attention, an all-to-all gives each rank a share of the heads for all tokens. After it, a second one reverses the first.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import accumulate, islice, pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributed._functional_collectives import all_to_all_single_autograd
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

PACKED = "packed"

# For each prompt of a row, its own length followed by those of its completions (sequences.PackedRow).
Lengths = tuple[tuple[int, ...], ...]


def compute_packed_attention(
    module: torch.nn.Module, query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, attention_mask: Tensor | None, *,
    lengths: Lengths, scaling: float | None = None, sliding_window: int | None = None, context: Any = None, **rest: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Return the output of attention, of shape (1, L, H, E), and None: transformers' interface.

    context: process group of the ranks that share the row; None: this rank has the whole row

    There are L tokens, H query heads and K key-value heads. The sum of `lengths` is L. Raises ValueError for soft caps,
    sinks and biases, which these kernels do not support.
    """
    if rest.get("softcap") is not None or rest.get("s_aux") is not None or rest.get("position_bias") is not None:
        raise ValueError("its attention has soft caps, sinks or biases")
    device = query_1HLE.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)  # rotary embeddings return float32
        query_1HLE, key_1KLE, value_1KLE = (tensor.to(dtype) for tensor in (query_1HLE, key_1KLE, value_1KLE))
    if context is not None:
        query_1HLE, key_1KLE, value_1KLE = (
            gather_seq_scatter_heads(tensor, context) for tensor in (query_1HLE, key_1KLE, value_1KLE)
        )
    attend = _attend_varlen if query_1HLE.is_cuda and query_1HLE.dtype != torch.float32 else _attend_each
    attended_1LHE = attend(query_1HLE, key_1KLE, value_1KLE, lengths, scaling, sliding_window)
    return attended_1LHE if context is None else gather_heads_scatter_seq(attended_1LHE, context), None


def _attend_each(
    query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, lengths: Lengths, scaling: float | None,
    sliding_window: int | None,
) -> Tensor:  # fmt: skip
    if query_1HLE.is_cuda:  # for grouped heads, torch has only a kernel that materializes the score matrix
        key_1KLE, value_1KLE = repeat_heads(key_1KLE, value_1KLE, heads=query_1HLE.shape[1])
    each = [length for part in lengths for length in part]
    queries, keys, values = (iter(torch.split(tensor, each, dim=2)) for tensor in (query_1HLE, key_1KLE, value_1KLE))
    attend = partial(F.scaled_dot_product_attention, scale=scaling, enable_gqa=query_1HLE.shape[1] != key_1KLE.shape[1])
    attended = []
    for prompt, *completions in lengths:
        prompt_key, prompt_value = next(keys), next(values)
        mask = _build_mask(prompt, prompt, sliding_window, query_1HLE.device)
        attended.append(attend(next(queries), prompt_key, prompt_value, mask, is_causal=mask is None))
        max_length = max(completions, default=0)
        mask = _build_mask(max_length, prompt + max_length, sliding_window, query_1HLE.device)
        for completion in completions:
            key, value = torch.cat([prompt_key, next(keys)], 2), torch.cat([prompt_value, next(values)], 2)
            completion_mask = None if mask is None else mask[:completion, : prompt + completion]
            attended.append(attend(next(queries), key, value, completion_mask))
    return torch.cat(attended, dim=2).transpose(1, 2)


def repeat_heads(key_1KLE: Tensor, value_1KLE: Tensor, *, heads: int) -> tuple[Tensor, Tensor]:
    """Repeat key and value heads to the number of query heads."""
    times = heads // key_1KLE.shape[1]
    return key_1KLE.repeat_interleave(times, dim=1), value_1KLE.repeat_interleave(times, dim=1)


def _build_mask(n_queries: int, n_keys: int, sliding_window: int | None, device: torch.device) -> Tensor | None:
    """Return the attention mask (queries, keys) of the last `n_queries` tokens of a sequence of `n_keys` tokens.

    None if plain causal attention over the whole sequence needs no mask.
    """
    if n_queries == n_keys and (sliding_window is None or n_keys <= sliding_window):
        return None
    index = torch.arange(n_keys, device=device)
    back = index[n_keys - n_queries :, None] - index
    return (back >= 0) if sliding_window is None else (back >= 0) & (back < sliding_window)


def _attend_varlen(
    query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, lengths: Lengths, scaling: float | None,
    sliding_window: int | None,
) -> Tensor:  # fmt: skip
    from torch.nn.attention.varlen import varlen_attn

    query_ends, key_ends, max_query_length, max_key_length, keys = _compute_sequence_ends(lengths, query_1HLE.device)
    query_LHE, key_LKE, value_LKE = (
        tensor[0].transpose(0, 1).contiguous() for tensor in (query_1HLE, key_1KLE, value_1KLE)
    )
    if keys is not None:
        # F.embedding instead of indexing, because its backward sums gradients in float32, in a fixed order.
        key_LKE, value_LKE = (
            F.embedding(keys, tensor.flatten(1)).reshape(-1, *tensor.shape[1:]) for tensor in (key_LKE, value_LKE)
        )
    # varlen_attn aligns the last query of a sequence with its last key, even with more keys than queries.
    window_size = (-1 if sliding_window is None else sliding_window - 1, 0)
    attended = varlen_attn(
        query_LHE, key_LKE, value_LKE, query_ends, key_ends, max_query_length, max_key_length, scale=scaling,
        window_size=window_size, enable_gqa=query_1HLE.shape[1] != key_1KLE.shape[1],
    )  # fmt: skip
    assert isinstance(attended, Tensor)
    return attended[None]


@lru_cache(maxsize=2)  # the same for all layers
def _compute_sequence_ends(lengths: Lengths, device: torch.device) -> tuple[Tensor, Tensor, int, int, Tensor | None]:
    """Return the sequences' ends among queries and among keys, both maximum lengths, and the indices of the keys.

    Each prompt is a sequence, and so is each completion, whose keys begin with its prompt's keys. The indices are None
    if no sequence shares a prompt's keys.
    """
    n_queries = [length for part in lengths for length in part]
    spans = (range(*span) for span in pairwise([0, *accumulate(n_queries)]))
    key_indices: list[Sequence[int]] = []
    for part in lengths:
        prompt, *completions = islice(spans, len(part))
        key_indices += [prompt, *([*prompt, *completion] for completion in completions)]
    n_keys = [len(each) for each in key_indices]
    query_ends, key_ends = (
        torch.tensor([0, *accumulate(each)], dtype=torch.int32, device=device) for each in (n_queries, n_keys)
    )
    shared = any(len(part) > 1 for part in lengths)
    flat = torch.tensor([index for each in key_indices for index in each], device=device) if shared else None
    return query_ends, key_ends, max(n_queries), max(n_keys), flat


def gather_seq_scatter_heads(tensor_1HLE: Tensor, group: Any) -> Tensor:
    """Exchange all heads of this rank's tokens for a share of the heads of the row's tokens, by all-to-all."""
    ranks = group.size()
    if tensor_1HLE.shape[1] < ranks:  # several ranks need the same key-value head
        tensor_1HLE = tensor_1HLE.repeat_interleave(ranks // tensor_1HLE.shape[1], dim=1)
    _, heads, tokens, width = tensor_1HLE.shape
    sent = tensor_1HLE.reshape(ranks, heads // ranks, tokens, width).contiguous()
    received: Tensor = all_to_all_single_autograd(sent, None, None, group)
    return received.transpose(0, 1).reshape(1, heads // ranks, ranks * tokens, width)


def gather_heads_scatter_seq(attended_1LHE: Tensor, group: Any) -> Tensor:
    """Exchange a share of the heads of the row's tokens for all heads of this rank's tokens, by all-to-all."""
    ranks = group.size()
    _, tokens, heads, width = attended_1LHE.shape
    sent = attended_1LHE.reshape(ranks, tokens // ranks, heads, width).contiguous()
    received: Tensor = all_to_all_single_autograd(sent, None, None, group)
    return received.transpose(0, 1).reshape(1, tokens // ranks, ranks * heads, width)


ALL_ATTENTION_FUNCTIONS.register(PACKED, compute_packed_attention)
