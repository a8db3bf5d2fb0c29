"""The answers to one lease, as a rollout file holds them."""

from dataclasses import dataclass
from typing import Literal, get_args

FinishReason = Literal["stop", "length", "refused"]
FINISH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)  # a file has the place in this list


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """One answer.

    version        of the weights that drew all of its tokens
    logprobs       one for each token, as the node computed them
    finish_reason  "refused" if the engine could not take the prompt; then there are no tokens
    commitments    see train/sampling/commitment.py
    """

    sample_index: int
    version: int
    seed: int
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: FinishReason
    commitments: bytes


@dataclass(frozen=True, slots=True)
class RolloutFile:
    """All answers to a lease, in the order of their numbers.

    node    public key of the node, as the file names it
    lease   id of the lease
    engine  "vllm" or "transformers" and its version, as the file names it
    """

    rows: tuple[RolloutRow, ...]
    node: bytes
    lease: bytes
    engine: str

    @property
    def is_refused(self) -> bool:
        """Whether the engine could not take the prompt."""
        return self.rows[0].finish_reason == "refused"
