"""The largest values of a chunk of hidden states, in the order of their absolute values."""

import numpy as np
from numpy.typing import NDArray

from train.sampling.verifiable.finite_field import PRIME, Int64Array

Bfloat16Bits = NDArray[np.uint16]  # numbers in bfloat16, as their bits
_MAGNITUDE = 0x7FFF  # the bits without the sign; as integers they are ordered as the absolute values are


def top_k_indices(bits: Bfloat16Bits, k: int) -> Int64Array:
    """Return the places of the k largest absolute values, or all places if there are fewer.

    Of equal values at the limit, those that stand first are taken, so that the same bits give the same places.
    """
    magnitudes = bits & _MAGNITUDE
    if len(magnitudes) <= k:
        return np.arange(len(magnitudes), dtype=np.int64)
    limit = np.partition(magnitudes, len(magnitudes) - k)[len(magnitudes) - k]
    above = np.flatnonzero(magnitudes > limit)
    equal = np.flatnonzero(magnitudes == limit)[: k - len(above)]
    return np.concatenate([above, equal]).astype(np.int64)


def injective_modulus(indices: Int64Array) -> int:
    """Return the largest modulus up to PRIME under which no two places are equal.

    There is one above any number of places, because they are far fewer than PRIME.
    """
    modulus = PRIME
    while len(np.unique(indices % modulus)) < len(indices):
        modulus -= 1
    return modulus
