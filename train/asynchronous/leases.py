"""Leases of groups to workers, and the validation of their results.

A lease lasts three times the 99th percentile of recent completion times, at least `min_seconds`. Each completion renews
it, and so does each heartbeat that names it while the worker samples. So long completions keep their lease, while a
hung engine in a live process loses it. A worker that sends nothing for `silent_seconds` is dead. A lease that no
heartbeat names for `silent_seconds` expires, too, because the worker never received it.

Workers hold the run's token, so they are trusted. Results are still validated: an invalid one must neither end the run
nor be trained on.
"""

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from train.asynchronous.events import RELEASED_REASON
from train.asynchronous.messages import LeaseKey, Reason, SampleResult, unpack_logprobs, unpack_tokens

_EXPIRY_INTERVAL_SECONDS = 0.25
_STALL_SECONDS = 5.0  # a longer pause of this process is excluded from all deadlines
_MAX_MEASURED = 1000  # number of the latest completions whose times determine the duration of leases
_UPDATE_INTERVAL = 20  # number of completions between updates of the duration
_DURATION_FACTOR = 3.0
_LOGPROB_TOLERANCE = 1e-3  # rounding errors can raise log-probabilities above 0, up to this
_FINISH_REASONS = ("stop", "length", "refused")


@dataclass(slots=True)
class WorkerInfo:
    """The controller's record of a worker. Times are in seconds of the controller's clock.

    last_seen          time of its last call
    last_heartbeat     time of its last heartbeat
    loaded_version     version of its weights
    n_leases           leases that it holds
    n_invalid_results  invalid results that it sent
    free_group_slots   groups that fit into the slots free at its last request, minus groups leased since
    last_request       time of its last request for leases
    unknown_version    reported version that this run has not published; -1 if none
    """

    last_seen: float
    last_heartbeat: float
    loaded_version: int = -1
    n_leases: int = 0
    n_invalid_results: int = 0
    free_group_slots: int = 0
    last_request: float = 0.0
    tokens_per_second: float = 0.0
    cache_use: float = 0.0
    busy_share: float = 0.0
    unknown_version: int = -1


@dataclass(slots=True)
class _Lease:
    worker: str
    granted_at: float
    last_named: float  # time of the last heartbeat with this lease
    seconds: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class EndedLease:
    """A lease that ended early. reason: "silent", "late", "unknown to the worker" or "given back"."""

    key: LeaseKey
    worker: str
    reason: str


class LeaseTable:
    """All leases and all live workers. Callers pass the current time, in seconds."""

    def __init__(self, now: float, *, silent_seconds: float, min_seconds: float) -> None:
        self.workers: dict[str, WorkerInfo] = {}
        self._leases: dict[LeaseKey, _Lease] = {}
        self._completion_seconds: deque[float] = deque(maxlen=_MAX_MEASURED)
        self._silent_seconds = silent_seconds
        self._min_seconds = min_seconds
        self._seconds = min_seconds
        self._n_completions = 0
        self._checked_at = now

    def touch(self, name: str, now: float) -> WorkerInfo:
        """Record the time of a worker's call, and return the worker's record."""
        worker = self.workers.setdefault(name, WorkerInfo(now, now))
        worker.last_seen = now
        return worker

    def grant(self, key: LeaseKey, worker: str, now: float) -> float:
        """Grant a lease, and return its duration: the seconds without progress after which it expires."""
        self._leases[key] = _Lease(worker, now, now, self._seconds, now + self._seconds)
        self.touch(worker, now).n_leases += 1
        return self._seconds

    def release(self, name: str, keys: Collection[LeaseKey] | None) -> list[EndedLease]:
        """End these leases of the worker, and return them. With None, end all of its leases and remove the worker."""
        candidates = list(self._leases) if keys is None else keys
        ended = [EndedLease(key, name, RELEASED_REASON) for key in candidates if self.find_holder(key) == name]
        for each in ended:
            self.end(each.key)
        if keys is None:
            self.workers.pop(name, None)
        return ended

    def renew(self, key: LeaseKey, now: float) -> None:
        """Renew a lease because a completion arrived."""
        if lease := self._leases.get(key):
            lease.expires_at = now + lease.seconds
            self._completion_seconds.append(now - lease.granted_at)
            self._n_completions += 1
            if self._n_completions % _UPDATE_INTERVAL == 0:
                slowest = sorted(self._completion_seconds)[int(0.99 * (len(self._completion_seconds) - 1))]
                self._seconds = max(self._min_seconds, _DURATION_FACTOR * slowest)

    def record_heartbeat(
        self, name: str, running: Collection[LeaseKey], now: float, *, is_sampling: bool
    ) -> list[LeaseKey]:
        """Record a heartbeat, and return the leases in `running` that the worker no longer holds."""
        self.touch(name, now).last_heartbeat = now
        foreign = []
        for key in running:
            lease = self._leases.get(key)
            if lease is None or lease.worker != name:
                foreign.append(key)
                continue
            lease.last_named = now
            if is_sampling:
                lease.expires_at = now + lease.seconds
        return foreign

    def end(self, key: LeaseKey) -> None:
        lease = self._leases.pop(key, None)
        if lease is not None and lease.worker in self.workers:
            self.workers[lease.worker].n_leases -= 1

    def find_holder(self, key: LeaseKey) -> str:
        lease = self._leases.get(key)
        return lease.worker if lease else ""

    def expire(self, now: float) -> tuple[list[EndedLease], list[str]]:
        """End overdue leases; return the ended leases and the names of dead workers."""
        if now - self._checked_at < _EXPIRY_INTERVAL_SECONDS:
            return [], []
        self._exclude_stall(now)
        dead = [name for name, worker in self.workers.items() if now - worker.last_seen >= self._silent_seconds]
        ended = [
            EndedLease(key, lease.worker, self._find_expiry_reason(lease, now, dead))
            for key, lease in self._leases.items()
        ]
        ended = [each for each in ended if each.reason]
        for each in ended:
            self.end(each.key)
        for name in dead:
            del self.workers[name]
        return ended, dead

    def _find_expiry_reason(self, lease: _Lease, now: float, dead: Collection[str]) -> str:
        worker = self.workers.get(lease.worker)
        if worker is None or lease.worker in dead:
            return "silent"
        if now >= lease.expires_at:
            return "late"
        return "unknown to the worker" if worker.last_heartbeat - lease.last_named >= self._silent_seconds else ""

    def _exclude_stall(self, now: float) -> None:
        stall = now - self._checked_at
        self._checked_at = now
        if stall > _STALL_SECONDS:
            for worker in self.workers.values():
                worker.last_seen = min(now, worker.last_seen + stall)
            for lease in self._leases.values():
                lease.expires_at += stall
                lease.last_named = min(now, lease.last_named + stall)


