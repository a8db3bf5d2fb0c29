"""Commitments to hidden states (TOPLOC), computed by an untrusted worker and compared by a verifier.

The K largest absolute values of each chunk of 32 tokens define a polynomial through the points (index, bits of the
value), modulo PRIME. On the wire, a chunk is the modulus of the indices and K coefficients, two big-endian bytes each.
A verifier evaluates the polynomial at the indices of its own largest values.

Letters in names are shapes: C chunks, K values of each, T tokens, H hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import inf

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
Bfloat16Bits = NDArray[np.uint16]  # bit patterns of bfloat16 numbers

CHUNK_TOKENS = 32  # number of tokens in a chunk; the last chunk of a completion may have fewer
K = 128  # number of committed values per chunk
PRIME = 65497  # as in TOPLOC; a coefficient fits into two bytes
_MIN_MODULUS = 2**15  # far below any modulus that `find_injective_modulus` returns in practice
# Bit masks of bfloat16. Without the sign, bits compare as integers like absolute values.
MAGNITUDE, _EXPONENT_SHIFT, _EXPONENT, _MANTISSA = 0x7FFF, 7, 0xFF, 0x7F


class MalformedCommitment(ValueError):
    """Invalid commitments, which no honest worker sends."""


@dataclass(frozen=True, slots=True)
class TopValues:
    """The largest values of a chunk: their indices in the chunk, and their bits."""

    indices: Int64Array
    bits: Bfloat16Bits


@dataclass(frozen=True, slots=True)
class CommitmentDistance:
    """The distance between a chunk's commitment and the verifier's largest values.

    exponent_mismatches  number of values whose exponents differ
    mantissa_mean        mean |difference of mantissas| of the values with equal exponents; infinite if there are none
    """

    exponent_mismatches: int
    mantissa_mean: float


def commit_top_values(chunks: Sequence[TopValues]) -> bytes:
    """Return the encoded commitments to the K largest values of each chunk."""
    content = b""
    # Chunks with fewer values than K have polynomials of lower degree.
    for n_values, together in groupby(chunks, lambda chunk: len(chunk.indices)):
        group = list(together)
        moduli_C1 = np.array([[find_injective_modulus(chunk.indices)] for chunk in group])
        x_CK = np.stack([chunk.indices for chunk in group]) % moduli_C1
        found_CK = interpolate(x_CK, np.stack([chunk.bits for chunk in group]).astype(np.int64))
        content += np.pad(np.hstack([moduli_C1, found_CK]), ((0, 0), (0, K - n_values))).astype(">u2").tobytes()
    return content


def decode_commitments(data: bytes, n_tokens: int) -> Int64Array:
    """Decode the commitments to a completion of `n_tokens`: one row per chunk, with the modulus and the coefficients.

    Raises MalformedCommitment for invalid bytes.
    """
    n_chunks = -(-n_tokens // CHUNK_TOKENS)
    n_bytes = n_chunks * 2 * (1 + K)
    if len(data) != n_bytes:
        raise MalformedCommitment(f"{n_tokens} tokens need {n_bytes} bytes of commitments, not {len(data)}")
    rows = np.frombuffer(data, dtype=">u2").astype(np.int64).reshape(n_chunks, 1 + K)
    if ((rows[:, 0] < _MIN_MODULUS) | (rows[:, 0] > PRIME)).any():
        raise MalformedCommitment(f"a modulus is not within {_MIN_MODULUS} to {PRIME}")
    if (rows[:, 1:] >= PRIME).any():
        raise MalformedCommitment(f"a coefficient is not below {PRIME}")
    return rows


def compute_commitment_distances(commitments: Int64Array, hidden_TH: Bfloat16Bits) -> tuple[CommitmentDistance, ...]:
    """Compare each 32-token chunk's commitment with the verifier's hidden states in bfloat16."""
    distances = []
    for commitment, start in zip(commitments, range(0, len(hidden_TH), CHUNK_TOKENS), strict=True):
        bits = hidden_TH[start : start + CHUNK_TOKENS].ravel()
        indices = select_top_k_indices(bits, K)
        claimed = evaluate_polynomials(commitment[None, 1:], (indices % commitment[0])[None])[0]
        own = bits[indices].astype(np.int64)
        same = (claimed >> _EXPONENT_SHIFT) & _EXPONENT == (own >> _EXPONENT_SHIFT) & _EXPONENT
        errors = np.abs((claimed & _MANTISSA) - (own & _MANTISSA))[same]
        distances.append(CommitmentDistance(int((~same).sum()), float(errors.mean()) if len(errors) else inf))
    return tuple(distances)


def select_top_k_indices(bits: Bfloat16Bits, k: int) -> Int64Array:
    """Return the indices of the k largest absolute values, or all indices if there are fewer.

    Of equal values, the lower index wins, so equal bits give equal indices.
    """
    magnitudes = bits & MAGNITUDE
    if len(magnitudes) <= k:
        return np.arange(len(magnitudes), dtype=np.int64)
    limit = np.partition(magnitudes, len(magnitudes) - k)[len(magnitudes) - k]
    above = np.flatnonzero(magnitudes > limit)
    equal = np.flatnonzero(magnitudes == limit)[: k - len(above)]
    return np.concatenate([above, equal]).astype(np.int64)


def find_injective_modulus(indices: Int64Array) -> int:
    """Return the largest modulus up to PRIME that keeps the indices distinct. They must be far fewer than PRIME."""
    modulus = PRIME
    while len(np.unique(indices % modulus)) < len(indices):
        modulus -= 1
    return modulus


def interpolate(x_CK: Int64Array, y_CK: Int64Array) -> Int64Array:
    """Return the coefficients of the polynomials of degree < K through the points, the constant term first.

    The values in each row of x_CK must be distinct. Newton's divided differences and Horner's scheme take O(K^2) per
    row.
    """
    n_points = x_CK.shape[1]
    divided_CK = y_CK % PRIME
    for order in range(1, n_points):
        rise = divided_CK[:, order:] - divided_CK[:, order - 1 : -1]
        run = x_CK[:, order:] - x_CK[:, :-order]
        divided_CK[:, order:] = rise % PRIME * _compute_inverses()[run % PRIME] % PRIME
    coefficients_CK = np.zeros_like(divided_CK)
    for index in reversed(range(n_points)):
        shifted_CK = np.zeros_like(coefficients_CK)
        shifted_CK[:, 1:] = coefficients_CK[:, :-1]
        coefficients_CK = (shifted_CK - x_CK[:, index : index + 1] * coefficients_CK) % PRIME
        coefficients_CK[:, 0] = (coefficients_CK[:, 0] + divided_CK[:, index]) % PRIME
    return coefficients_CK


def evaluate_polynomials(coefficients_CK: Int64Array, x_CJ: Int64Array) -> Int64Array:
    """Return the values of each polynomial at its J points."""
    values_CJ = np.zeros_like(x_CJ)
    for index in reversed(range(coefficients_CK.shape[1])):
        values_CJ = (values_CJ * x_CJ + coefficients_CK[:, index : index + 1]) % PRIME
    return values_CJ


@cache
def _compute_inverses() -> Int64Array:
    """Return a table of the inverses modulo PRIME, with 0 as the entry of 0."""
    return np.array([0, *(pow(number, -1, PRIME) for number in range(1, PRIME))], dtype=np.int64)
