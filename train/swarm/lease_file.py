"""The answers to a lease: what is checked before anything is computed, and how a verifier reads them.

Answers are the `SampleResult`s that workers send to a controller (train/asynchronous/messages.py). A verifier gets
those to one lease as msgpack: one for each seed, in the order of their numbers. They do not repeat what the lease
fixes: prompt and seeds are the lease's, whatever the node has sampled.

What a node sends may be anything. Its size is bounded before a byte is decoded, the decoder builds nothing but the
declared types, and the numbers are compared with the lease.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from train.asynchronous.leases import ResultConstraints, objection
from train.asynchronous.messages import Lease, LeaseVerdict, SampleResult, unpack_logprobs, unpack_tokens
from train.sampling.protocol import SampledCompletion
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


def join_lease_file(encoded: Sequence[bytes]) -> bytes:
    """Return the file of the answers to a lease, which are encoded already, in the order of their numbers."""
    return msgspec.msgpack.encode([msgspec.Raw(each) for each in encoded])


def decode_lease_file(content: bytes, lease: Lease, settings: SwarmSettings) -> tuple[SampleResult, ...] | LeaseVerdict:
    """Return the answers in a file that answers the lease, or the verdict on one that does not."""
    if len(content) > max_file_bytes(lease):
        return LeaseVerdict("hard", "size")
    try:
        results = _decoder.decode(content)
    except (ValueError, OverflowError, RecursionError):  # msgspec's errors are ValueErrors
        return LeaseVerdict("hard", "file")
    return check_results(results, lease, settings) or results


def read_lease_file(
    content: bytes, lease: Lease, settings: SwarmSettings
) -> tuple[SampledCompletion, ...] | LeaseVerdict:
    """Return the completions in a file that answers the lease, or the verdict on one that does not.

    The result is empty if the prompt leaves no room in the engine's context, and the node has refused it.
    """
    results = decode_lease_file(content, lease, settings)
    if isinstance(results, LeaseVerdict):
        return results
    return tuple(
        SampledCompletion(
            "", "length" if result.finish_reason == "length" else "stop", len(result.tokens) // 4, lease.prompt,
            tuple(unpack_tokens(result.tokens)), tuple(unpack_logprobs(result.logprobs)),
            commitments=result.commitments,
        )
        for result in results
        if result.finish_reason != "refused"
    )  # fmt: skip


def is_refusal(result: SampleResult) -> bool:
    """Return whether an answer says that the engine cannot take the prompt, and nothing else."""
    is_empty = not (result.tokens or result.logprobs or result.spans or result.commitments)
    return result.finish_reason == "refused" and is_empty


def check_results(results: Sequence[SampleResult], lease: Lease, settings: SwarmSettings) -> LeaseVerdict | None:
    """Return the verdict on results that do not answer the lease, and None if a verifier has to say."""
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


def to_trainer(answers: Sequence[SampleResult], asked: Lease) -> tuple[SampleResult, ...]:
    """Return verified answers under the trainer's name of their group, and with what the trainer asked for."""
    return tuple(
        replace(
            answer, group=asked.group, attempt=asked.attempt, commitments=b"",
            logprobs=answer.logprobs if asked.sampling_params.logprobs else b"",
        )
        for answer in answers
    )  # fmt: skip
