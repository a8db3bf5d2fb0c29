"""Attention of each token of a row to its own prompt and answer and to nothing else, without a (row x row) mask.

transformers calls packed_attention instead of its own attention once a model's implementation is "packed". On a GPU in
half precision, one kernel handles sequences of all lengths; elsewhere the sequences go one after another through
torch's own attention. Queries of a prompt are computed once. Its keys and values are computed once as well, and copied
for each of its answers.

Context parallelism (Ulysses): several ranks can share a row, each with a contiguous part of it (sequences.shard_row).
Here they exchange tokens for heads: each gets all tokens of the row for its share of the heads, and gives the attended
values back.
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

# For each prompt of a row, its own tokens followed by those of each of its answers (sequences.PackedRow).
Lengths = tuple[tuple[int, ...], ...]


def packed_attention(
    module: torch.nn.Module, query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, attention_mask: Tensor | None, *,
    lengths: Lengths, scaling: float | None = None, sliding_window: int | None = None, context: Any = None, **rest: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Return the attended values, of shape (1, L, H, E), and None.

    context: the group of ranks that share the row, each with a part of it; None: this rank has all of it

    There are H query heads and K heads for keys and values, and the lengths add up to the tokens of the row. Raises
    ValueError if a model's attention does more than softmax(q k), since the rest would be left out silently.
    """
    if rest.get("softcap") is not None or rest.get("s_aux") is not None or rest.get("position_bias") is not None:
        raise ValueError("its attention has soft caps, sinks or biases")
    device = query_1HLE.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)  # rotary embeddings have made them float32
        query_1HLE, key_1KLE, value_1KLE = (tensor.to(dtype) for tensor in (query_1HLE, key_1KLE, value_1KLE))
    if context is not None:
        query_1HLE, key_1KLE, value_1KLE = (
            gather_seq_scatter_heads(tensor, context) for tensor in (query_1HLE, key_1KLE, value_1KLE)
        )
    attend = _one_kernel if query_1HLE.is_cuda and query_1HLE.dtype != torch.float32 else _one_by_one
    attended_1LHE = attend(query_1HLE, key_1KLE, value_1KLE, lengths, scaling, sliding_window)
    return attended_1LHE if context is None else gather_heads_scatter_seq(attended_1LHE, context), None


def _one_by_one(
    query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, lengths: Lengths, scaling: float | None,
    sliding_window: int | None,
) -> Tensor:  # fmt: skip
    if query_1HLE.is_cuda:  # with fewer heads for keys, only the kernel that keeps the whole matrix of scores would do
        key_1KLE, value_1KLE = repeat_heads(key_1KLE, value_1KLE, heads=query_1HLE.shape[1])
    each = [length for part in lengths for length in part]
    queries, keys, values = (iter(torch.split(tensor, each, dim=2)) for tensor in (query_1HLE, key_1KLE, value_1KLE))
    attend = partial(F.scaled_dot_product_attention, scale=scaling, enable_gqa=query_1HLE.shape[1] != key_1KLE.shape[1])
    attended = []
    for prompt, *completions in lengths:
        prompt_key, prompt_value = next(keys), next(values)
        mask = _mask(prompt, prompt, sliding_window, query_1HLE.device)
        attended.append(attend(next(queries), prompt_key, prompt_value, mask, is_causal=mask is None))
        max_length = max(completions, default=0)
        mask = _mask(max_length, prompt + max_length, sliding_window, query_1HLE.device)
        for completion in completions:
            key, value = torch.cat([prompt_key, next(keys)], 2), torch.cat([prompt_value, next(values)], 2)
            completion_mask = None if mask is None else mask[:completion, : prompt + completion]
            attended.append(attend(next(queries), key, value, completion_mask))
    return torch.cat(attended, dim=2).transpose(1, 2)


