"""Answers of a verifier, as the trainer gets them."""

from collections.abc import Sequence

from train.asynchronous.messages import Lease, SampleResult
from train.swarm.messages import VerifiedCompletion


def to_sample_results(lease: Lease, verified: Sequence[VerifiedCompletion]) -> tuple[SampleResult, ...]:
    """Return the answers to a lease, all drawn with its version. Raises ValueError if they do not belong to it."""
    if len(verified) != len(lease.seeds):
        raise ValueError(f"{len(verified)} answers, and {len(lease.seeds)} were asked")
    return tuple(_answer(lease, number, answer) for number, answer in enumerate(verified))


def _answer(lease: Lease, number: int, answer: VerifiedCompletion) -> SampleResult:
    n_tokens, rest = divmod(len(answer.tokens), 4)
    if rest or n_tokens > lease.sampling_params.max_tokens or len(answer.logprobs) != len(answer.tokens):
        raise ValueError(
            f"answer {number} has {len(answer.tokens)} bytes of tokens, {len(answer.logprobs)} of logprobs"
        )
    return SampleResult(
        group=lease.group,
        number=number,
        attempt=lease.attempt,
        tokens=answer.tokens,
        logprobs=answer.logprobs if lease.sampling_params.logprobs else b"",
        spans=((lease.version, 0, n_tokens),) if n_tokens else (),
        finish_reason=answer.finish_reason,
    )
