"""A sampler for evaluation on a controller's workers.

Its samples are leases with negative numbers and one completion each, and are not journaled. Only workers with the
newest weights get samples, before any training group.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from train.asynchronous.events import RELEASED_REASON
from train.asynchronous.leases import LeaseTable, ResultConstraints, describe_fault
from train.asynchronous.messages import Lease, LeaseKey, ResultStatus, SampleResult, unpack_logprobs, unpack_tokens
from train.errors import SamplerError
from train.sampling.protocol import Prompt, SampledCompletion, SamplingParams, SeededPrompt
from train.sampling.text import restore_continuation_text, truncate_at_stop

log = logging.getLogger(__name__)

_MAX_WAITING = 64  # maximum number of queued prompts
_MAX_LOSSES = 3  # lost leases after which a sample fails
_WARNING_SECONDS = 60.0  # interval of warnings while no worker requests samples

_FinishedSamples = deque[tuple[int, SampledCompletion | ValueError]]


@dataclass(slots=True)
class _Sample:
    index: int
    prompt: Prompt
    prompt_ids: tuple[int, ...]
    seed: int
    sampling_params: SamplingParams
    done: _FinishedSamples
    attempt: int = 0
    n_lost: int = 0
    start_version: int = 0


class EvaluationQueue:
    """The unfinished samples of an evaluation, queued or leased. Callers hold the controller's lock."""

    def __init__(self, vocab_size: int) -> None:
        self.waiting: deque[int] = deque()
        self._samples: dict[int, _Sample] = {}
        self._vocab_size = vocab_size
        self._next = -1

    def add(self, sample: _Sample) -> int:
        number, self._next = self._next, self._next - 1
        self._samples[number] = sample
        self.waiting.append(number)
        return number

    def discard(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._samples.pop(number, None)
        self.waiting = deque(number for number in self.waiting if number in self._samples)

    def lease(self, worker: str, loaded_version: int, leases: LeaseTable, now: float) -> Lease:
        """Lease the sample that has waited longest."""
        number = self.waiting.popleft()
        sample = self._samples[number]
        sample.start_version = loaded_version
        seconds = leases.grant((number, sample.attempt), worker, now)
        prompt_ids, params = sample.prompt_ids, sample.sampling_params
        return Lease(number, sample.attempt, loaded_version, prompt_ids, (sample.seed,), params, seconds)

    def requeue(self, key: LeaseKey, reason: str) -> None:
        """Queue a sample again, unless it was lost _MAX_LOSSES times. A released lease does not count as lost."""
        sample = self._samples.get(key[0])
        if sample is None or sample.attempt != key[1]:
            return
        sample.attempt += 1
        sample.n_lost += reason != RELEASED_REASON
        if sample.n_lost < _MAX_LOSSES:
            self.waiting.appendleft(key[0])
        else:
            del self._samples[key[0]]
            sample.done.append((sample.index, ValueError(f"lost by {_MAX_LOSSES} workers in succession")))

    def accept(
        self, result: SampleResult, newest_version: int, decode: Callable[[Sequence[int]], str]
    ) -> tuple[ResultStatus, str]:
        """Accept or refuse a result. Return its status and, if that is "broken", the reason."""
        sample = self._samples.get(result.group)
        if sample is None or sample.attempt != result.attempt or result.group in self.waiting:
            return "stale", ""
        params, oldest = sample.sampling_params, sample.start_version
        expected = ResultConstraints(1, params.max_tokens, oldest, newest_version, self._vocab_size, params.logprobs)
        if reason := describe_fault(result, expected):
            return "broken", reason
        del self._samples[result.group]
        sample.done.append((sample.index, _decode_result(sample, result, decode)))
        return "taken", ""


class ControllerSampler:
    """A Sampler (train/sampling/protocol.py) on the workers of a controller.

    queue            the controller's queue of samples
    changed          the controller's lock, notified after every change
    check            raises the error that ended the run, if any
    encode           returns the token ids of a prompt
    timeout_seconds  maximum time between finished samples, after which `sample` fails
    """

    def __init__(
        self,
        queue: EvaluationQueue,
        changed: threading.Condition,
        check: Callable[[], None],
        encode: Callable[[Prompt], Sequence[int]],
        timeout_seconds: float,
    ) -> None:
        self._queue = queue
        self._changed = changed
        self._check = check
        self._encode = encode
        self._timeout_seconds = timeout_seconds
        self._closed = False

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        params = replace(sampling, verifiable=False)
        done: _FinishedSamples = deque()
        numbers: set[int] = set()
        unread = enumerate(prompts)
        has_more, n_open = True, 0
        try:
            while has_more or n_open:
                while has_more and self._has_room():
                    indexed = next(unread, None)
                    if has_more := indexed is not None:
                        numbers.update(self._add(*indexed, params, done))
                        n_open += 1
                if n_open:
                    self._wait(lambda: bool(done) or (has_more and self._has_room()))
                while done:
                    n_open -= 1
                    yield done.popleft()
        finally:
            with self._changed:
                self._queue.discard(numbers)

    def close(self) -> None:
        """End calls of `sample` in progress. The workers keep running."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._queue.waiting) < _MAX_WAITING

    def _add(self, index: int, seeded: SeededPrompt, params: SamplingParams, done: _FinishedSamples) -> list[int]:
        """Queue a sample, and return its number in a list; an empty list if its prompt cannot be encoded."""
        prompt, seed = seeded
        try:
            ids = tuple(self._encode(prompt))
        except ValueError as error:
            done.append((index, error))
            return []
        with self._changed:
            self._changed.notify_all()
            return [self._queue.add(_Sample(index, prompt, ids, seed, params, done))]

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds. Raises SamplerError after the timeout or `close`."""
        start_time = warned = time.monotonic()
        with self._changed:
            while not condition():
                if self._closed:
                    raise SamplerError("the sampler was closed")
                self._check()
                now = time.monotonic()
                if now - start_time > self._timeout_seconds:
                    raise SamplerError(
                        f"timed out: no sample within {now - start_time:.0f} s. Start workers that can load the newest "
                        "weights: curate rollout --controller URL"
                    )
                if now - warned > _WARNING_SECONDS:
                    warned = now
                    log.warning("%d samples still wait for workers with the newest weights", len(self._queue.waiting))
                self._changed.wait(min(1.0, self._timeout_seconds))


def _decode_result(
    sample: _Sample, result: SampleResult, decode: Callable[[Sequence[int]], str]
) -> SampledCompletion | ValueError:
    if result.finish_reason == "refused":
        return ValueError("the engine cannot take this prompt")
    tokens = tuple(unpack_tokens(result.tokens))
    completion = SampledCompletion(
        text=truncate_at_stop(decode(tokens), sample.sampling_params.stop),
        finish_reason=result.finish_reason,
        n_tokens=len(tokens),
        prompt_ids=sample.prompt_ids,
        token_ids=tokens,
        logprobs=tuple(unpack_logprobs(result.logprobs)),
        versions=tuple(version for version, start, end in result.spans for _ in range(start, end)),
        n_prompt_tokens=len(sample.prompt_ids),
    )
    return restore_continuation_text(sample.prompt, completion, sample.sampling_params.stop, decode)
