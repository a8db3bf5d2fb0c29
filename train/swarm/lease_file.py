"""The completions of a lease as a file for verifiers, and the checks that need no model.

The file has the `SampleResult`s of one lease (train/asynchronous/messages.py) as msgpack: one for each seed, in order.
It does not repeat the prompt and the seeds of the lease.

Nodes are untrusted: the size is checked before decoding, the decoder builds only the declared types, and all numbers
are compared with the lease.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from train.asynchronous.leases import ResultConstraints, find_fault
from train.asynchronous.messages import Lease, LeaseVerdict, SampleResult, unpack_logprobs, unpack_tokens
from train.sampling.protocol import SampledCompletion
from train.swarm.settings import SwarmSettings

# Size bounds in bytes. Per file: the framing. Per completion: field names and a partial chunk of commitments.
# Per token: 4 for the id, 4 for the log-probability, and a share of 258 bytes of commitments for 32 tokens.
_FIXED_BYTES, _COMPLETION_BYTES, _TOKEN_BYTES = 64 * 2**10, 512, 17
_COPIED_TOKENS = 64  # two completions of at most this length may be equal by chance
_SOFT = {"version", "logprobs"}  # reasons that honest nodes may cause: a premature load of weights; a broken device

_decoder = msgspec.msgpack.Decoder(tuple[SampleResult, ...])


def compute_max_file_bytes(lease: Lease) -> int:
    """Return the maximum size of the completions of this lease."""
    return _FIXED_BYTES + len(lease.seeds) * (_COMPLETION_BYTES + _TOKEN_BYTES * lease.sampling_params.max_tokens)


def join_lease_file(encoded: Sequence[bytes]) -> bytes:
    """Join encoded results, in order, into the file of a lease."""
    return msgspec.msgpack.encode([msgspec.Raw(each) for each in encoded])


def decode_lease_file(content: bytes, lease: Lease, settings: SwarmSettings) -> tuple[SampleResult, ...] | LeaseVerdict:
    """Decode and check the results in a file of this lease; return a verdict if they are invalid."""
    if len(content) > compute_max_file_bytes(lease):
        return LeaseVerdict("hard", "size")
    try:
        results = _decoder.decode(content)
    except (ValueError, OverflowError, RecursionError):  # msgspec's errors are ValueErrors
        return LeaseVerdict("hard", "file")
    return check_results(results, lease, settings) or results


def read_lease_file(
    content: bytes, lease: Lease, settings: SwarmSettings
) -> tuple[SampledCompletion, ...] | LeaseVerdict:
    """Decode and check the completions in a file of this lease; return a verdict if they are invalid.

    Empty if the node refused the prompt, because it fills the engine's context.
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
    """Return whether a result is a refusal of the prompt without any content."""
    is_empty = not (result.tokens or result.logprobs or result.spans or result.commitments)
    return result.finish_reason == "refused" and is_empty


def check_results(results: Sequence[SampleResult], lease: Lease, settings: SwarmSettings) -> LeaseVerdict | None:
    """Return the verdict on invalid results; None if a verifier must decide."""
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
        if error := find_fault(result, constraints):
            return LeaseVerdict("soft" if error.reason in _SOFT else "hard", error.reason)
    # With replayed seeds, equal completions are honest: the model may repeat memorized text.
    long = [result.tokens for result in results if len(result.tokens) > 4 * _COPIED_TOKENS]
    return LeaseVerdict("soft", "copies") if not settings.check_seeds and len(set(long)) < len(long) else None


def convert_for_trainer(results: Sequence[SampleResult], trainer_lease: Lease) -> tuple[SampleResult, ...]:
    """Convert verified results to the trainer's group number and requested fields."""
    return tuple(
        replace(
            result, group=trainer_lease.group, attempt=trainer_lease.attempt, commitments=b"",
            logprobs=result.logprobs if trainer_lease.sampling_params.logprobs else b"",
        )
        for result in results
    )  # fmt: skip