def repeat_heads(key_1KLE: Tensor, value_1KLE: Tensor, *, heads: int) -> tuple[Tensor, Tensor]:
    """Return keys and values with a head for each of the queries' `heads`, of which several share one."""
    times = heads // key_1KLE.shape[1]
    return key_1KLE.repeat_interleave(times, dim=1), value_1KLE.repeat_interleave(times, dim=1)


def _mask(n_queries: int, n_keys: int, sliding_window: int | None, device: torch.device) -> Tensor | None:
    """Return (queries, keys), to which keys the last `n_queries` tokens of a sequence of `n_keys` attend.

    Return None if the queries are the whole sequence and each attends to all tokens up to itself.
    """
    if n_queries == n_keys and (sliding_window is None or n_keys <= sliding_window):
        return None
    index = torch.arange(n_keys, device=device)
    back = index[n_keys - n_queries :, None] - index
    return (back >= 0) if sliding_window is None else (back >= 0) & (back < sliding_window)


def _one_kernel(
    query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, lengths: Lengths, scaling: float | None,
    sliding_window: int | None,
) -> Tensor:  # fmt: skip
    from torch.nn.attention.varlen import varlen_attn

    query_ends, key_ends, max_query_length, max_key_length, keys = _sequence_ends(lengths, query_1HLE.device)
    query_LHE, key_LKE, value_LKE = (
        tensor[0].transpose(0, 1).contiguous() for tensor in (query_1HLE, key_1KLE, value_1KLE)
    )
    if keys is not None:
        # Not by index: embedding adds up the gradient of a key in float32, and in the same order each time.
        key_LKE, value_LKE = (
            F.embedding(keys, tensor.flatten(1)).reshape(-1, *tensor.shape[1:]) for tensor in (key_LKE, value_LKE)
        )
    # The last query of a sequence belongs to its last key, also where there are more keys than queries.
    window_size = (-1 if sliding_window is None else sliding_window - 1, 0)
    attended = varlen_attn(
        query_LHE, key_LKE, value_LKE, query_ends, key_ends, max_query_length, max_key_length, scale=scaling,
        window_size=window_size, enable_gqa=query_1HLE.shape[1] != key_1KLE.shape[1],
    )  # fmt: skip
    assert isinstance(attended, Tensor)
    return attended[None]


@lru_cache(maxsize=2)  # all layers ask for the same
def _sequence_ends(lengths: Lengths, device: torch.device) -> tuple[Tensor, Tensor, int, int, Tensor | None]:
    """Return where the queries and the keys of each sequence end, the most of each, and the indices of the keys.

    The indices are None if they are those of the row. A prompt is a sequence, and each of its answers is one whose keys
    begin with those of the prompt.
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
    """Exchange all heads of a part of the row for a share of the heads of the whole row."""
    ranks = group.size()
    if tensor_1HLE.shape[1] < ranks:  # several ranks need the same head for keys
        tensor_1HLE = tensor_1HLE.repeat_interleave(ranks // tensor_1HLE.shape[1], dim=1)
    _, heads, tokens, width = tensor_1HLE.shape
    sent = tensor_1HLE.reshape(ranks, heads // ranks, tokens, width).contiguous()
    got: Tensor = all_to_all_single_autograd(sent, None, None, group)
    return got.transpose(0, 1).reshape(1, heads // ranks, ranks * tokens, width)


def gather_heads_scatter_seq(attended_1LHE: Tensor, group: Any) -> Tensor:
    """Exchange a share of the heads of the whole row for all heads of this rank's part of it."""
    ranks = group.size()
    _, tokens, heads, width = attended_1LHE.shape
    sent = attended_1LHE.reshape(ranks, tokens // ranks, heads, width).contiguous()
    got: Tensor = all_to_all_single_autograd(sent, None, None, group)
    return got.transpose(0, 1).reshape(1, tokens // ranks, ranks * heads, width)


ALL_ATTENTION_FUNCTIONS.register(PACKED, packed_attention)
