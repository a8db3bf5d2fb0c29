"""How far hidden states are from a commitment."""

from dataclasses import dataclass
from math import inf

import numpy as np

from train.sampling.verifiable.commitment import CHUNK_TOKENS, Commitment
from train.sampling.verifiable.finite_field import evaluate
from train.sampling.verifiable.top_k import Bfloat16Bits, top_k_indices

_EXPONENT_SHIFT, _EXPONENT, _MANTISSA = 7, 0xFF, 0x7F  # of bfloat16


@dataclass(frozen=True, slots=True)
class CommitmentDistance:
    """The comparison of one chunk, over the largest values of the verifier.

    exponent_mismatches  how many have another exponent in the commitment
    mantissa_mean        mean of |difference of mantissas| over the others; infinite if there are none
    mantissa_median      their upper median, likewise
    """

    exponent_mismatches: int
    mantissa_mean: float
    mantissa_median: float


def commitment_distances(
    commitments: tuple[Commitment, ...], hidden_TH: Bfloat16Bits
) -> tuple[CommitmentDistance, ...]:
    """Compare commitments with the verifier's hidden states in bfloat16. There is one commitment for each 32 tokens."""
    chunks = [hidden_TH[start : start + CHUNK_TOKENS].ravel() for start in range(0, len(hidden_TH), CHUNK_TOKENS)]
    return tuple(_compare(commitment, chunk) for commitment, chunk in zip(commitments, chunks, strict=True))


def _compare(commitment: Commitment, bits: Bfloat16Bits) -> CommitmentDistance:
    places = top_k_indices(bits, len(commitment.coefficients))
    coefficients = np.array(commitment.coefficients, dtype=np.int64)
    claimed = evaluate(coefficients[None], (places % commitment.modulus)[None])[0]
    own = bits[places].astype(np.int64)
    same = (claimed >> _EXPONENT_SHIFT) & _EXPONENT == (own >> _EXPONENT_SHIFT) & _EXPONENT
    errors = np.sort(np.abs((claimed & _MANTISSA) - (own & _MANTISSA))[same])
    if not len(errors):
        return CommitmentDistance(len(places), inf, inf)
    return CommitmentDistance(int((~same).sum()), float(errors.mean()), float(errors[len(errors) // 2]))
