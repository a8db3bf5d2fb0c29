"""Attention within the sequences of a row and never across them, without a (row x row) mask.

transformers calls it in place of its own once a model's attention is "packed". On a GPU in half precision it is one
kernel for sequences of all lengths; elsewhere the sequences go one after another through torch's own attention.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

PACKED = "packed"


def packed_attention(
    module: torch.nn.Module, query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, attention_mask: Tensor | None, *,
    lengths: tuple[int, ...], scaling: float | None = None, sliding_window: int | None = None, **rest: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """((1, L, H, E), None): H heads, K of them with keys and values; the lengths of the sequences add up to L.

    Raises ValueError where a model's attention is more than softmax(q k): what is left out would change it silently.
    """
    if rest.get("softcap") is not None or rest.get("s_aux") is not None or rest.get("position_bias") is not None:
        raise ValueError("its attention has soft caps, sinks or biases")
    device = query_1HLE.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)  # rotary embeddings have made them float32
        query_1HLE, key_1KLE, value_1KLE = (each.to(dtype) for each in (query_1HLE, key_1KLE, value_1KLE))
    if query_1HLE.is_cuda and query_1HLE.dtype != torch.float32:
        return _one_kernel(query_1HLE, key_1KLE, value_1KLE, lengths, scaling, sliding_window), None
    parts = zip(*(torch.split(each, list(lengths), dim=2) for each in (query_1HLE, key_1KLE, value_1KLE)), strict=True)
    done = [
        F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=_window(query, sliding_window),
            is_causal=_window(query, sliding_window) is None,
            scale=scaling,
            enable_gqa=query_1HLE.shape[1] != key_1KLE.shape[1],
        )
        for query, key, value in parts
    ]
    return torch.cat(done, dim=2).transpose(1, 2), None


def _one_kernel(
    query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, lengths: tuple[int, ...], scaling: float | None,
    sliding_window: int | None,
) -> Tensor:  # fmt: skip
    from torch.nn.attention.varlen import varlen_attn

    ends = torch.tensor((0, *lengths), device=query_1HLE.device).cumsum(0, dtype=torch.int32)
    query_LHE, key_LKE, value_LKE = (
        each[0].transpose(0, 1).contiguous() for each in (query_1HLE, key_1KLE, value_1KLE)
    )
    made = varlen_attn(
        query_LHE,
        key_LKE,
        value_LKE,
        ends,
        ends,
        max(lengths),
        max(lengths),
        scale=scaling,
        window_size=(-1 if sliding_window is None else sliding_window - 1, 0),
        enable_gqa=query_1HLE.shape[1] != key_1KLE.shape[1],
    )
    assert isinstance(made, Tensor)
    return made[None]


def _window(query_1HLE: Tensor, sliding_window: int | None) -> Tensor | None:
    if sliding_window is None or query_1HLE.shape[2] <= sliding_window:
        return None
    place_L = torch.arange(query_1HLE.shape[2], device=query_1HLE.device)
    back_LL = place_L[:, None] - place_L
    return (back_LL >= 0) & (back_LL < sliding_window)


ALL_ATTENTION_FUNCTIONS.register(PACKED, packed_attention)
