"""Tokens drawn with counter-based noise, reproducible for any token of any completion, on any machine.

With Gumbel noise, the most likely token of a distribution becomes a draw from it:

    token = argmax over v of logits[v] / temperature + gumbel(seed, position, v)

where `position` is the number of tokens of the answer before this one. The noise is a function of integers alone. It
does not depend on the engine, the device, or what else is drawn at the same time, so a verifier that has the logits of
a finished answer can tell for each of its tokens whether the seed of the sample gives it.

The integers are exact everywhere; the two logarithms may differ in the last bit of a float32 between libraries.
`CommitmentRecorder` notes of each token what others need to check it.

Letters in names are shapes: B answers, V tokens of the vocabulary, T tokens of an answer, H the width of the model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from train.sampling.commitment import (
    CHUNK_TOKENS,
    MAGNITUDE,
    Bfloat16Bits,
    K,
    TopValues,
    commit_top_values,
    top_k_indices,
)

_WORD = 0xFFFFFFFF  # of 32 bits; they are held in 64, whose products keep their low half when they overflow
_STRIDE = 0x9E3779B9  # odd, so that tokens stay apart
_LANES = 0x243F6A88, 0x85A308D3  # two keys of 32 bits for each draw: with one alone, draws would soon share their noise
_MAX_UNIFORM = 1 - 2**-24  # the largest float32 below 1: at 1 itself, a token could never be drawn


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


def gumbel_tensor(
    seeds: Sequence[int], positions: Sequence[int], vocabulary: int, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the noise of B draws, as (B, V) in float32. Seeds are 0 to 2^64 - 1."""
    keys_BK = torch.tensor(_keys(seeds, positions), dtype=torch.int64, device=device)
    hashed_BV = _hashed(keys_BK, torch.arange(vocabulary, dtype=torch.int64, device=device))
    # Small uniform values give large noise, and they are the most precise ones.
    uniform_BV: Tensor = (2 * hashed_BV + 1).to(torch.float32).mul_(2**-33).clamp_(max=_MAX_UNIFORM)
    return uniform_BV.neg_().log1p_().neg_().log_().neg_()


def _keys(seeds: Sequence[int], positions: Sequence[int]) -> list[tuple[int, ...]]:
    return [
        tuple(_mixed(_mixed(_mixed(lane ^ (seed & _WORD)) ^ (seed >> 32)) ^ position) for lane in _LANES)
        for seed, position in zip(seeds, positions, strict=True)
    ]


def _hashed(keys_BK: Any, tokens_V: Any) -> Any:
    """Return a number of 32 bits for each draw and token; arrays of numpy and tensors of torch have the same result."""
    return _mixed(((tokens_V * _STRIDE + keys_BK[:, :1]) & _WORD) ^ keys_BK[:, 1:])


def _mixed(word: Any) -> Any:
    """Return a permutation of the 32-bit words: "lowbias32" of C. Wellons."""
    word = (word ^ (word >> 16)) * 0x7FEB352D & _WORD
    word = (word ^ (word >> 15)) * 0x846CA68B & _WORD
    return word ^ (word >> 16)


class CommitmentRecorder:
    """What an engine notes of one answer while it draws it.

    Finished chunks keep only their largest values, and nothing of them stays on a GPU. A token may be noted twice, when
    an engine computes the end of a prompt in pieces, or draws a token again that was in flight: the last time counts,
    unless its chunk is finished. What is drawn again is the same token.
    """

    def __init__(self) -> None:
        self._kept: list[TopValues] = []
        self._logprobs: list[float] = []  # log-probabilities in finished chunks
        self._chunk: dict[int, tuple[Tensor, Tensor]] = {}  # the chunk in progress, by position

    def record(self, position: int, hidden_H: Tensor, logprob: Tensor) -> None:
        """Note the hidden state from which a token was drawn, and the token's log-probability."""
        if position < len(self._logprobs):
            return
        if position % CHUNK_TOKENS == 0 and position // CHUNK_TOKENS > len(self._kept):
            self._fold()
        self._chunk[position] = hidden_H, logprob

    def finish(self, n_tokens: int) -> tuple[bytes, tuple[float, ...]]:
        """Return the commitments to an answer of so many tokens, and the log-probabilities of the tokens."""
        # Left out is what was drawn, but is not part of the answer any more.
        self._chunk = {position: drawn for position, drawn in self._chunk.items() if position < n_tokens}
        if self._chunk:
            self._fold()
        return commit_top_values(self._kept), tuple(self._logprobs)

    def _fold(self) -> None:
        rows_TH, logprobs_T = zip(*(self._chunk[position] for position in sorted(self._chunk)), strict=True)
        self._kept.append(_top_values(torch.stack(rows_TH)))
        self._logprobs += torch.stack(logprobs_T).tolist()
        self._chunk.clear()


def _top_values(rows_TH: Tensor) -> TopValues:
    """Return the K largest values of a chunk, found where the tensor is, so that only they leave a GPU."""
    flat = rows_TH.to(torch.bfloat16).flatten().view(torch.int16)
    magnitudes = flat & MAGNITUDE
    if len(flat) > 4 * K:
        limit = magnitudes.topk(K, sorted=False).values.min()
        candidates = (magnitudes >= limit).nonzero()[:, 0]  # all that are equal at the limit, in their order
    else:
        candidates = torch.arange(len(flat), device=flat.device)
    indices, bits = candidates.cpu().numpy(), flat[candidates].cpu().numpy().view(np.uint16)
    chosen = top_k_indices(bits, K)
    return TopValues(indices[chosen], bits[chosen])


def bfloat16_bits(hidden: Tensor) -> Bfloat16Bits:
    """Return numbers as the bits of bfloat16, to which they are rounded, in the memory of the CPU."""
    bits = hidden.detach().to(torch.bfloat16).contiguous().view(torch.int16)
    return bits.cpu().numpy().view(np.uint16)
