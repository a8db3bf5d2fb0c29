"""Tokens drawn with counted noise, and what is noted of each so that others can check it (torch).

Letters in names are shapes: B answers, V tokens of the vocabulary, T tokens of an answer, H the width of the model.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from train.sampling.verifiable.commitment import CHUNK_TOKENS, K, TopValues, commit_top_values
from train.sampling.verifiable.noise import gumbel_tensor
from train.sampling.verifiable.top_k import Bfloat16Bits, top_k_indices

_MAGNITUDE = 0x7FFF  # of a number in bfloat16, without its sign


def sample_tokens(
    logits_BV: Tensor, temperature: float, seeds: Sequence[int], positions: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the token of each row, its log-probability after temperature, and the noisy values whose largest it is.

    At temperature 0 there is no noise, and log-probabilities are those of the model.
    """
    scaled_BV = logits_BV.float() / (temperature or 1.0)
    noisy_BV = scaled_BV
    if temperature:
        noisy_BV = scaled_BV + gumbel_tensor(seeds, positions, logits_BV.shape[1], logits_BV.device)
    tokens_B = noisy_BV.argmax(1)
    logp_B = scaled_BV.gather(1, tokens_B[:, None])[:, 0] - scaled_BV.logsumexp(1)
    return tokens_B, logp_B, noisy_BV


def bfloat16_bits(hidden: Tensor) -> Bfloat16Bits:
    """Return numbers as the bits of bfloat16, to which they are rounded, in the memory of the CPU."""
    found: Bfloat16Bits = (
        hidden.detach().to(torch.bfloat16).contiguous().view(torch.int16).cpu().numpy().view(np.uint16)
    )
    return found


class CommitmentRecorder:
    """What an engine notes of one answer while it draws it.

    Finished chunks keep only their largest values, and nothing of them stays on a GPU. A token may be noted twice, when
    an engine computes the end of a prompt in pieces, or draws a token again that was in flight: the last time counts,
    unless its chunk is finished. What is drawn again is the same token.
    """

    def __init__(self) -> None:
        self._kept: list[TopValues] = []
        self._rows_H: dict[int, Tensor] = {}  # by position: those of the chunk in progress
        self._logprobs: dict[int, Tensor] = {}  # likewise
        self._noted: list[float] = []  # log-probabilities in finished chunks

    def record(self, position: int, hidden_H: Tensor, logprob: Tensor) -> None:
        """Note the hidden state from which a token was drawn, and the token's log-probability."""
        if position < len(self._noted):
            return
        if position % CHUNK_TOKENS == 0 and position // CHUNK_TOKENS > len(self._kept):
            self._fold()
        self._rows_H[position], self._logprobs[position] = hidden_H, logprob

    def finish(self, n_tokens: int) -> tuple[bytes, tuple[float, ...]]:
        """Return the commitments to an answer of so many tokens, and the log-probabilities of the tokens."""
        for position in [position for position in self._rows_H if position >= n_tokens]:
            del self._rows_H[position], self._logprobs[position]  # drawn, but not part of the answer any more
        if self._rows_H:
            self._fold()
        sent = b"".join(commitment.to_bytes() for commitment in commit_top_values(self._kept))
        return sent, tuple(self._noted)

    def _fold(self) -> None:
        positions = sorted(self._rows_H)
        self._kept.append(_kept(torch.stack([self._rows_H[position] for position in positions]), K))
        self._noted += torch.stack([self._logprobs[position] for position in positions]).tolist()
        self._rows_H.clear()
        self._logprobs.clear()


def _kept(rows_TH: Tensor, k: int) -> TopValues:
    """Return the k largest values of a chunk, found where the tensor is, so that only they leave a GPU."""
    flat = rows_TH.to(torch.bfloat16).flatten().view(torch.int16)
    magnitudes = flat & _MAGNITUDE
    if len(flat) > 4 * k:
        limit = magnitudes.topk(k, sorted=False).values.min()
        candidates = (magnitudes >= limit).nonzero()[:, 0]  # all that are equal at the limit, in their order
    else:
        candidates = torch.arange(len(flat), device=flat.device)
    places, bits = candidates.cpu().numpy(), flat[candidates].cpu().numpy().view(np.uint16)
    chosen = top_k_indices(bits, k)
    return TopValues(places[chosen], bits[chosen])
