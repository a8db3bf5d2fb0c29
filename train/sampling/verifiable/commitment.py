"""Commitments: made from hidden states, written as bytes, and read from bytes that nobody trusts.

Of each chunk of 32 tokens, the K largest absolute values are kept as a polynomial through (place, bits of the value).
On the wire, a chunk is the modulus of the places and K coefficients, each two bytes, the high one first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from train.sampling.verifiable.finite_field import PRIME, Int64Array, interpolate
from train.sampling.verifiable.top_k import Bfloat16Bits, injective_modulus, top_k_indices

CHUNK_TOKENS = 32  # of a chunk; the last chunk of an answer may have fewer
K = 128  # values of a chunk that are kept
_MIN_MODULUS = 2**15  # honest commitments are far above: places collide under few moduli
COMMITMENT_BYTES = 2 * (1 + K)


class MalformedCommitment(ValueError):
    """Bytes that no honest worker sends as commitments."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """The commitment to one chunk.

    modulus       the places of the kept values count modulo this
    coefficients  of the polynomial through (place, bits of the value), the constant term first
    """

    modulus: int
    coefficients: tuple[int, ...]

    def to_bytes(self) -> bytes:
        """Return the wire form."""
        return np.array([self.modulus, *self.coefficients], dtype=">u2").tobytes()


@dataclass(frozen=True, slots=True)
class TopValues:
    """The largest values of a chunk: their places in it, and the bits of each."""

    indices: Int64Array
    bits: Bfloat16Bits


def commit(hidden_TH: Bfloat16Bits, *, k: int = K) -> tuple[Commitment, ...]:
    """Return the commitments to the hidden states of T tokens, in bfloat16, one for each 32 tokens."""
    chunks = [hidden_TH[start : start + CHUNK_TOKENS].ravel() for start in range(0, len(hidden_TH), CHUNK_TOKENS)]
    return commit_top_values(
        [TopValues(places, bits[places]) for bits in chunks for places in [top_k_indices(bits, k)]], k=k
    )


def commit_top_values(chunks: Sequence[TopValues], *, k: int = K) -> tuple[Commitment, ...]:
    """Return the commitments to the k largest values of each chunk."""
    moduli = [injective_modulus(chunk.indices) for chunk in chunks]
    made: list[Commitment] = []
    # Chunks with fewer values than k have polynomials of a lower degree.
    for n_values, together in groupby(zip(moduli, chunks, strict=True), lambda pair: len(pair[1].indices)):
        pairs = list(together)
        x_CK = np.stack([chunk.indices % modulus for modulus, chunk in pairs])
        found_CK = interpolate(x_CK, np.stack([chunk.bits for _, chunk in pairs]).astype(np.int64))
        padded_CK = np.pad(found_CK, ((0, 0), (0, k - n_values)))
        made += [Commitment(modulus, tuple(row)) for (modulus, _), row in zip(pairs, padded_CK.tolist(), strict=True)]
    return tuple(made)


def decode_commitments(data: bytes, n_tokens: int, *, k: int = K) -> tuple[Commitment, ...]:
    """Return the commitments to an answer of n tokens. Raises MalformedCommitment, and nothing else, whatever the bytes
    are."""
    n_chunks = -(-n_tokens // CHUNK_TOKENS)
    wanted = n_chunks * 2 * (1 + k)
    if len(data) != wanted:
        raise MalformedCommitment(f"{n_tokens} tokens need {wanted} bytes of commitments, not {len(data)}")
    numbers = np.frombuffer(data, dtype=">u2").astype(np.int64).reshape(n_chunks, 1 + k)
    _check(numbers)
    return tuple(Commitment(int(row[0]), tuple(map(int, row[1:]))) for row in numbers)


def _check(numbers: Int64Array) -> None:
    moduli, coefficients = numbers[:, 0], numbers[:, 1:]
    if ((moduli < _MIN_MODULUS) | (moduli > PRIME)).any():
        raise MalformedCommitment(f"a modulus is not within {_MIN_MODULUS} to {PRIME}")
    if (coefficients >= PRIME).any():
        raise MalformedCommitment(f"a coefficient is not below {PRIME}")
