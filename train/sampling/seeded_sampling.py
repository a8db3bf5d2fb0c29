"""Sampling with counter-based noise, reproducible for any token of any completion, on any machine.

The Gumbel-max trick turns an argmax into a sample from the distribution:

    token = argmax over v of logits[v] / temperature + gumbel(seed, position, v)

`position` is the number of earlier tokens in the completion. The noise depends on these integers alone, so a verifier
with the logits of a finished completion can check each token. Between libraries, the noise may differ in the last bits
of a float32, because of its two logarithms.

Letters in names are shapes: B completions, V vocabulary, T tokens of a completion, H hidden size.
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
    select_top_k_indices,
)

_WORD = 0xFFFFFFFF  # mask of a 32-bit word in a 64-bit integer
_STRIDE = 0x9E3779B9  # odd, so multiplication keeps token ids distinct
_LANES = 0x243F6A88, 0x85A308D3  # keys of two 32-bit lanes; with a single lane, noise would collide
_MAX_UNIFORM = 1 - 2**-24  # largest float32 below 1; at 1, the noise would be infinite


def sample_tokens(
    logits_BV: Tensor, temperature: float, seeds: Sequence[int], positions: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample a token for each row of logits.

    Return the tokens, their log-probabilities after temperature, and the noisy logits, whose argmax is the token. At
    temperature 0, there is no noise, and log-probabilities are the model's.
    """
    scaled_BV = logits_BV.float() / (temperature or 1.0)
    noisy_BV = scaled_BV
    if temperature:
        noisy_BV = scaled_BV + generate_gumbel_tensor(seeds, positions, logits_BV.shape[1], logits_BV.device)
    tokens_B = noisy_BV.argmax(1)
    logp_B = scaled_BV.gather(1, tokens_B[:, None])[:, 0] - scaled_BV.logsumexp(1)
    return tokens_B, logp_B, noisy_BV


def generate_gumbel_tensor(
    seeds: Sequence[int], positions: Sequence[int], vocabulary: int, device: torch.device | str = "cpu"
) -> Tensor:
    """Return the noise of B samples as a float32 tensor of shape (B, V). Seeds are from 0 to 2^64 - 1."""
    keys_BK = torch.tensor(_derive_keys(seeds, positions), dtype=torch.int64, device=device)
    hashed_BV = _hash(keys_BK, torch.arange(vocabulary, dtype=torch.int64, device=device))
    # Large noise, which decides the argmax, comes from small uniform values, where float32 is most precise.
    uniform_BV: Tensor = (2 * hashed_BV + 1).to(torch.float32).mul_(2**-33).clamp_(max=_MAX_UNIFORM)
    return uniform_BV.neg_().log1p_().neg_().log_().neg_()


def _derive_keys(seeds: Sequence[int], positions: Sequence[int]) -> list[tuple[int, ...]]:
    return [
        tuple(_mix(_mix(_mix(lane ^ (seed & _WORD)) ^ (seed >> 32)) ^ position) for lane in _LANES)
        for seed, position in zip(seeds, positions, strict=True)
    ]


def _hash(keys_BK: Any, tokens_V: Any) -> Any:
    """Return a 32-bit hash for each sample and token. Takes numpy arrays or torch tensors."""
    return _mix(((tokens_V * _STRIDE + keys_BK[:, :1]) & _WORD) ^ keys_BK[:, 1:])


def _mix(word: Any) -> Any:
    """Hash 32-bit words with C. Wellons's permutation "lowbias32"."""
    word = (word ^ (word >> 16)) * 0x7FEB352D & _WORD
    word = (word ^ (word >> 15)) * 0x846CA68B & _WORD
    return word ^ (word >> 16)


class CommitmentRecorder:
    """A recorder of one completion's commitments and log-probabilities during sampling.

    Of finished chunks, only the largest values are kept, on the CPU. After a chunked prefill or a repeated step, an
    engine records the same token again. The last record wins, unless its chunk is finished.
    """

    def __init__(self) -> None:
        self._top_values: list[TopValues] = []
        self._logprobs: list[float] = []  # log-probabilities in finished chunks
        self._chunk: dict[int, tuple[Tensor, Tensor]] = {}  # hidden state and log-probability by position

    def record(self, position: int, hidden_H: Tensor, logprob: Tensor) -> None:
        """Record the hidden state from which a token was sampled, and the token's log-probability."""
        if position < len(self._logprobs):
            return
        if position % CHUNK_TOKENS == 0 and position // CHUNK_TOKENS > len(self._top_values):
            self._close_chunk()
        self._chunk[position] = hidden_H, logprob

    def finish(self, n_tokens: int) -> tuple[bytes, tuple[float, ...]]:
        """Return the commitments to the first `n_tokens` tokens, and the log-probabilities of these tokens."""
        # Drop tokens sampled after the end of the completion.
        self._chunk = {position: value for position, value in self._chunk.items() if position < n_tokens}
        if self._chunk:
            self._close_chunk()
        return commit_top_values(self._top_values), tuple(self._logprobs)

    def _close_chunk(self) -> None:
        rows_TH, logprobs_T = zip(*(self._chunk[position] for position in sorted(self._chunk)), strict=True)
        self._top_values.append(_select_top_values(torch.stack(rows_TH)))
        self._logprobs += torch.stack(logprobs_T).tolist()
        self._chunk.clear()


def _select_top_values(rows_TH: Tensor) -> TopValues:
    """Select a chunk's K largest values on the tensor's device, and copy them to the CPU."""
    flat = rows_TH.to(torch.bfloat16).flatten().view(torch.int16)
    magnitudes = flat & MAGNITUDE
    if len(flat) > 4 * K:
        limit = magnitudes.topk(K, sorted=False).values.min()
        candidates = (magnitudes >= limit).nonzero()[:, 0]  # including all that tie with the limit, in order
    else:
        candidates = torch.arange(len(flat), device=flat.device)
    indices, bits = candidates.cpu().numpy(), flat[candidates].cpu().numpy().view(np.uint16)
    chosen = select_top_k_indices(bits, K)
    return TopValues(indices[chosen], bits[chosen])


def get_bfloat16_bits(hidden: Tensor) -> Bfloat16Bits:
    """Return the bits of numbers rounded to bfloat16, on the CPU."""
    bits = hidden.detach().to(torch.bfloat16).contiguous().view(torch.int16)
    return bits.cpu().numpy().view(np.uint16)
