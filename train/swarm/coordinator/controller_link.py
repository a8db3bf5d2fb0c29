"""The coordinator's link to the trainer, to which the swarm is one worker."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection

from train.asynchronous.messages import (
    ControllerAPI,
    Heartbeat,
    Lease,
    LeaseKey,
    LeaseRequest,
    ReleaseRequest,
    SampleResult,
    SubmitRequest,
)
from train.errors import ControllerUnreachable

log = logging.getLogger(__name__)

WORKER = "swarm"
_BEAT_SECONDS = 3.0  # the controller declares a worker dead after 15 s of silence
_POLL_SECONDS = 0.2
_RECONNECT_SECONDS = 2.0
_EMPTY_SECONDS = 0.25  # interval between requests while the controller has no groups


class ControllerLink:
    """A worker of the controller. Any thread may request groups; `run_until_stopped` makes all other calls.

    open_leases  returns the keys of groups without a verdict
    on_unwanted  receives the keys of groups that the controller no longer waits for
    version      returns the newest published version of the weights
    """

    def __init__(
        self, controller: ControllerAPI, *, open_leases: Callable[[], tuple[LeaseKey, ...]],
        on_unwanted: Callable[[Collection[LeaseKey]], None], version: Callable[[], int],
    ) -> None:  # fmt: skip
        self.has_ended = False
        self._controller = controller
        self._open_leases, self._on_unwanted, self._version = open_leases, on_unwanted, version
        self._lock = threading.Lock()
        self._results: deque[tuple[SampleResult, ...]] = deque()
        self._released: list[LeaseKey] = []
        self._has_work = threading.Event()  # set while results or releases are queued
        self._n_tokens = 0  # tokens submitted since the last heartbeat
        self._beat_at = 0.0
        self._request_at = 0.0  # earliest time of the next request for groups
        self._is_unreachable = False

    def request_leases(self, request: LeaseRequest) -> tuple[Lease, ...]:
        """Request leases for a node. Return an empty tuple if the trainer has no groups or is unreachable."""
        if self.has_ended or self._is_unreachable or time.monotonic() < self._request_at:
            return ()
        try:
            response = self._controller.request_leases(request)
        except ControllerUnreachable as error:
            self._report_unreachable(error)
            return ()
        self.has_ended = self.has_ended or response.run_ended
        if not response.leases:
            self._request_at = time.monotonic() + _EMPTY_SECONDS
        return response.leases

    def submit_results(self, groups: Collection[tuple[SampleResult, ...]]) -> None:
        """Queue the results of groups to submit to the trainer."""
        with self._lock:
            self._results.extend(groups)
        if groups:
            self._has_work.set()

    def release_leases(self, keys: Collection[LeaseKey]) -> None:
        """Queue leases to release, so the trainer dispatches their groups again."""
        with self._lock:
            self._released.extend(keys)
        if keys:
            self._has_work.set()

    def run_until_stopped(self, stop: threading.Event) -> None:
        """Send results, releases and heartbeats until `stop` is set; retry while the trainer is unreachable.

        Raises RunError if the trainer refuses a call, for example because it belongs to another run.
        """
        is_new = True
        while not stop.is_set():
            try:
                if is_new:  # release the groups of an earlier coordinator
                    self._controller.release(ReleaseRequest(WORKER))
                    is_new = False
                self._send()
                self._is_unreachable = False
            except ControllerUnreachable as error:
                self._report_unreachable(error)
                stop.wait(_RECONNECT_SECONDS)
            self._has_work.wait(_POLL_SECONDS)

    def _send(self) -> None:
        self._has_work.clear()
        while self._results:
            results = self._results[0]
            receipts = self._controller.submit_results(SubmitRequest(WORKER, results))
            self._results.popleft()
            self._n_tokens += sum(len(result.tokens) // 4 for result in results)
            if "broken" in receipts:
                log.error("the trainer refused verified completions of group %d as invalid", results[0].group)
        with self._lock:
            keys = tuple(self._released)
        if keys:
            self._controller.release(ReleaseRequest(WORKER, keys))
            with self._lock:
                del self._released[: len(keys)]
        if time.monotonic() >= self._beat_at + _BEAT_SECONDS:
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        now, open_leases = time.monotonic(), self._open_leases()
        speed = self._n_tokens / (now - self._beat_at) if self._beat_at else 0.0
        if open_leases:  # a positive speed renews the trainer's leases; the coordinator itself expires slow ones
            speed = max(speed, 1e-6)
        with self._lock:  # other threads may queue results
            waiting = {(results[0].group, results[0].attempt) for results in self._results}
        beat = Heartbeat(WORKER, self._version(), (*open_leases, *waiting), speed, busy_share=float(bool(open_leases)))
        response = self._controller.heartbeat(beat)
        self._beat_at, self._n_tokens = now, 0
        self.has_ended = self.has_ended or response.run_ended
        self._on_unwanted(set(response.leases_to_drop) - waiting)

    def _report_unreachable(self, error: ControllerUnreachable) -> None:
        (log.debug if self._is_unreachable else log.warning)("%s; leases stay open, and completions are queued", error)
        self._is_unreachable = True
