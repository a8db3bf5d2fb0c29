"""Answers as they come from a worker: each is checked before anything is done with it.

Workers hold the token of the run, so they are not enemies; but programs have bugs, and one answer that makes no sense
must neither end the run nor be trained on.
"""

import math
from array import array
from dataclasses import dataclass

from train.asynchronous.binary_arrays import unpack_logprobs, unpack_tokens
from train.asynchronous.messages import SampleResult

_ABOVE_ZERO = 1e-3  # rounding may lift the logarithm of a probability that is nearly 1 so far above 0
_FINISHES = ("stop", "length", "refused")


@dataclass(frozen=True, slots=True)
class ResultConstraints:
    """What an answer has to satisfy.

    start_version      no token may be older than this version
    newest_version     or newer than this one
    requires_logprobs  whether there is a log-probability for each token
    """

    completions: int
    max_tokens: int
    start_version: int
    newest_version: int
    vocab_size: int
    requires_logprobs: bool = True


def validation_error(answer: SampleResult, expected: ResultConstraints) -> str | None:
    """Return why an answer makes no sense, or None if it does."""
    try:
        return _objection(answer, expected)
    except (TypeError, ValueError, AttributeError) as error:  # a worker in this process can send anything
        return f"it cannot be read ({error})"


def _objection(answer: SampleResult, expected: ResultConstraints) -> str | None:
    if not 0 <= answer.number < expected.completions:
        return f"number {answer.number} of a group of {expected.completions}"
    if answer.finish_reason not in _FINISHES:
        return f"it finished by {answer.finish_reason!r}"
    if answer.finish_reason == "refused":
        return None
    if len(answer.tokens) % 4 or len(answer.logprobs) % 4:
        return "its tokens or log-probabilities are not 4 bytes each"
    tokens = unpack_tokens(answer.tokens)
    return (
        _about_tokens(tokens, expected)
        or _about_logprobs(unpack_logprobs(answer.logprobs), len(tokens), expected)
        or _about_spans(answer, len(tokens), expected)
    )


def _about_tokens(tokens: "array[int]", expected: ResultConstraints) -> str | None:
    if len(tokens) > expected.max_tokens:
        return f"{len(tokens)} tokens, and the limit is {expected.max_tokens}"
    if tokens and max(tokens) >= expected.vocab_size:
        return f"token {max(tokens)} of a vocabulary of {expected.vocab_size}"
    return None


def _about_logprobs(logprobs: "array[float]", n_tokens: int, expected: ResultConstraints) -> str | None:
    if len(logprobs) != (n_tokens if expected.requires_logprobs else 0):
        return f"{n_tokens} tokens and {len(logprobs)} log-probabilities"
    if not math.isfinite(sum(logprobs)):  # it is finite only if all of them are
        return "a log-probability is not a finite number"
    if logprobs and max(logprobs) > _ABOVE_ZERO:
        return f"a log-probability of {max(logprobs):g}"
    return None


def _about_spans(answer: SampleResult, n_tokens: int, expected: ResultConstraints) -> str | None:
    place, version = 0, expected.start_version
    for of_span, start, end in answer.spans:
        if start != place or end <= start:
            return f"the spans of versions {answer.spans} leave gaps or overlap"
        if not version <= of_span <= expected.newest_version:
            return (
                f"a span of version {of_span}: the group was asked at version {expected.start_version}, the newest is "
                f"{expected.newest_version}, and versions only rise"
            )
        place, version = end, of_span
    return None if place == n_tokens else f"{n_tokens} tokens and spans of versions for {place}"
