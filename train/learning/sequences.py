"""Training sequences, and packing them into rows.

A row is one forward pass over prompts and their completions, concatenated without padding. A prompt is computed once
for all of its completions in the row. A token attends to its prompt and its own completion (attention.py).

The T completion tokens of a minibatch, concatenated, are indexed from 0. Values of a token are stored at this index,
whichever row computes them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from operator import itemgetter

import torch
import torch.nn.functional as F
from torch import Tensor

# Length of a sequence whose attention costs as much as its other operations: about 6 times the width of a dense model.
_SQUARE_TOKENS = 12_000
# Maximum number of attention keys per token of row capacity: keys of a prompt are copied for each completion.
MAX_KEYS_PER_TOKEN = 2


@dataclass(frozen=True, slots=True)
class TrainingSequence:
    """A prompt and one completion of it.

    sampler_logprobs  one per token, after temperature; nan or infinite where the sampler reported none
    advantages        one per token
    reward            nan if unknown
    sampled_mask      whether the policy sampled each token; empty for all. The loss excludes other tokens, such as tool
                      output
    """

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    sampler_logprobs: tuple[float, ...]
    advantages: tuple[float, ...]
    truncated: bool
    reward: float
    sampled_mask: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError("a completion needs a prompt of at least one token")
        if not len(self.token_ids) == len(self.sampler_logprobs) == len(self.advantages):
            raise ValueError(
                f"a completion has {len(self.token_ids)} tokens, {len(self.sampler_logprobs)} log-probabilities and "
                f"{len(self.advantages)} advantages: the three numbers must be equal"
            )
        if self.sampled_mask and len(self.sampled_mask) != len(self.token_ids):
            raise ValueError(
                f"a completion has {len(self.token_ids)} tokens, but {len(self.sampled_mask)} values in sampled_mask"
            )


@dataclass(frozen=True, slots=True)
class PackedRow:
    """The input of one forward pass: L tokens of prompts, each followed by its completions in this row.

    The row predicts U distinct tokens for R tokens of the minibatch; U < R if completions are identical, since the row
    has these once. It omits the last token of each completion, which predicts nothing. Positions of a completion
    continue those of its prompt. An empty row has one token and predicts nothing.

    lengths         for each prompt, its own length followed by those of its completions; a prompt with a single
                    completion is one sequence
    source_index_U  for each predicted token, the index in L that predicts it
    targets_U       the predicted tokens
    token_index_R   for each token of the minibatch that this row predicts, its index in T
    unique_index_R  for each of these tokens, its index in U
    """

    token_ids_L: Tensor
    position_ids_L: Tensor
    lengths: tuple[tuple[int, ...], ...]
    source_index_U: Tensor
    targets_U: Tensor
    token_index_R: Tensor
    unique_index_R: Tensor


def pack_into_rows(
    sequences: Sequence[TrainingSequence],
    *,
    row_tokens: int,
    ranks: int = 1,
    rank: int = 0,
    device: torch.device | str = "cpu",
) -> Iterator[PackedRow]:
    """Pack the sequences into rows, and yield this rank's rows. All ranks get the same number of rows.

    If the longest sequence exceeds `row_tokens`, its length is the capacity of rows instead.
    """
    of_prompt: dict[tuple[int, ...], dict[tuple[int, ...], list[int]]] = {}
    for number, each in enumerate(sequences):
        of_prompt.setdefault(each.prompt_ids, {}).setdefault(each.token_ids, []).append(number)
    first_indices = [0, *accumulate(len(each.token_ids) for each in sequences)]
    prompts = [
        PackedPrompt(len(ids), tuple((tuple(numbers), max(len(each) - 1, 0)) for each, numbers in completions.items()))
        for ids, completions in of_prompt.items()
    ]
    for row in split_across_ranks(pack_prompts(prompts, row_tokens=row_tokens), ranks=ranks)[rank]:
        yield _build_row(row, sequences, first_indices, device)


def _build_row(
    parts: Sequence["PackedPrompt"],
    sequences: Sequence[TrainingSequence],
    first_indices: Sequence[int],
    device: torch.device | str,
) -> PackedRow:
    columns: tuple[list[int], ...] = tuple([] for _ in range(6))
    ids, position_ids, positions, targets, token_indices, unique_indices = columns
    lengths: list[tuple[int, ...]] = []
    for part in parts:
        ids += sequences[part.completions[0][0][0]].prompt_ids
        position_ids += range(part.prompt_tokens)
        end_of_prompt = len(ids) - 1
        for numbers, n_read in part.completions:
            token_ids = sequences[numbers[0]].token_ids
            for number in numbers:
                token_indices += range(first_indices[number], first_indices[number + 1])
                unique_indices += range(len(targets), len(targets) + len(token_ids))
            if token_ids:
                positions += (end_of_prompt, *range(len(ids), len(ids) + n_read))
            targets += token_ids
            position_ids += range(part.prompt_tokens, part.prompt_tokens + n_read)
            ids += token_ids[:n_read]
        completions = [n_read for _, n_read in part.completions if n_read]
        lengths.append((part.prompt_tokens, *completions) if len(completions) > 1 else (part.tokens,))
    if not ids:
        ids.append(0)
        position_ids.append(0)
        lengths.append((1,))
    ids_L, position_ids_L, *rest = (torch.tensor(each, dtype=torch.int64, device=device) for each in columns)
    return PackedRow(ids_L, position_ids_L, tuple(lengths), *rest)


def shard_row(row: PackedRow, *, ranks: int, rank: int) -> PackedRow:
    """Return a rank's tokens of a row, padded with a sequence without targets. `lengths` still has the whole row."""
    if ranks == 1:
        return row
    n_tokens = len(row.token_ids_L)
    own_tokens = -(-n_tokens // ranks)
    padding = own_tokens * ranks - n_tokens
    start = rank * own_tokens
    ids_L, position_ids_L = (
        F.pad(each, (0, padding))[start : start + own_tokens] for each in (row.token_ids_L, row.position_ids_L)
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


@dataclass(frozen=True, slots=True)
class PackedPrompt:
    """A prompt with its completions in the same row.

    prompt_tokens  number of tokens of the prompt
    completions    for each distinct completion, its indices in the minibatch and its number of input tokens
    """

    prompt_tokens: int
    completions: tuple[tuple[tuple[int, ...], int], ...]

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + sum(tokens for _, tokens in self.completions)

    @property
    def n_attention_keys(self) -> int:
        """The number of attention keys, with the prompt's keys repeated for each completion."""
        return sum(self.prompt_tokens + tokens for _, tokens in self.completions)

    @property
    def cost(self) -> float:
        """The cost in tokens. Attention adds the square of each length, divided by _SQUARE_TOKENS."""
        square = self.prompt_tokens * self.prompt_tokens
        squares = square + sum((self.prompt_tokens + tokens) ** 2 - square for _, tokens in self.completions)
        return self.tokens + squares / _SQUARE_TOKENS


def pack_prompts(prompts: Sequence[PackedPrompt], *, row_tokens: int) -> list[list[PackedPrompt]]:
    """Pack prompts with their completions into rows of at most `row_tokens`; return the prompts of each row.

    If the longest prompt with completion exceeds `row_tokens`, its length is the capacity. If a prompt's completions do
    not fit into one row, several rows repeat the prompt.
    """
    lengths = (each.prompt_tokens + tokens for each in prompts for _, tokens in each.completions)
    capacity = max(row_tokens, max(lengths, default=0))
    parts = []
    for each in prompts:
        sizes = [(tokens, each.prompt_tokens + tokens) for _, tokens in each.completions]
        for row in pack_first_fit_decreasing(sizes, (capacity - each.prompt_tokens, MAX_KEYS_PER_TOKEN * capacity)):
            parts.append(PackedPrompt(each.prompt_tokens, tuple(each.completions[index] for index in row)))
    sizes = [(part.tokens, part.n_attention_keys) for part in parts]
    rows = pack_first_fit_decreasing(sizes, (capacity, MAX_KEYS_PER_TOKEN * capacity))
    return [[parts[index] for index in row] for row in rows]


def pack_first_fit_decreasing(sizes: Sequence[tuple[int, int]], capacity: tuple[int, int]) -> list[list[int]]:
    """Pack items with two sizes each into bins, the largest items first. Return the item indices of each bin.

    In each bin, neither sum of sizes exceeds its capacity. With a single size, the number of bins is at most 11/9 of
    the optimum plus one. Raises ValueError for an item larger than a bin.
    """
    packed: list[list[int]] = []
    remaining: list[tuple[int, int]] = []
    for index in sorted(range(len(sizes)), key=lambda index: sizes[index], reverse=True):
        first, second = sizes[index]
        if first > capacity[0] or second > capacity[1]:
            raise ValueError(f"an item of size {sizes[index]} does not fit into a bin of {capacity}")
        fits = (bin for bin, left in enumerate(remaining) if left[0] >= first and left[1] >= second)
        if (fit := next(fits, len(packed))) == len(packed):
            packed.append([])
            remaining.append(capacity)
        packed[fit].append(index)
        remaining[fit] = remaining[fit][0] - first, remaining[fit][1] - second
    return [sorted(row) for row in packed]


def split_across_ranks(packed: Sequence[list[PackedPrompt]], *, ranks: int) -> list[list[list[PackedPrompt]]]:
    """Assign rows to ranks, the longest first, each to the least loaded rank. Return the rows of each rank.

    All ranks get the same number of rows, padded with empty rows, because they run in lockstep.
    """
    costs = [sum(part.cost for part in row) for row in packed]
    max_rows = -(-len(packed) // ranks)
    rows_of_rank: list[list[list[PackedPrompt]]] = [[] for _ in range(ranks)]
    loads = [(0.0, rank) for rank in range(ranks)]  # a heap
    for cost, row in sorted(zip(costs, packed, strict=True), key=itemgetter(0), reverse=True):
        done, rank = heappop(loads)
        rows_of_rank[rank].append(row)
        if len(rows_of_rank[rank]) < max_rows:
            heappush(loads, (done + cost, rank))
    return [own + [[]] * (max_rows - len(own)) for own in rows_of_rank]
