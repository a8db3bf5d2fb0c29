"""The file of a lease: its completions, as a node uploads them and a verifier reads them.

A file is msgpack: the `SampleResult`s that workers send to a controller (train/asynchronous/messages.py), one for each
seed of the lease, in the order of their numbers. It does not repeat what the lease fixes: prompt and seeds are the
lease's, whatever the node has sampled.

What a verifier gets may be anything. Its size is bounded before a byte is decoded, the decoder builds nothing but the
declared types, and the numbers are compared with the lease before anything is computed.
"""

from collections.abc import Sequence
from math import isfinite

import msgspec

from train.asynchronous.messages import Lease, SampleResult, unpack_logprobs, unpack_tokens
from train.sampling.protocol import SampledCompletion
from train.swarm.messages import VerifiedCompletion
from train.swarm.settings import SwarmSettings
from train.swarm.verdict import LeaseVerdict

# Bytes of a file; of a completion: names of fields, and the last chunk of commitments, which may be for one token; of a
# token: 4 for its id, 4 for its log-probability, and its share of 258 bytes of commitments for 32 tokens.
_FIXED_BYTES, _COMPLETION_BYTES, _TOKEN_BYTES = 64 * 2**10, 512, 17
_MAX_LOGPROB = 1e-3  # engines round
_COPIED_TOKENS = 64  # two completions may be equal so far by chance

_decoder = msgspec.msgpack.Decoder(tuple[SampleResult, ...])


def max_file_bytes(lease: Lease) -> int:
    """Return the largest size of a file that answers this lease."""
    return _FIXED_BYTES + len(lease.seeds) * (_COMPLETION_BYTES + _TOKEN_BYTES * lease.sampling_params.max_tokens)


def encode_lease_file(results: Sequence[SampleResult]) -> bytes:
    """Return the file of the completions of a lease, in the order of their numbers. Equal results give equal bytes."""
    return msgspec.msgpack.encode(tuple(results))


def read_lease_file(
    content: bytes, lease: Lease, settings: SwarmSettings
) -> tuple[SampledCompletion, ...] | LeaseVerdict:
    """Return the completions of a file that answers the lease, or the verdict on one that does not.

    The result is empty if the prompt leaves no room in the engine's context, and the node has refused it.
    """
    if len(content) > max_file_bytes(lease):
        return LeaseVerdict("hard", "size")
    try:
        results = _decoder.decode(content)
    except (ValueError, OverflowError, RecursionError):  # msgspec's errors are ValueErrors
        return LeaseVerdict("hard", "file")
    expected = [(lease.group, number, lease.attempt) for number in range(len(lease.seeds))]
    if [(result.group, result.number, result.attempt) for result in results] != expected:
        return LeaseVerdict("hard", "file")
    budget = min(lease.sampling_params.max_tokens, settings.engine.context_tokens - len(lease.prompt))
    if budget <= 0:
        is_refusal = all(map(_is_refusal, results))
        return () if is_refusal else LeaseVerdict("hard", "length")
    completions = []
    for result in results:
        completion = _completion(result, lease, budget, settings)
        if isinstance(completion, LeaseVerdict):
            return completion
        completions.append(completion)
    # With seeds that are replayed, equal answers are what the model says: a model that knows an answer repeats it.
    if not settings.check_seeds and _has_copies(completions):
        return LeaseVerdict("soft", "copies")
    return tuple(completions)


def _is_refusal(result: SampleResult) -> bool:
    is_empty = not (result.tokens or result.logprobs or result.spans or result.commitments)
    return result.finish_reason == "refused" and is_empty


def _completion(
    result: SampleResult, lease: Lease, budget: int, settings: SwarmSettings
) -> SampledCompletion | LeaseVerdict:
    try:
        tokens, logprobs = unpack_tokens(result.tokens), unpack_logprobs(result.logprobs)
    except ValueError:  # a part of a number
        return LeaseVerdict("hard", "file")
    if not 1 <= len(tokens) <= budget or len(logprobs) != len(tokens) or result.finish_reason == "refused":
        return LeaseVerdict("hard", "length")
    if result.spans != ((lease.version, 0, len(tokens)),):
        return LeaseVerdict("soft", "version")  # a node that took new weights too early is careless
    if max(tokens) >= settings.vocab_size:
        return LeaseVerdict("hard", "tokens")
    if not all(isfinite(logprob) and logprob <= _MAX_LOGPROB for logprob in logprobs):
        return LeaseVerdict("soft", "logprobs")  # a broken device does this, too
    return SampledCompletion(
        "", result.finish_reason, len(tokens), lease.prompt, tuple(tokens), tuple(logprobs),
        commitments=result.commitments,
    )  # fmt: skip


def _has_copies(completions: Sequence[SampledCompletion]) -> bool:
    long = [completion.token_ids for completion in completions if completion.n_tokens > _COPIED_TOKENS]
    return len(set(long)) < len(long)


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
