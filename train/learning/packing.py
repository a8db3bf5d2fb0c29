"""Pack completions of all lengths into few rows without padding.

A row is one forward pass over sequences one after another. Positions start again at 0 with each sequence, which is what
keeps attention within it.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

# At this length attention costs as much as everything else: of the order of 6 times the width for a dense model.
_SQUARE_TOKENS = 12_000


def rows(lengths: Sequence[int], *, most_tokens: int) -> list[list[int]]:
    """Return the indices of the sequences, row by row; each row holds at most `most_tokens` tokens.

    First-fit decreasing needs at most 11/9 of the fewest rows possible, plus one. Raises ValueError for a sequence
    that is longer than a row.
    """
    packed: list[list[int]] = []
    room: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        length = lengths[place]
        if length > most_tokens:
            raise ValueError(f"a sequence of {length} tokens does not fit into a row of {most_tokens}")
        fit = next((row for row, left in enumerate(room) if left >= length), None)
        if fit is None:
            packed.append([])
            room.append(most_tokens)
            fit = len(packed) - 1
        packed[fit].append(place)
        room[fit] -= length
    return [sorted(row) for row in packed]


def shares(packed: Sequence[Sequence[int]], lengths: Sequence[int], *, ranks: int) -> list[list[list[int]]]:
    """Return the rows of each rank. All ranks get equally many, since they compute in step; empty rows fill the gaps.

    To balance the work, the longest rows are assigned first, each to the rank with the least work so far. Attention
    makes work grow with squared lengths.
    """
    work = [
        sum(length + length * length / _SQUARE_TOKENS for length in map(lengths.__getitem__, row)) for row in packed
    ]
    most_rows = -(-len(packed) // ranks)
    parts: list[list[list[int]]] = [[] for _ in range(ranks)]
    least = [(0.0, rank) for rank in range(ranks)]
    heapify(least)
    for number in sorted(range(len(packed)), key=lambda number: -work[number]):
        done, rank = heappop(least)
        parts[rank].append(list(packed[number]))
        if len(parts[rank]) < most_rows:
            heappush(least, (done + work[number], rank))
    return [part + [[]] * (most_rows - len(part)) for part in parts]
