"""A worker: one engine that samples for a controller, in the controller's process or on another machine.

The thread that calls `run` steps the engine. Between steps it loads new weights and starts arrived groups. It never
waits for the network: the threads of controller_threads.py make all calls.

    request groups while slots are free -> sample a token of each completion -> submit finished completions

New weights are loaded as soon as they are fetched, in the middle of completions. They are verified before the worker
submits a completion sampled with them. With `whole_leases`, a worker first finishes its leases, and requests none
meanwhile.
"""

import logging
import time
from collections.abc import Callable
from itertools import groupby

from train.asynchronous.controller_threads import ControllerThreads, WorkerState
from train.asynchronous.messages import (
    ControllerAPI,
    Lease,
    SampleResult,
    VersionSpan,
    pack_logprobs,
    pack_tokens,
)
from train.sampling.proof import prove
from train.sampling.protocol import Engine, SampledCompletion
from train.weights.manifest import WeightManifest
from train.weights.source import Weights, WeightSource

log = logging.getLogger(__name__)


def encode_result(lease: Lease, number: int, completion: SampledCompletion) -> SampleResult:
    """Encode the completion of sample `number` of a lease."""
    return SampleResult(
        lease.group,
        number,
        lease.attempt,
        tokens=pack_tokens(completion.token_ids),
        logprobs=pack_logprobs(completion.logprobs) if lease.sampling_params.logprobs else b"",
        spans=group_by_version(completion.versions),
        finish_reason="length" if completion.finish_reason == "length" else "stop",
        commitments=completion.commitments,
    )


def encode_refusal(lease: Lease, number: int) -> SampleResult:
    """Encode the engine's refusal of a lease's prompt."""
    return SampleResult(lease.group, number, lease.attempt, tokens=b"", logprobs=b"", spans=(), finish_reason="refused")


def group_by_version(versions: tuple[int, ...]) -> tuple[VersionSpan, ...]:
    """Return the spans of tokens sampled with the same version."""
    spans = []
    end = 0
    for version, tokens in groupby(versions):
        start, end = end, end + len(list(tokens))
        spans.append((version, start, end))
    return tuple(spans)


_LEASE_WAIT_SECONDS = 10.0  # maximum wait for requested leases; then the engine samples with free slots
_SHUTDOWN_SECONDS = 10.0
HEARTBEAT_SECONDS = 4.0  # the controller declares a worker dead after 15 s