@dataclass(frozen=True, slots=True)
class ResultConstraints:
    """Constraints on a valid sample result.

    completions        number of completions in the group
    start_version      minimum version of each token
    newest_version     maximum version of each token
    vocab_size         upper bound (exclusive) of token ids
    requires_logprobs  whether each token must have a log-probability
    """

    completions: int
    max_tokens: int
    start_version: int
    newest_version: int
    vocab_size: int
    requires_logprobs: bool = True


class ResultFault(NamedTuple):
    """A fault of an invalid result, as the reason of a lease verdict and as a detail for the log."""

    reason: Reason
    detail: str


def describe_fault(result: SampleResult, expected: ResultConstraints) -> str | None:
    """Return the fault of a result as text; None if it is valid."""
    try:
        found = find_fault(result, expected)
    except (TypeError, ValueError, AttributeError) as error:  # no decoder has checked an in-process worker's results
        return f"its fields are malformed ({error})"
    return None if found is None else found.detail


def find_fault(result: SampleResult, expected: ResultConstraints) -> ResultFault | None:
    """Return the first fault of a result, whose fields must have the declared types; None if it is valid."""
    if not 0 <= result.number < expected.completions:
        return ResultFault("file", f"its sample number is {result.number}, but its group has {expected.completions}")
    if result.finish_reason not in _FINISH_REASONS:
        return ResultFault("file", f"unknown finish reason {result.finish_reason!r}")
    if result.finish_reason == "refused":
        return None
    if len(result.tokens) % 4 or len(result.logprobs) % 4:
        return ResultFault("file", "its tokens or log-probabilities are not 4 bytes each")
    tokens, logprobs = unpack_tokens(result.tokens), unpack_logprobs(result.logprobs)
    if len(tokens) > expected.max_tokens:
        return ResultFault("length", f"{len(tokens)} tokens; the limit is {expected.max_tokens}")
    if tokens and max(tokens) >= expected.vocab_size:
        return ResultFault("tokens", f"token id {max(tokens)} is outside the vocabulary of {expected.vocab_size}")
    if len(logprobs) != (len(tokens) if expected.requires_logprobs else 0):
        return ResultFault("length", f"{len(tokens)} tokens and {len(logprobs)} log-probabilities")
    if not math.isfinite(sum(logprobs)):  # the sum is finite only if all of them are
        return ResultFault("logprobs", "a log-probability is not a finite number")
    if logprobs and max(logprobs) > _LOGPROB_TOLERANCE:
        return ResultFault("logprobs", f"the log-probability {max(logprobs):g} is above 0")
    detail = _find_span_fault(result, len(tokens), expected)
    return None if detail is None else ResultFault("version", detail)


def _find_span_fault(result: SampleResult, n_tokens: int, expected: ResultConstraints) -> str | None:
    covered, version = 0, expected.start_version
    for of_span, start, end in result.spans:
        if start != covered or end <= start:
            return f"the spans of versions {result.spans} have gaps or overlap"
        if not version <= of_span <= expected.newest_version:
            return (
                f"a span of version {of_span}: versions must ascend from the group's start version "
                f"{expected.start_version} to at most the newest, {expected.newest_version}"
            )
        covered, version = end, of_span
    return None if covered == n_tokens else f"the spans of versions cover {covered} of {n_tokens} tokens"
