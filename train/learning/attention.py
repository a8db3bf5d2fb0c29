"""Attention within the sequences of a row and never across them, without a (row x row) mask.

transformers calls packed_attention instead of its own attention once a model's implementation is "packed". On a GPU in
half precision, one kernel handles sequences of all lengths; elsewhere the sequences go one after another through
torch's own attention.
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
    """Return the attended values, of shape (1, L, H, E), and None.

    There are H query heads and K heads for keys and values, and the lengths of the sequences add up to L. Raises
    ValueError if a model's attention does more than softmax(q k), since the rest would be left out silently.
    """
    if rest.get("softcap") is not None or rest.get("s_aux") is not None or rest.get("position_bias") is not None:
        raise ValueError("its attention has soft caps, sinks or biases")
    device = query_1HLE.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)  # rotary embeddings have made them float32
        query_1HLE, key_1KLE, value_1KLE = (tensor.to(dtype) for tensor in (query_1HLE, key_1KLE, value_1KLE))
    if query_1HLE.is_cuda and query_1HLE.dtype != torch.float32:
        return _one_kernel(query_1HLE, key_1KLE, value_1KLE, lengths, scaling, sliding_window), None
    tensors = (query_1HLE, key_1KLE, value_1KLE)
    parts = zip(*(torch.split(tensor, list(lengths), dim=2) for tensor in tensors), strict=True)
    attended = [
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
    return torch.cat(attended, dim=2).transpose(1, 2), None


def _one_kernel(
    query_1HLE: Tensor, key_1KLE: Tensor, value_1KLE: Tensor, lengths: tuple[int, ...], scaling: float | None,
    sliding_window: int | None,
) -> Tensor:  # fmt: skip
    from torch.nn.attention.varlen import varlen_attn

    ends = torch.tensor((0, *lengths), device=query_1HLE.device).cumsum(0, dtype=torch.int32)
    query_LHE, key_LKE, value_LKE = (
        tensor[0].transpose(0, 1).contiguous() for tensor in (query_1HLE, key_1KLE, value_1KLE)
    )
    attended = varlen_attn(
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
    assert isinstance(attended, Tensor)
    return attended[None]


def _window(query_1HLE: Tensor, sliding_window: int | None) -> Tensor | None:
    if sliding_window is None or query_1HLE.shape[2] <= sliding_window:
        return None
    place_L = torch.arange(query_1HLE.shape[2], device=query_1HLE.device)
    back_LL = place_L[:, None] - place_L
    return (back_LL >= 0) & (back_LL < sliding_window)


ALL_ATTENTION_FUNCTIONS.register(PACKED, packed_attention)
