"""The answers to a lease: what is checked before anything is computed, and how a verifier reads them.

Answers are the `SampleResult`s that workers send to a controller (train/asynchronous/messages.py). A verifier gets
those to one lease as msgpack: one for each seed, in the order of their numbers. They do not repeat what the lease
fixes: prompt and seeds are the lease's, whatever the node has sampled.

What a node sends may be anything. Its size is bounded before a byte is decoded, the decoder builds nothing but the
declared types, and the numbers are compared with the lease.
"""

from collections.abc import Sequence

import msgspec

from train.asynchronous.leases import ResultConstraints, objection
from train.asynchronous.messages import Lease, LeaseVerdict, SampleResult, unpack_logprobs, unpack_tokens
from train.sampling.protocol import SampledCompletion
from train.swarm.messages import VerifiedCompletion
from train.swarm.settings import SwarmSettings

# Bytes of a file; of a completion: names of fields, and the last chunk of commitments, which may be for one token; of a
# token: 4 for its id, 4 for its log-probability, and its share of 258 bytes of commitments for 32 tokens.
_FIXED_BYTES, _COMPLETION_BYTES, _TOKEN_BYTES = 64 * 2**10, 512, 17
_COPIED_TOKENS = 64  # two completions may be equal so far by chance
_SOFT = {"version", "logprobs"}  # a node that took new weights too early is careless; a broken device does the other

_decoder = msgspec.msgpack.Decoder(tuple[SampleResult, ...])


def max_file_bytes(lease: Lease) -> int:
    """Return the largest size of the answers to this lease."""
    return _FIXED_BYTES + len(lease.seeds) * (_COMPLETION_BYTES + _TOKEN_BYTES * lease.sampling_params.max_tokens)


def encode_lease_file(results: Sequence[SampleResult]) -> bytes:
    """Return the file of the answers to a lease, in the order of their numbers. Equal results give equal bytes."""
    return msgspec.msgpack.encode(tuple(results))


def join_lease_file(encoded: Sequence[bytes]) -> bytes:
    """Return the file of answers that are encoded already."""
    return msgspec.msgpack.encode([msgspec.Raw(each) for each in encoded])


def read_lease_file(
    content: bytes, lease: Lease, settings: SwarmSettings
) -> tuple[SampledCompletion, ...] | LeaseVerdict:
    """Return the completions in a file that answers the lease, or the verdict on one that does not.

    The result is empty if the prompt leaves no room in the engine's context, and the node has refused it.
    """
    results = _decoded(content, lease)
    if isinstance(results, LeaseVerdict):
        return results
    if verdict := _objection(results, lease, settings):
        return verdict
    return tuple(
        SampledCompletion(
            "", "length" if result.finish_reason == "length" else "stop", len(result.tokens) // 4, lease.prompt,
            tuple(unpack_tokens(result.tokens)), tuple(unpack_logprobs(result.logprobs)),
            commitments=result.commitments,
        )
        for result in results
        if result.finish_reason != "refused"
    )  # fmt: skip


def check_lease_file(content: bytes, lease: Lease, settings: SwarmSettings) -> LeaseVerdict | None:
    """Return the verdict on a file that does not answer the lease, and None if a verifier has to say."""
    results = _decoded(content, lease)
    return results if isinstance(results, LeaseVerdict) else _objection(results, lease, settings)


def is_refusal(result: SampleResult) -> bool:
    """Return whether an answer says that the engine cannot take the prompt, and nothing else."""
    is_empty = not (result.tokens or result.logprobs or result.spans or result.commitments)
    return result.finish_reason == "refused" and is_empty


def _decoded(content: bytes, lease: Lease) -> tuple[SampleResult, ...] | LeaseVerdict:
    if len(content) > max_file_bytes(lease):
        return LeaseVerdict("hard", "size")
    try:
        return _decoder.decode(content)
    except (ValueError, OverflowError, RecursionError):  # msgspec's errors are ValueErrors
        return LeaseVerdict("hard", "file")


def _objection(results: Sequence[SampleResult], lease: Lease, settings: SwarmSettings) -> LeaseVerdict | None:
    expected = [(lease.group, number, lease.attempt) for number in range(len(lease.seeds))]
    if [(result.group, result.number, result.attempt) for result in results] != expected:
        return LeaseVerdict("hard", "file")
    budget = min(lease.sampling_params.max_tokens, settings.engine.context_tokens - len(lease.prompt))
    if budget <= 0:
        return None if all(map(is_refusal, results)) else LeaseVerdict("hard", "length")
    constraints = ResultConstraints(len(results), budget, lease.version, lease.version, settings.vocab_size)
    for result in results:
        if not result.tokens or result.finish_reason == "refused":
            return LeaseVerdict("hard", "length")
        if found := objection(result, constraints):
            return LeaseVerdict("soft" if found.reason in _SOFT else "hard", found.reason)
    # With seeds that are replayed, equal answers are what the model says: a model that knows an answer repeats it.
    long = [result.tokens for result in results if len(result.tokens) > 4 * _COPIED_TOKENS]
    return LeaseVerdict("soft", "copies") if not settings.check_seeds and len(set(long)) < len(long) else None


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
