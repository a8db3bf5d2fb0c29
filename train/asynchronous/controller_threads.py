"""The threads of a worker that call the controller, so the engine never waits for the network.

One submits completions and requests groups, one fetches weights, and one sends heartbeats. They share `WorkerState`
with the engine's thread, and retry calls to an unreachable controller, with backoff, until a deadline.
"""

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from train.asynchronous.messages import (
    ControllerAPI,
    Heartbeat,
    Lease,
    LeaseKey,
    LeaseRequest,
    ReleaseRequest,
    ResultStatus,
    SampleResult,
    SubmitRequest,
)
from train.errors import CallDeferred, ControllerUnreachable, TransferError
from train.weights.manifest import WeightManifest
from train.weights.source import Weights, WeightSource

log = logging.getLogger(__name__)

_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.25, 15.0
_MAX_RESULTS_PER_MESSAGE = 32
_POLL_SECONDS = 30.0  # duration of a long poll for new weights
_RETRY_SECONDS = 0.5  # pause before the next attempt to fetch weights
_MAX_FAILURES = 40  # consecutive failures to fetch weights before the worker exits

Result = TypeVar("Result")


class RetryPolicy:
    """Retries with backoff, until `seconds` after the first of consecutive failures.

    CallDeferred, by which a coordinator postpones a call, resets this deadline.

    pause       waits for the given seconds; returns False once the worker is shutting down
    n_failures  total number of failed attempts
    """

    def __init__(self, seconds: float, pause: Callable[[float], bool]) -> None:
        self._seconds = seconds
        self._pause = pause
        self.n_failures = 0

    def call_with_retries(self, call: Callable[[], Result]) -> Result | None:
        """Return the result of the call; None if the worker is shutting down.

        Raises ControllerUnreachable after the deadline.
        """
        first_failure, seconds = None, _MIN_BACKOFF_SECONDS
        while True:
            try:
                return call()
            except ControllerUnreachable as error:
                self.n_failures += 1
                now = time.monotonic()
                first_failure = None if isinstance(error, CallDeferred) else first_failure or now
                if first_failure is not None and (elapsed := now - first_failure) >= self._seconds:
                    raise ControllerUnreachable(
                        f"{error} (tried for {elapsed:.0f} s). Start the worker again once the run continues; "
                        "--patience SECONDS sets a longer deadline."
                    ) from error
                log.info("%s; retrying", error)
            if not self._pause(seconds * random.uniform(0.5, 1.0)):  # jitter, so workers do not retry simultaneously
                return None
            seconds = min(2 * seconds, _MAX_BACKOFF_SECONDS)


