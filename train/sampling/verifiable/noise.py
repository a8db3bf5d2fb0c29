"""Counter-based noise: reproducible for any token of any completion, on any machine.

With Gumbel noise, the most likely token of a distribution becomes a draw from it:

    token = argmax over v of logits[v] / temperature + gumbel(seed, position, v)

where `position` is the number of tokens of the answer before this one. The noise is a function of integers alone. It
does not depend on the engine, the device, or what else is drawn at the same time, so a verifier that has the logits of
a finished answer can tell for each of its tokens whether the seed of the sample gives it.

The integers are exact everywhere; the two logarithms may differ in the last bit of a float32 between libraries.
Letters in names are shapes: B answers, V tokens of the vocabulary.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor, device

_WORD = 0xFFFFFFFF  # of 32 bits; they are held in 64, whose products keep their low half when they overflow
_STRIDE = 0x9E3779B9  # odd, so that tokens stay apart
_LANES = 0x243F6A88, 0x85A308D3  # two keys of 32 bits for each draw: with one alone, draws would soon share their noise
_MOST = 1 - 2**-24  # the largest float32 below 1: at 1 itself, a token could never be drawn


def gumbel(seeds: Sequence[int], positions: Sequence[int], vocabulary: int) -> NDArray[np.float32]:
    """Return the noise of B draws, as (B, V). Seeds are 0 to 2^64 - 1."""
    keys_BK = np.array(_keys(seeds, positions), dtype=np.int64)
    hashed_BV = _hashed(keys_BK, np.arange(vocabulary, dtype=np.int64))
    uniform_BV = np.minimum((2 * hashed_BV + 1).astype(np.float32) * np.float32(2**-33), np.float32(_MOST))
    # Small uniform values give large noise, and they are the most precise ones.
    noise_BV: NDArray[np.float32] = -np.log(-np.log1p(-uniform_BV))
    return noise_BV


def gumbel_tensor(
    seeds: Sequence[int], positions: Sequence[int], vocabulary: int, device: "device | str" = "cpu"
) -> "Tensor":
    """Return what `gumbel` does, computed by torch on a device."""
    import torch

    keys_BK = torch.tensor(_keys(seeds, positions), dtype=torch.int64, device=device)
    hashed_BV = _hashed(keys_BK, torch.arange(vocabulary, dtype=torch.int64, device=device))
    uniform_BV = (2 * hashed_BV + 1).to(torch.float32).mul_(2**-33).clamp_(max=_MOST)
    noise_BV: Tensor = uniform_BV.neg_().log1p_().neg_().log_().neg_()
    return noise_BV


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
