"""What a verifier computes of an answer. Letters in names are shapes: T tokens, H the width of the model."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train.sampling.commitment import Bfloat16Bits

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
