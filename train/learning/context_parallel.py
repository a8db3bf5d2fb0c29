"""Context parallelism (Ulysses): several ranks share each row, of which each holds a contiguous part.

Only attention looks beyond a rank's part. For it, the ranks exchange tokens for heads: each gets all tokens of the row
for its share of the heads, attends, and gives the result back.
"""

from typing import Any

import torch
from torch import Tensor
from torch.distributed._functional_collectives import all_to_all_single_autograd

from train.learning.sequences import PackedRow


def shard_row(row: PackedRow, *, ranks: int, rank: int) -> PackedRow:
    """Return a rank's part of a row, which is filled up with a sequence that predicts nothing.

    `lengths` remain those of the whole row.
    """
    if ranks == 1:
        return row
    n_tokens = len(row.token_ids_L)
    own_tokens = -(-n_tokens // ranks)
    padding = own_tokens * ranks - n_tokens
    start = rank * own_tokens
    ids_L, position_ids_L = (
        torch.nn.functional.pad(each, (0, padding))[start : start + own_tokens]
        for each in (row.token_ids_L, row.position_ids_L)
    )
    is_own_U = (row.source_index_U >= start) & (row.source_index_U < start + own_tokens)
    is_own_R = is_own_U[row.unique_index_R]
    return PackedRow(
        ids_L,
        position_ids_L,
        (*row.lengths, (padding,)) if padding else row.lengths,
        row.source_index_U[is_own_U] - start,
        row.targets_U[is_own_U],
        row.token_index_R[is_own_R],
        (is_own_U.cumsum(0) - 1)[row.unique_index_R[is_own_R]],
    )


def find_incompatibility(query_heads: int, key_heads: int, ranks: int) -> str:
    """Return why the heads cannot be divided among so many ranks, or nothing if they can."""
    if query_heads % ranks or (key_heads % ranks and ranks % key_heads):
        return (
            f"ranks.context = {ranks}: the model's {query_heads} attention heads, {key_heads} of them for keys, cannot "
            "be divided among so many ranks. Choose a divisor of both, or a multiple of the latter"
        )
    return ""


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
