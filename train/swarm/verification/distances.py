"""The recomputation of an answer by a verifier, and the distances of the answer from it.

Letters in names are shapes: T tokens, H the width of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train.sampling.commitment import CHUNK_TOKENS, Bfloat16Bits, Int64Array, commitment_distances

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recomputation:
    """One answer as the verifier sees it; a row for each token.

    hidden_TH  what entered the output layer, in bfloat16
    logprobs   of the tokens, after temperature
    margins    by how much the noisy logit of the token is below the largest one, in nats: 0 if the seed gives the token
    """

    hidden_TH: Bfloat16Bits
    logprobs: Float32Array
    margins: Float32Array

    @property
    def n_seed_matches(self) -> int:
        """Number of tokens that the seed gives again."""
        return int((self.margins <= 0).sum())

    @property
    def is_finite(self) -> bool:
        """Whether the verifier has computed numbers at all."""
        return bool(np.isfinite(self.logprobs).all() and np.isfinite(self.margins).all())


UNLIKELY_PROBABILITY = 0.01  # the probability below which a token counts as unlikely
_NOTHING_EQUAL = 128.0  # for the mean difference of mantissas if no exponent is equal: more than any mantissa


@dataclass(frozen=True, slots=True)
class Distances:
    """The distances of one answer, or of several answers together. Means are weighted by tokens.

    Commitments are compared in whole chunks of 32 tokens. The largest values of fewer tokens include small ones, which
    honest rounding changes as much as a cheat would.

    n_tokens                  of the answer
    n_committed               those in whole chunks
    exponent_mismatches       exponents that differ in a chunk, in the worst one
    exponent_mismatches_mean  their mean over the chunks
    mantissa_mean             mean difference of mantissas over the chunks
    token_mismatches          tokens that the seed does not give
    max_margin                by how much the noisy logit of a token is below the largest, in nats, at most
    margin_sum                the sum of that over all tokens
    margin_square_sum         the sum of its squares
    logprob_error             mean |difference of log-probabilities| between the node and the verifier
    end_probability           of the last token, at least
    unlikely_share            share of tokens with a probability below 0.01
    """

    n_tokens: int
    n_committed: int
    exponent_mismatches: float
    exponent_mismatches_mean: float
    mantissa_mean: float
    token_mismatches: int
    max_margin: float
    margin_sum: float
    margin_square_sum: float
    logprob_error: float
    end_probability: float
    unlikely_share: float


def measure_distances(commitments: Int64Array, logprobs: Sequence[float], recomputation: Recomputation) -> Distances:
    """Compare what a node sent of an answer with a verifier's view of it."""
    n_whole = len(recomputation.logprobs) // CHUNK_TOKENS
    chunks = commitment_distances(commitments, recomputation.hidden_TH)[:n_whole]
    own, margins = recomputation.logprobs.astype(np.float64), recomputation.margins.astype(np.float64)
    return Distances(
        n_tokens=len(own),
        n_committed=CHUNK_TOKENS * n_whole,
        exponent_mismatches=max((chunk.exponent_mismatches for chunk in chunks), default=0),
        exponent_mismatches_mean=_mean([chunk.exponent_mismatches for chunk in chunks], [1] * n_whole),
        mantissa_mean=_mean([min(chunk.mantissa_mean, _NOTHING_EQUAL) for chunk in chunks], [1] * n_whole),
        token_mismatches=len(own) - recomputation.n_seed_matches,
        max_margin=float(recomputation.margins.max()),
        margin_sum=float(margins.sum()),
        margin_square_sum=float((margins**2).sum()),
        logprob_error=float(np.abs(own - np.asarray(logprobs, dtype=np.float64)).mean()),
        end_probability=float(np.exp(own[-1])),
        unlikely_share=float((own < np.log(UNLIKELY_PROBABILITY)).mean()),
    )


def pool_distances(answers: Sequence[Distances]) -> Distances:
    """Return the distances of several answers together; there is at least one."""
    n_tokens, n_committed = [one.n_tokens for one in answers], [one.n_committed for one in answers]
    return Distances(
        n_tokens=sum(n_tokens),
        n_committed=sum(n_committed),
        exponent_mismatches=max(one.exponent_mismatches for one in answers),
        exponent_mismatches_mean=_mean([one.exponent_mismatches_mean for one in answers], n_committed),
        mantissa_mean=_mean([one.mantissa_mean for one in answers], n_committed),
        token_mismatches=sum(one.token_mismatches for one in answers),
        max_margin=max(one.max_margin for one in answers),
        margin_sum=sum(one.margin_sum for one in answers),
        margin_square_sum=sum(one.margin_square_sum for one in answers),
        logprob_error=_mean([one.logprob_error for one in answers], n_tokens),
        end_probability=min(one.end_probability for one in answers),
        unlikely_share=_mean([one.unlikely_share for one in answers], n_tokens),
    )


def _mean(values: Sequence[float], weights: Sequence[int]) -> float:
    return float(np.average(values, weights=weights)) if sum(weights) else 0.0