class RolloutWorker:
    """A worker that samples for a controller until the run ends or `leave` is called.

    controller             a Controller in this process, or a ControllerClient
    source                 fetches the weights that the controller announces
    name                   unique in the run
    retry_timeout_seconds  deadline for retries of calls to an unreachable controller
    whole_leases           whether each lease is sampled under one version of the weights, as verifiers require
    on_loaded              called after each load of weights with the manifest and the metrics of its verification
    """

    def __init__(
        self,
        controller: ControllerAPI,
        engine: Engine,
        source: WeightSource,
        *,
        name: str,
        retry_timeout_seconds: float = 600.0,
        beat_seconds: float = HEARTBEAT_SECONDS,
        whole_leases: bool = False,
        on_loaded: Callable[[WeightManifest, dict[str, float]], None] = lambda manifest, metrics: None,
    ) -> None:
        self._engine = engine
        self._whole_leases = whole_leases
        self._on_loaded = on_loaded
        self._state = WorkerState()
        self._threads = ControllerThreads(
            name,
            controller,
            source,
            self._state,
            retry_timeout_seconds=retry_timeout_seconds,
            beat_seconds=beat_seconds,
            cache_use=engine.cache_use,
        )
        self._running: dict[str, tuple[Lease, int]] = {}  # lease and sample number of each completion, by request id
        self._waits_for_reply = True

    def run(self) -> None:
        """Sample until the run ends or `leave` is called.

        Raises SamplerError if the engine fails, ParityError if it does not hold the published weights, and
        TransferError if weights cannot be fetched. Raises ControllerUnreachable after the retry deadline, and RunError
        if the controller refuses this worker.
        """
        self._threads.start()
        try:
            while not self._state.has_ended:
                self._load_fetched_weights()
                self._abort_lost_leases()
                self._fill_slots()
                if self._running:
                    self._step()
                else:
                    self._wait_for_work()
            self._engine.abort(list(self._running))
        finally:
            self._state.stop_threads()
            self._threads.drain(_SHUTDOWN_SECONDS)
        if self._state.error is not None:
            raise self._state.error

    def leave(self) -> None:
        """Shut down the worker: submit finished completions, and release the leases of all others. Thread-safe."""
        self._state.stop_threads()

    def _load_fetched_weights(self) -> None:
        with self._state.changed:
            if self._state.fetched_weights is None or not self._can_load():
                return
            (manifest, weights), self._state.fetched_weights = self._state.fetched_weights, None
            if manifest.version <= self._state.loaded_version:  # the run resumed at an earlier step
                self._state.drop_leases(list(self._state.open_leases))
        self._abort_lost_leases()
        metrics = self._load_and_verify_weights(manifest, weights)
        with self._state.changed:
            self._state.loaded_version, self._state.manifest = manifest.version, manifest
            self._state.request_at = 0.0
            self._state.changed.notify_all()
        self._on_loaded(manifest, metrics)

    def _can_load(self) -> bool:
        """Return whether fetched weights can be loaded now: whole leases must finish before newer weights."""
        state = self._state
        if state.fetched_weights is None:
            return False
        # free_slots is positive while a request for leases is in progress.
        has_work = bool(self._running or state.queued_leases or state.free_slots)
        return not (self._whole_leases and has_work and state.fetched_weights[0].version > state.loaded_version)

    def _load_and_verify_weights(self, manifest: WeightManifest, weights: Weights) -> dict[str, float]:
        start_time = time.monotonic()
        self._engine.load(weights, manifest.version)
        # The next step returns completions that finish during this comparison. If it fails, they are not submitted.
        metrics = prove(self._engine, manifest)
        return {**metrics, "weight_load_s": time.monotonic() - start_time}

    def _abort_lost_leases(self) -> None:
        with self._state.changed:
            lost, self._state.lost_leases = self._state.lost_leases, set()
        aborted = [key for key, (lease, _) in self._running.items() if (lease.group, lease.attempt) in lost]
        for key in aborted:
            del self._running[key]
        if aborted:
            self._engine.abort(aborted)

    def _fill_slots(self) -> None:
        """Start queued leases, and request more while the engine has free slots and the controller has groups.

        The engine samples nothing meanwhile, so which completions share a step does not depend on timing.
        """
        self._start_queued_leases()
        while len(self._running) < self._engine.max_concurrency and self._request_leases():
            self._start_queued_leases()

    def _request_leases(self) -> bool:
        """Request leases; return whether leases are queued."""
        state = self._state
        with state.changed:
            if state.loaded_version < 0 or state.has_ended or time.monotonic() < state.request_at:
                return False
            if self._whole_leases and state.fetched_weights is not None:
                return bool(state.queued_leases)
            state.free_slots = self._engine.max_concurrency - len(self._running)
            state.changed.notify_all()
            # Verifiable completions do not depend on their batch, so a wait for a full batch gains nothing.
            if not self._running or (self._waits_for_reply and not self._whole_leases):
                state.wait(lambda: not state.free_slots or state.fetched_weights is not None, _LEASE_WAIT_SECONDS)
            self._waits_for_reply = not state.free_slots
            return bool(state.queued_leases)

    def _start_queued_leases(self) -> None:
        with self._state.changed:
            leases = list(self._state.queued_leases)
            self._state.queued_leases.clear()
        for lease in leases:
            for number, seed in enumerate(lease.seeds):
                key = f"{lease.group}.{lease.attempt}.{number}"
                try:
                    self._engine.add(key, lease.prompt, seed, lease.sampling_params)
                except ValueError as error:
                    log.info("the engine refuses the prompt of group %d: %s", lease.group, error)
                    self._state.queue_result(encode_refusal(lease, number))
                    break
                self._running[key] = lease, number

    def _step(self) -> None:
        n_tokens = min(len(self._running), self._engine.max_concurrency)
        start_time = time.monotonic()
        for key, completion in self._engine.step():
            lease, number = self._running.pop(key)
            self._state.queue_result(encode_result(lease, number, completion))
        with self._state.changed:
            self._state.tokens_sampled += n_tokens
            self._state.busy_seconds += time.monotonic() - start_time

    def _wait_for_work(self) -> None:
        state = self._state
        if state.loaded_version < 0:
            state.wait(lambda: state.fetched_weights is not None)
        elif state.free_slots:
            state.wait(lambda: self._can_load() or not state.free_slots)
        else:
            state.wait(self._can_load, max(0.0, state.request_at - time.monotonic()))
