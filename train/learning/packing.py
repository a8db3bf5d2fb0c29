"""Pack completions of all lengths into few rows without padding.

A row is one forward pass over prompts and their answers, one after another. A prompt is in a row once, before all of
its answers in that row, so that it is computed once for all of them. Attention of a token goes to its prompt and to its
own answer (model/attention.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import itemgetter

# At this length attention costs as much as everything else: of the order of 6 times the width for a dense model.
_SQUARE_TOKENS = 12_000
# Attention holds a prompt's keys and values once for each answer: at most so many for each token that fits into a row.
KEYS_PER_TOKEN = 2


@dataclass(frozen=True, slots=True)
class PackedPrompt:
    """A prompt, and those of its answers that are in the same row.

    prompt_tokens  tokens of the prompt
    completions    for each answer, the tokens of it that are read, after its number in the minibatch; answers that are
                   the
                   same token by token are one answer with several numbers
    """

    prompt_tokens: int
    completions: tuple[tuple[tuple[int, ...], int], ...]

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + sum(tokens for _, tokens in self.completions)

    @property
    def n_attention_keys(self) -> int:
        """Return how many keys attention holds."""
        return sum(self.prompt_tokens + tokens for _, tokens in self.completions)

    @property
    def cost(self) -> float:
        """Return the work of this part in that of a token; attention makes it grow with squared lengths."""
        square = self.prompt_tokens * self.prompt_tokens
        squares = square + sum((self.prompt_tokens + tokens) ** 2 - square for _, tokens in self.completions)
        return self.tokens + squares / _SQUARE_TOKENS


def pack(
    groups: Sequence[tuple[int, Sequence[tuple[tuple[int, ...], int]]]], *, row_tokens: int
) -> list[list[PackedPrompt]]:
    """Return the parts of each row.

    groups      for each prompt, its tokens and its answers
    row_tokens  the most tokens of a row; it grows to hold the longest prompt with its longest answer

    Answers that do not fit into a row with all others of their prompt are divided over several, and the prompt is
    repeated.
    """
    max_length = max((prompt + tokens for prompt, completions in groups for _, tokens in completions), default=0)
    capacity = max(row_tokens, max_length)
    parts = []
    for prompt, completions in groups:
        sizes = [(tokens, prompt + tokens) for _, tokens in completions]
        for row in first_fit_decreasing(sizes, (capacity - prompt, KEYS_PER_TOKEN * capacity)):
            parts.append(PackedPrompt(prompt, tuple(completions[index] for index in row)))
    sizes = [(part.tokens, part.n_attention_keys) for part in parts]
    return [
        [parts[index] for index in row] for row in first_fit_decreasing(sizes, (capacity, KEYS_PER_TOKEN * capacity))
    ]


def first_fit_decreasing(sizes: Sequence[tuple[int, int]], capacity: tuple[int, int]) -> list[list[int]]:
    """Return the indices of the items, bin by bin; neither sum of a bin's sizes is above `capacity`.

    The largest are placed first: with one size, this needs at most 11/9 of the fewest bins possible, plus one. Raises
    ValueError for an item that is larger than a bin.
    """
    packed: list[list[int]] = []
    remaining: list[tuple[int, int]] = []
    for index in sorted(range(len(sizes)), key=lambda index: sizes[index], reverse=True):
        first, second = sizes[index]
        if first > capacity[0] or second > capacity[1]:
            raise ValueError(f"an item of {sizes[index]} does not fit into a bin of {capacity}")
        fit = next((bin for bin, left in enumerate(remaining) if left[0] >= first and left[1] >= second), None)
        if fit is None:
            packed.append([])
            remaining.append(capacity)
            fit = len(packed) - 1
        packed[fit].append(index)
        remaining[fit] = remaining[fit][0] - first, remaining[fit][1] - second
    return [sorted(row) for row in packed]


def split_across_ranks(packed: Sequence[list[PackedPrompt]], *, ranks: int) -> list[list[list[PackedPrompt]]]:
    """Return the rows of each rank. All ranks get equally many, since they compute in step; empty rows fill the gaps.

    To balance the work, the longest rows are assigned first, each to the rank with the least work so far.
    """
    costs = [sum(part.cost for part in row) for row in packed]
    max_rows = -(-len(packed) // ranks)
    rows_of_rank: list[list[list[PackedPrompt]]] = [[] for _ in range(ranks)]
    loads = [(0.0, rank) for rank in range(ranks)]
    heapify(loads)
    for cost, row in sorted(zip(costs, packed, strict=True), key=itemgetter(0), reverse=True):
        done, rank = heappop(loads)
        rows_of_rank[rank].append(row)
        if len(rows_of_rank[rank]) < max_rows:
            heappush(loads, (done + cost, rank))
    return [own + [[]] * (max_rows - len(own)) for own in rows_of_rank]
