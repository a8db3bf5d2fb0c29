"""What the learner sees of completions, and how they are packed into rows.

The completion tokens of a minibatch, one completion after another, are its T "places". Values that belong to a token
are stored at its place, whichever row computes them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from train.learning.packing import rows, shares


@dataclass(frozen=True, slots=True)
class TrainingSequence:
    """A prompt and one completion of it.

    sampler_logprobs  one for each of token_ids, after temperature; nan or infinite where the sampler gave none
    advantages        one for each of token_ids
    reward            nan if there was no signal
    """

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    sampler_logprobs: tuple[float, ...]
    advantages: tuple[float, ...]
    truncated: bool
    reward: float

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise ValueError("a completion needs a prompt of at least one token")
        if not len(self.token_ids) == len(self.sampler_logprobs) == len(self.advantages):
            raise ValueError(
                f"{len(self.token_ids)} tokens, {len(self.sampler_logprobs)} log-probabilities and "
                f"{len(self.advantages)} advantages: there must be as many of each"
            )


@dataclass(frozen=True, slots=True)
class Row:
    """The input of one forward pass: sequences one after another, L tokens in all, with R completion tokens to predict.

    The last token of each sequence is left out, since nothing is predicted from it. An empty row has one token and
    predicts nothing.

    lengths      tokens of each sequence
    positions_R  the position in the row from which each completion token is predicted
    targets_R    the completion tokens themselves
    places_R     their places in the minibatch
    """

    token_ids_L: Tensor
    position_ids_L: Tensor
    lengths: tuple[int, ...]
    positions_R: Tensor
    targets_R: Tensor
    places_R: Tensor


def in_rows(
    sequences: Sequence[TrainingSequence], *, row_tokens: int, ranks: int = 1, rank: int = 0, device: str = "cpu"
) -> Iterator[Row]:
    """Yield this rank's share of the rows; all ranks get equally many.

    If a sequence is longer than row_tokens, rows become as long as that sequence, so that a batch that took an hour to
    sample is not thrown away.
    """
    lengths = [len(each.prompt_ids) + len(each.token_ids) - 1 for each in sequences]
    first_place = [0]
    for each in sequences:
        first_place.append(first_place[-1] + len(each.token_ids))
    packed = rows(lengths, most_tokens=max([row_tokens, *lengths]))
    for row in shares(packed, lengths, ranks=ranks)[rank]:
        yield _row([sequences[number] for number in row], [first_place[number] for number in row], device)


def _row(sequences: Sequence[TrainingSequence], first_places: Sequence[int], device: str) -> Row:
    ids: list[int] = []
    position_ids: list[int] = []
    positions: list[int] = []
    places: list[int] = []
    targets: list[int] = []
    lengths: list[int] = []
    for each, first_place in zip(sequences, first_places, strict=True):
        n_tokens = len(each.token_ids)
        read = (*each.prompt_ids, *each.token_ids)[:-1]
        start = len(ids) + len(each.prompt_ids) - 1
        positions += range(start, start + n_tokens)
        places += range(first_place, first_place + n_tokens)
        targets += each.token_ids
        position_ids += range(len(read))
        lengths.append(len(read))
        ids += read
    if not ids:
        ids, position_ids, lengths = [0], [0], [1]
    token_ids_L, position_ids_L, positions_R, targets_R, places_R = (
        torch.tensor(each, dtype=torch.int64, device=device) for each in (ids, position_ids, positions, targets, places)
    )
    return Row(token_ids_L, position_ids_L, tuple(lengths), positions_R, targets_R, places_R)
