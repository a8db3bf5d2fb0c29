"""A finished completion as the answer that a worker sends."""

from itertools import groupby

from train.asynchronous.binary_arrays import pack_logprobs, pack_tokens
from train.asynchronous.messages import Lease, SampleResult, VersionSpan
from train.sampling.protocol import SampledCompletion


def encode_result(lease: Lease, number: int, completion: SampledCompletion) -> SampleResult:
    """Return the answer to one sample of a lease."""
    return SampleResult(
        lease.group,
        number,
        lease.attempt,
        tokens=pack_tokens(completion.token_ids),
        logprobs=pack_logprobs(completion.logprobs) if lease.sampling_params.logprobs else b"",
        spans=version_spans(completion.versions),
        finish_reason="length" if completion.finish_reason == "length" else "stop",
        commitments=completion.commitments,
    )


def encode_refusal(lease: Lease, number: int) -> SampleResult:
    """Return the answer to a prompt that the engine cannot take."""
    return SampleResult(lease.group, number, lease.attempt, tokens=b"", logprobs=b"", spans=(), finish_reason="refused")


def version_spans(versions: tuple[int, ...]) -> tuple[VersionSpan, ...]:
    """Return the spans of tokens that were drawn with the same version of the weights."""
    spans = []
    end = 0
    for version, tokens in groupby(versions):
        start, end = end, end + len(list(tokens))
        spans.append((version, start, end))
    return tuple(spans)
