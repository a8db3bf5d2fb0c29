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
class Part:
    """A prompt, and those of its answers that are in the same row.

    prompt   tokens of the prompt
    answers  for each answer, the tokens of it that are read, after its number in the minibatch; answers that are the
             same token by token are one answer with several numbers
    """

    prompt: int
    answers: tuple[tuple[tuple[int, ...], int], ...]

    @property
    def tokens(self) -> int:
        return self.prompt + sum(tokens for _, tokens in self.answers)

    @property
    def keys(self) -> int:
        """Return how many keys attention holds."""
        return sum(self.prompt + tokens for _, tokens in self.answers)

    @property
    def work(self) -> float:
        """Return the work of this part in that of a token; attention makes it grow with squared lengths."""
        square = self.prompt * self.prompt
        squares = square + sum((self.prompt + tokens) ** 2 - square for _, tokens in self.answers)
        return self.tokens + squares / _SQUARE_TOKENS


def rows(groups: Sequence[tuple[int, Sequence[tuple[tuple[int, ...], int]]]], *, row_tokens: int) -> list[list[Part]]:
    """Return the parts of each row.

    groups      for each prompt, its tokens and its answers
    row_tokens  the most tokens of a row; it grows to hold the longest prompt with its longest answer

    Answers that do not fit into a row with all others of their prompt are divided over several, and the prompt is
    repeated.
    """
    longest = max((prompt + tokens for prompt, answers in groups for _, tokens in answers), default=0)
    most = max(row_tokens, longest)
    parts = []
    for prompt, answers in groups:
        sizes = [(tokens, prompt + tokens) for _, tokens in answers]
        for row in first_fit(sizes, (most - prompt, KEYS_PER_TOKEN * most)):
            parts.append(Part(prompt, tuple(answers[place] for place in row)))
    sizes = [(part.tokens, part.keys) for part in parts]
    return [[parts[place] for place in row] for row in first_fit(sizes, (most, KEYS_PER_TOKEN * most))]


def first_fit(sizes: Sequence[tuple[int, int]], most: tuple[int, int]) -> list[list[int]]:
    """Return the places of the items, bin by bin; neither sum of a bin's sizes is above `most`.

    The largest are placed first: with one size, this needs at most 11/9 of the fewest bins possible, plus one. Raises
    ValueError for an item that is larger than a bin.
    """
    packed: list[list[int]] = []
    room: list[tuple[int, int]] = []
    for place in sorted(range(len(sizes)), key=lambda place: sizes[place], reverse=True):
        first, second = sizes[place]
        if first > most[0] or second > most[1]:
            raise ValueError(f"an item of {sizes[place]} does not fit into a bin of {most}")
        fit = next((bin for bin, left in enumerate(room) if left[0] >= first and left[1] >= second), None)
        if fit is None:
            packed.append([])
            room.append(most)
            fit = len(packed) - 1
        packed[fit].append(place)
        room[fit] = room[fit][0] - first, room[fit][1] - second
    return [sorted(row) for row in packed]


def shares(packed: Sequence[list[Part]], *, ranks: int) -> list[list[list[Part]]]:
    """Return the rows of each rank. All ranks get equally many, since they compute in step; empty rows fill the gaps.

    To balance the work, the longest rows are assigned first, each to the rank with the least work so far.
    """
    works = [sum(part.work for part in row) for row in packed]
    most_rows = -(-len(packed) // ranks)
    divided: list[list[list[Part]]] = [[] for _ in range(ranks)]
    least = [(0.0, rank) for rank in range(ranks)]
    heapify(least)
    for work, row in sorted(zip(works, packed, strict=True), key=itemgetter(0), reverse=True):
        done, rank = heappop(least)
        divided[rank].append(row)
        if len(divided[rank]) < most_rows:
            heappush(least, (done + work, rank))
    return [own + [[]] * (most_rows - len(own)) for own in divided]
