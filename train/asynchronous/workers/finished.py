"""A finished completion as the answer that a worker sends."""

from itertools import groupby

from train.asynchronous.messages import Answer, Lease, Span
from train.asynchronous.packed import pack_logprobs, pack_tokens
from train.sampling.protocol import Completion


def answer_of(lease: Lease, number: int, completion: Completion) -> Answer:
    """Return the answer to one sample of a lease."""
    return Answer(
        lease.group,
        number,
        lease.attempt,
        tokens=pack_tokens(completion.token_ids),
        logprobs=pack_logprobs(completion.logprobs) if lease.draw.logprobs else b"",
        spans=spans_of(completion.versions),
        finish="length" if completion.finish_reason == "length" else "stop",
        commitments=completion.commitments,
    )


def refusal_of(lease: Lease, number: int) -> Answer:
    """Return the answer to a prompt that the engine cannot take."""
    return Answer(lease.group, number, lease.attempt, tokens=b"", logprobs=b"", spans=(), finish="refused")


def spans_of(versions: tuple[int, ...]) -> tuple[Span, ...]:
    """Return the spans of tokens that were drawn with the same version of the weights."""
    spans = []
    end = 0
    for version, tokens in groupby(versions):
        start, end = end, end + len(list(tokens))
        spans.append((version, start, end))
    return tuple(spans)