class WorkerState:
    """State shared by the threads of a worker. A thread holds `changed` while it reads or changes a field.

    loaded_version   version of the weights in the engine; -1 before the first load
    manifest         manifest of the weights in the engine
    open_leases      number of unacknowledged completions by lease
    queued_leases    leases that the engine has not started
    pending_results  results that the controller has not acknowledged
    lost_leases      lost leases whose completions the engine still samples
    fetched_weights  weights that the engine has not loaded
    free_slots       engine slots to request leases for; 0 while no request is due
    request_at       earliest time of the next request for leases
    tokens_sampled   total number of sampled tokens
    busy_seconds     total time of sampling
    is_leaving       whether the worker is shutting down
    error            error that ended a thread
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.loaded_version = -1
        self.manifest: WeightManifest | None = None
        self.open_leases: dict[LeaseKey, int] = {}
        self.queued_leases: deque[Lease] = deque()
        self.pending_results: deque[SampleResult] = deque()
        self.lost_leases: set[LeaseKey] = set()
        self.fetched_weights: tuple[WeightManifest, Weights] | None = None
        self.free_slots = 0
        self.request_at = 0.0
        self.tokens_sampled = 0
        self.busy_seconds = 0.0
        self.run_ended = False
        self.is_leaving = False
        self.error: BaseException | None = None

    @property
    def has_ended(self) -> bool:
        return self.run_ended or self.is_leaving or self.error is not None

    def wait(self, until: Callable[[], bool], seconds: float | None = None) -> None:
        """Wait until `until` returns True, the worker ends, or `seconds` have passed."""
        with self.changed:
            self.changed.wait_for(lambda: until() or self.has_ended, seconds)

    def sleep(self, seconds: float) -> bool:
        """Wait for `seconds`, or until the worker ends. Return whether it continues."""
        self.wait(lambda: False, seconds)
        return not self.has_ended

    def stop_threads(self, *, run_ended: bool = False, error: BaseException | None = None) -> None:
        with self.changed:
            self.run_ended = self.run_ended or run_ended
            self.is_leaving = self.is_leaving or not run_ended
            self.error = self.error or error
            self.changed.notify_all()

    def accept_leases(self, leases: Iterable[Lease], wait_seconds: float) -> None:
        """Add the leases of a reply, and delay the next request by `wait_seconds`."""
        with self.changed:
            for lease in leases:
                self.queued_leases.append(lease)
                self.open_leases[lease.group, lease.attempt] = len(lease.seeds)
            self.free_slots = 0
            self.request_at = time.monotonic() + wait_seconds
            self.changed.notify_all()

    def queue_result(self, result: SampleResult) -> None:
        """Queue a result for submission; discard it if its lease is lost."""
        key = result.group, result.attempt
        with self.changed:
            if key not in self.open_leases:
                return
            if result.finish_reason == "refused":
                self.open_leases[key] = 1  # the controller rejects the whole group
            self.pending_results.append(result)
            self.changed.notify_all()

    def acknowledge(self, result: SampleResult, status: ResultStatus) -> None:
        """Remove a submitted result from the queue; drop its lease if the controller refused the result."""
        key = result.group, result.attempt
        with self.changed:
            if result in self.pending_results:  # False if the lease was lost meanwhile
                self.pending_results.remove(result)
            if status in ("stale", "broken"):
                self.drop_leases([key])
            elif key in self.open_leases:
                self.open_leases[key] -= 1
                if self.open_leases[key] == 0:
                    del self.open_leases[key]

    def drop_leases(self, keys: Iterable[LeaseKey]) -> None:
        """Drop leases; the engine aborts their completions."""
        with self.changed:
            dropped = {key for key in keys if self.open_leases.pop(key, None) is not None}
            self.queued_leases = deque(
                lease for lease in self.queued_leases if (lease.group, lease.attempt) not in dropped
            )
            self.pending_results = deque(
                result for result in self.pending_results if (result.group, result.attempt) not in dropped
            )
            self.lost_leases |= dropped
            self.changed.notify_all()


class ControllerThreads:
    """The three threads of a worker that call the controller.

    cache_use: returns the used share of the engine's KV cache
    """

    def __init__(
        self,
        name: str,
        controller: ControllerAPI,
        source: WeightSource,
        state: WorkerState,
        *,
        retry_timeout_seconds: float,
        beat_seconds: float,
        cache_use: Callable[[], float],
    ) -> None:
        self._name = name
        self._controller = controller
        self._source = source
        self._state = state
        self._beat_seconds = beat_seconds
        self._cache_use = cache_use
        self._retry = RetryPolicy(retry_timeout_seconds, state.sleep)
        self._confirmed_failures = 0  # value of `n_failures` at the last confirmation that the weights are current
        self._threads = [
            threading.Thread(target=self._run_guarded, args=(loop,), name=f"worker-{loop.__name__}", daemon=True)
            for loop in (self._exchange_leases, self._fetch_weights, self._send_heartbeat)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def drain(self, seconds: float) -> None:
        """Submit finished completions and release all other leases, within about `seconds`.

        A long poll for weights may still run after this call.
        """
        until = time.monotonic() + seconds
        self._threads[0].join(seconds / 2)
        if self._state.run_ended:
            return
        try:
            while self._state.pending_results and time.monotonic() < until:
                self._send_results()
            self._controller.release(ReleaseRequest(self._name))
        except ControllerUnreachable as error:
            log.info("cannot release the leases, which will expire: %s", error)

    def _run_guarded(self, loop: Callable[[], None]) -> None:
        try:
            while not self._state.has_ended:
                loop()
        except BaseException as error:  # raised again in the engine's thread
            self._state.stop_threads(error=error)

    def _exchange_leases(self) -> None:
        state = self._state
        state.wait(lambda: bool(state.pending_results or state.free_slots))
        if state.pending_results:
            self._retry.call_with_retries(self._send_results)
        if state.free_slots and not state.has_ended:
            self._retry.call_with_retries(self._request_leases)

    def _send_results(self) -> None:
        with self._state.changed:
            results = tuple(islice(self._state.pending_results, _MAX_RESULTS_PER_MESSAGE))
        statuses = self._controller.submit_results(SubmitRequest(self._name, results))
        for result, status in zip(results, statuses, strict=True):
            self._state.acknowledge(result, status)

    def _request_leases(self) -> None:
        state = self._state
        with state.changed:
            # Unsent results occupy slots, to bound memory while the controller is unreachable.
            slots, loaded_version = state.free_slots - len(state.pending_results), state.loaded_version
        if slots <= 0:
            return
        if not self._has_current_weights():
            state.accept_leases((), _RETRY_SECONDS)  # `_fetch_weights` fetches them in its own thread
            return
        response = self._controller.request_leases(LeaseRequest(self._name, loaded_version, slots))
        if response.run_ended:
            state.stop_threads(run_ended=True)
        state.accept_leases(response.leases, response.wait_seconds)

    def _fetch_weights(self) -> None:
        """Fetch the newest weights while the engine samples, and wait until it has loaded them."""
        state = self._state
        before = state.manifest
        manifest = self._retry.call_with_retries(self._wait_for_newer_manifest)
        if manifest is None:  # no newer weights; after the run's end, the controller replies immediately
            state.sleep(_RETRY_SECONDS)
            return
        if manifest == before:
            return
        failures = 0
        while manifest is not None and not state.has_ended:
            try:
                weights = self._source.fetch(manifest)
                break
            except TransferError as error:
                failures += 1
                if failures > _MAX_FAILURES:
                    raise
                log.info("%s; requesting newer weights", error)
            state.sleep(_RETRY_SECONDS)
            manifest = self._retry.call_with_retries(self._wait_for_newer_manifest)
        if manifest is not None and not state.has_ended:
            with state.changed:
                state.fetched_weights = manifest, weights
                state.changed.notify_all()
            state.wait(lambda: state.manifest is not before)

    def _wait_for_newer_manifest(self) -> WeightManifest | None:
        """Long-poll for the newest manifest, and return it; None if the engine has its weights."""
        if self._has_current_weights():
            return self._controller.wait_for_weights(self._state.loaded_version, _POLL_SECONDS)
        return self._controller.wait_for_weights(-1, _POLL_SECONDS)

    def _has_current_weights(self) -> bool:
        """Return whether the loaded weights are those of the run. Sends a request only after a failed call.

        After a failure, the run may have resumed at an earlier step and reused version numbers for other weights.
        """
        failures = self._retry.n_failures
        if failures == self._confirmed_failures:
            return True
        if self._controller.wait_for_weights(-1, 0.0) != self._state.manifest:
            return False
        self._confirmed_failures = failures
        return True

    def _send_heartbeat(self) -> None:
        state = self._state
        start_time, tokens_before, busy_before = time.monotonic(), state.tokens_sampled, state.busy_seconds
        if not state.sleep(self._beat_seconds):
            return
        with state.changed:
            seconds = time.monotonic() - start_time
            speed, busy_share = (
                (state.tokens_sampled - tokens_before) / seconds,
                min(1.0, (state.busy_seconds - busy_before) / seconds),
            )
            beat = Heartbeat(
                self._name, state.loaded_version, tuple(state.open_leases), speed, self._cache_use(), busy_share
            )
        try:
            response = self._controller.heartbeat(beat)
        except ControllerUnreachable:
            return  # the other threads retry
        if response.run_ended:
            state.stop_threads(run_ended=True)
        state.drop_leases(response.leases_to_drop)
