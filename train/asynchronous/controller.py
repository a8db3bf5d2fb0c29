"""The controller of an asynchronous run: it leases groups to workers, has completions scored, and assembles batches.

Workers call `request_leases`, `submit_results`, `heartbeat`, `wait_for_weights` and `release`; the trainer calls
`wait_for_batch`, `publish_weights` and the rest. Every event is journaled before it takes effect, so a killed run
resumes with its trainable groups and replays recorded batches.

The controller starts no threads. Every call first expires overdue leases. The owner calls `expire_leases` about once a
second, to detect dead workers without other calls.
"""

import hashlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from math import inf, isfinite, nan
from statistics import fmean

from rewards import reward
from rewards.reward import Reward
from train.asynchronous import events
from train.asynchronous.dispatcher import (
    ControllerSettings,
    Dispatcher,
    JournaledGroups,
    PromptSource,
    classify_group,
    count_groups_for_worker,
    find_rejection_reason,
    has_no_known_reward,
    select_next_batch,
)
from train.asynchronous.evaluation_sampler import ControllerSampler, EvaluationQueue
from train.asynchronous.group_states import GroupState, OpenGroup
from train.asynchronous.journal import NullJournal
from train.asynchronous.leases import LeaseTable, ResultConstraints, WorkerInfo, describe_fault
from train.asynchronous.messages import (
    Heartbeat,
    HeartbeatResponse,
    Lease,
    LeaseKey,
    LeaseRequest,
    LeaseResponse,
    ReleaseRequest,
    ResultStatus,
    SampleResult,
    SubmitRequest,
    unpack_tokens,
)
from train.errors import ControllerUnreachable, RolloutError
from train.rollouts.groups import Group, SubmitForReward, convert_steps_to_tokens
from train.sampling.protocol import Prompt
from train.weights.manifest import WeightManifest

log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.25  # pause of a worker before its next request, if it got no groups
_MAX_INVALID_RESULTS = 3  # after these, a worker gets no more leases


@dataclass(slots=True)
class _Lengths:
    """Numbers of completions and of their tokens, received and trained on, for one start version."""

    tokens_received: int = 0
    n_received: int = 0
    tokens_used: int = 0
    n_used: int = 0


@dataclass(slots=True)
class ControllerMetrics:
    """Counts since the start of this process, and the metrics of the last batch.

    The length bias of a start version is the mean length of the completions trained on, divided by the mean length of
    all completions received. It is computed after the last batch with that start version.

    last_ignored_version  start versions up to this one have no length bias, because this process has not received all
                          their completions
    """

    n_dead_workers: int = 0
    n_lost_leases: int = 0
    n_invalid_results: int = 0
    last_ignored_version: int = -1
    signal_counts: dict[str, int] = field(default_factory=dict)
    last_batch: dict[str, float] = field(default_factory=dict)
    _lengths: dict[int, _Lengths] = field(default_factory=lambda: defaultdict(_Lengths))
    _n_spans: list[int] = field(default_factory=list)
    _previous_counts: tuple[int, int] = (0, 0)
    _slowest_call: float = 0.0

    def record_call_seconds(self, seconds: float) -> None:
        self._slowest_call = max(self._slowest_call, seconds)

    def pop_slowest_call_seconds(self) -> float:
        """Return the longest call since the previous pop, in seconds."""
        slowest, self._slowest_call = self._slowest_call, 0.0
        return slowest

    def record_result(self, start_version: int, n_tokens: int, n_spans: int) -> None:
        lengths = self._lengths[start_version]
        lengths.tokens_received += n_tokens
        lengths.n_received += 1
        self._n_spans.append(n_spans)

    def record_batch(self, version: int, groups: Sequence[OpenGroup], *, staleness: int) -> None:
        for group in groups:
            lengths = self._lengths[group.dispatched.start_version]
            for received in group.results.values():
                lengths.tokens_used += len(received.result.tokens) // 4
                lengths.n_used += 1
        ages = [version - group.dispatched.start_version for group in groups]
        expired = [
            (start_version, self._lengths.pop(start_version))
            for start_version in sorted(self._lengths)
            if start_version <= version - staleness
        ]
        complete = [lengths for start_version, lengths in expired if start_version > self.last_ignored_version]
        self.last_batch = {
            "groups/age_mean": fmean(ages),
            "groups/age_max": max(ages),
            "groups/cut": len(groups),
            "answers/spans": fmean(self._n_spans) if self._n_spans else nan,
            "answers/broken": self.n_invalid_results - self._previous_counts[1],
            "leases/lost": self.n_lost_leases - self._previous_counts[0],
            "length_bias": _compute_length_bias(complete),
        }
        self._previous_counts = self.n_lost_leases, self.n_invalid_results
        self._n_spans.clear()


def _compute_length_bias(lengths: Sequence[_Lengths]) -> float:
    received, n_received = sum(each.tokens_received for each in lengths), sum(each.n_received for each in lengths)
    used, n_used = sum(each.tokens_used for each in lengths), sum(each.n_used for each in lengths)
    return (used / n_used) / (received / n_received) if received and n_used else nan


class Controller:
    """The groups of a run, from dispatch to training. Thread-safe.

    recorder   the journal, open for writing, or NullJournal()
    submit     queues a completion for scoring
    decode     returns the text of token ids, without special tokens
    encode     returns the token ids of a prompt; only evaluation needs it
    seed       seed of the run
    step       last completed step: the checkpoint's, or 0
    position   position in the data of the first prompt, unless the journal has a later one
    now        clock, in seconds

    Raises CheckpointError if the journal is damaged.
    """

    def __init__(
        self,
        prompts: PromptSource,
        settings: ControllerSettings,
        recorder: NullJournal,
        *,
        submit: SubmitForReward,
        decode: Callable[[Sequence[int]], str],
        encode: Callable[[Prompt], Sequence[int]] = lambda prompt: tuple(prompt),  # type: ignore[arg-type]
        seed: int = 0,
        step: int = 0,
        position: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._submit = submit
        self._decode = decode
        self._encode = encode
        self._now = now
        self._changed = threading.Condition()
        self._leases = LeaseTable(
            now(), silent_seconds=settings.worker_timeout_seconds, min_seconds=settings.min_lease_seconds
        )
        self._evaluation = EvaluationQueue(settings.vocab_size)
        self._metrics = ControllerMetrics()
        self._manifest: WeightManifest | None = None
        self._published_at = -inf  # time of the last publication, in seconds
        self._error: BaseException | None = None
        self._has_ended = False
        self._is_complete = False  # whether the next batch is limited to the ready groups
        self._record = JournaledGroups(recorder, step=step, position=position)
        self._groups = self._record.groups
        self._dispatcher = Dispatcher(prompts, settings, self._record, self._leases, seed)
        with self._changed:
            self._restore(step)

    # --- calls of the trainer ---

    def try_take_batch(self, version: int) -> list[Group] | None:
        """Return the batch to train on with the weights of `version`; None if it is not ready.

        Fsyncs the batch to the journal, or replays it if the journal has it. Returns an empty list and records nothing
        if max_rounds rounds of groups had no learning signal, or if no reward is known.

        Raises RolloutError if the journal cannot be written, and the error that ended the run in another thread.
        """
        if version < self._record.first_unrecorded_version:
            return self._record.replay_batch(version)
        if version != self._groups.batches_taken:
            raise ValueError(f"the next batch is that of version {self._groups.batches_taken}, not {version}")
        with self._hold_lock():
            batch = select_next_batch(self._groups, self._settings, is_complete=self._is_complete)
            if batch is not None:
                self._is_complete = False
                self._metrics.signal_counts = dict(self._groups.signal_counts)
            if batch:
                self._record.take_batch(batch)
                self._metrics.record_batch(version, batch, staleness=self._settings.max_staleness)
        if batch is None:
            return None
        self._record.sync()
        return [group.build_rollouts() for group in batch]

    def wait_for_batch(self, version: int, seconds: float) -> list[Group]:
        """Call `try_take_batch` until it returns a batch. Raises its errors, and RolloutError after `seconds`."""
        until = time.monotonic() + seconds
        while (groups := self.try_take_batch(version)) is None:
            left = until - time.monotonic()
            if left <= 0:
                raise RolloutError(self._describe_timeout(version, seconds))
            with self._changed:
                if self._error is None and select_next_batch(self._groups, self._settings) is None:
                    self._changed.wait(min(left, 1.0))
        return groups

    def wait_for_groups(self, n: float, seconds: float) -> list[Group]:
        """Wait until `n` groups at the front of the next batch are ready, or it is complete. Return its ready groups.

        Call only if all groups of a batch have the same start version; otherwise a later group could displace these.

        Raises RolloutError after `seconds`, and the error that ended the run in another thread.
        """

        def list_ready_prefix() -> list[OpenGroup]:
            in_order = (group for _, group in sorted(self._groups.open.items()))
            ready = takewhile(lambda group: group.state is GroupState.READY, in_order)
            return list(islice(ready, self._settings.prompts_per_batch))

        with self._changed:
            self._changed.wait_for(
                lambda: self._error is not None or self._is_complete or len(list_ready_prefix()) >= n,
                max(0.0, seconds),
            )
            self._check_error()
            first = list_ready_prefix()
            if len(first) < n and not self._is_complete:
                raise RolloutError(
                    f"timed out: the batch has only {len(first)} groups with a signal. The engine hangs, or "
                    "rollout.max_seconds is too short for these completions. Raise it and continue with --resume."
                )
        return [group.build_rollouts() for group in first]

    def wait_until_scored(self) -> None:
        """Wait until every dispatched group is ready or rejected.

        Raises RolloutError if a group lacks completions, and the error that ended the run in another thread.
        """
        with self._changed:
            if incomplete := self._groups.list_groups_in_state(GroupState.LEASED):
                raise RolloutError(f"{incomplete[0].dispatched.problem_id}: the sampler lost a completion")
            self._changed.wait_for(
                lambda: self._error is not None or self._has_ended or self.n_ready == len(self._groups.open)
            )
            self._check_error()

    def complete_batch(self) -> None:
        """Limit the next batch to the ready groups. Reject surplus groups, and dispatch their prompts again later."""
        with self._changed:
            ready = [group for _, group in sorted(self._groups.open.items())]
            used, surplus = ready[: self._settings.prompts_per_batch], ready[self._settings.prompts_per_batch :]
            for group in surplus:
                self._reject(group, "surplus")
            if surplus:
                self._record.rewind_to(used[-1].dispatched.position + 1)
            self._is_complete = True
            self._changed.notify_all()

    def export_open_groups(self) -> list[events.Event]:
        """Return the events from which a new controller restores the open groups."""
        with self._changed:
            if not self._groups.open:
                return []
            return [self._groups.build_segment_header(), *self._groups.build_open_events()]

    @property
    def n_ready(self) -> int:
        """The number of trainable groups."""
        return len(self._groups.list_groups_in_state(GroupState.READY))

    def publish_weights(self, manifest: WeightManifest) -> None:
        """Announce new weights to the workers, and record their version in the journal."""
        with self._hold_lock():
            self._record.append(events.WeightsPublished(manifest.version, _hash_checksums(manifest)))
            self._manifest = manifest
            self._published_at = self._now()
            self._changed.notify_all()

    def set_max_tokens(self, max_tokens: int) -> None:
        """Set the length limit of completions of later groups; open groups keep theirs."""
        with self._changed:
            self._dispatcher.max_tokens = max_tokens

    def create_sampler(self, timeout_seconds: float = 7200.0) -> ControllerSampler:
        """Return a sampler for evaluation, which raises SamplerError if no sample finishes for `timeout_seconds`."""
        return ControllerSampler(self._evaluation, self._changed, self._check_error, self._encode, timeout_seconds)

    def expire_leases(self, now: float | None = None) -> None:
        """Expire overdue leases and log dead workers. Call about once a second."""
        with self._changed:
            if self._error is None and not self._has_ended:
                try:
                    self._expire_leases(self._now() if now is None else now)
                except Exception as error:
                    self._fail(error)

    def fail(self, error: BaseException) -> None:
        """End the run: the trainer's next call raises this error."""
        with self._changed:
            self._fail(error)

    def collect_metrics(self) -> dict[str, float]:
        """Return the metrics of the last batch and of the workers; see train/run/step_metrics.py."""
        with self._changed:
            workers = self._leases.workers.values()
            return {
                **self._metrics.last_batch,
                "workers/alive": len(workers),
                "workers/dead": self._metrics.n_dead_workers,
                "workers/tokens_per_second": sum(worker.tokens_per_second for worker in workers),
                "idle/sampler": 1 - fmean(worker.busy_share for worker in workers) if workers else nan,
                "controller/lag_s": self._metrics.pop_slowest_call_seconds(),
                "workers/cache_use": max((worker.cache_use for worker in workers), default=0.0),
                "groups/running": len(self._groups.list_groups_in_state(GroupState.LEASED)),
                "groups/ready": len(self._groups.list_groups_in_state(GroupState.READY)),
                "groups/outstanding": len(self._groups.open),
            }

    def count_signals(self) -> dict[str, int]:
        """Count by signal the groups accepted and rejected between the previous batch and the last one."""
        with self._changed:
            return dict(self._metrics.signal_counts)

    @property
    def newest_version(self) -> int:
        """The version of the weights published last; -1 if none."""
        return -1 if self._manifest is None else self._manifest.version

    @property
    def batches_taken(self) -> int:
        """The number of batches taken, which is the version of the next batch that the journal lacks."""
        return self._groups.batches_taken

    @property
    def position(self) -> int:
        """The position in the data after the last dispatched prompt."""
        return self._groups.next_position

    def prune_journal(self, step: int) -> None:
        """Remove the journal segments that a resumption at `step` or later does not need. Raises OSError."""
        self._record.prune(step - self._settings.max_staleness)

    def close(self) -> None:
        """End the run for all workers, and close the journal."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
            self._record.close()

    # --- calls of workers; see messages.ControllerAPI ---

    def request_leases(self, request: LeaseRequest) -> LeaseResponse:
        with self._serve_worker():
            now = self._now()
            worker = self._leases.touch(request.worker, now)
            if self._has_ended:
                return LeaseResponse(run_ended=True)
            if not self._may_lease(request, worker):
                return LeaseResponse(wait_seconds=_RETRY_SECONDS)
            worker.loaded_version, worker.last_request = request.loaded_version, now
            leases = self._lease_samples(request, now)
            worker.free_group_slots = -(-(request.slots - len(leases)) // self._settings.completions_per_prompt)
            for _ in range(
                count_groups_for_worker(
                    self._dispatcher.list_waiting_workers(now),
                    request.worker,
                    self._dispatcher.compute_capacity(request.loaded_version),
                )
            ):
                leases.append(self._dispatcher.dispatch(request.worker, request.loaded_version, now))
                worker.free_group_slots -= 1
            return LeaseResponse(tuple(leases), wait_seconds=0.0 if leases else _RETRY_SECONDS)

    def lease_groups(self, worker: str, n: int) -> list[Lease]:
        """Lease n groups to a worker with the newest weights, ignoring the staleness bound."""
        with self._serve_worker():
            return [self._dispatcher.dispatch(worker, self.newest_version, self._now()) for _ in range(n)]

    def submit_results(self, request: SubmitRequest) -> list[ResultStatus]:
        return [self._receive(request.worker, result) for result in request.results]

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        with self._serve_worker():
            if self._has_ended:
                return HeartbeatResponse(beat.running_leases, run_ended=True)
            now = self._now()
            is_loading = (
                beat.loaded_version < self.newest_version
                and now - self._published_at < self._settings.weight_load_timeout_seconds
            )
            drop = self._leases.record_heartbeat(
                beat.worker, beat.running_leases, now, is_sampling=beat.tokens_per_second > 0 or is_loading
            )
            worker = self._leases.workers[beat.worker]
            worker.tokens_per_second, worker.cache_use, worker.busy_share = (
                number if isfinite(number) else 0.0
                for number in (beat.tokens_per_second, beat.cache_use, beat.busy_share)
            )
            return HeartbeatResponse(tuple(drop))

    def wait_for_weights(self, known_version: int, wait_seconds: float) -> WeightManifest | None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._has_ended or self.newest_version not in (-1, known_version), wait_seconds
            )
            return None if self.newest_version == known_version else self._manifest

    def release(self, request: ReleaseRequest) -> None:
        with self._serve_worker():
            ended = self._leases.release(request.worker, request.leases)
            if self._has_ended:
                return
            action = "leaves" if request.leases is None else "releases leases"
            log.info("%s %s; %d groups are dispatched again", request.worker, action, len(ended))
            for each in ended:
                self._record_lost_lease(each.key, each.reason)

    # --- dispatch ---

    def _may_lease(self, request: LeaseRequest, worker: WorkerInfo) -> bool:
        if request.loaded_version > self.newest_version:
            if worker.unknown_version != request.loaded_version:
                log.warning(
                    "%s has weights %d, which this run has not published", request.worker, request.loaded_version
                )
            worker.unknown_version = request.loaded_version
            return False
        return request.loaded_version >= 0 and request.slots > 0 and worker.n_invalid_results < _MAX_INVALID_RESULTS

    def _lease_samples(self, request: LeaseRequest, now: float) -> list[Lease]:
        if request.loaded_version != self.newest_version or not request.can_evaluate:
            return []
        n = min(request.slots, len(self._evaluation.waiting))
        leases = [self._evaluation.lease(request.worker, request.loaded_version, self._leases, now) for _ in range(n)]
        if leases:
            self._changed.notify_all()  # the sampler can queue further prompts
        return leases

    # --- completions and rewards ---

    def _receive(self, worker: str, result: SampleResult) -> ResultStatus:
        """Accept or refuse a result. Decodes its tokens without the lock, because decoding is slow."""
        with self._serve_worker():
            self._leases.touch(worker, self._now())
            if self._has_ended:
                return "stale"
            receipt, reason = self._accept_sample(result) if result.group < 0 else self._check_result(result)
            if receipt == "broken":
                self._refuse(worker, result, reason)
            if receipt != "taken" or result.group < 0:
                return receipt
            if result.finish_reason == "refused":
                self._reject(self._groups.open[result.group], "refused")
                return "taken"
        text = self._decode(tuple(unpack_tokens(result.tokens)))
        with self._serve_worker():
            receipt, _ = self._check_result(result)  # a duplicate may have arrived meanwhile, or the lease expired
            if receipt == "taken" and not self._has_ended:
                self._record_result(result, text)
        return receipt

    def _accept_sample(self, result: SampleResult) -> tuple[ResultStatus, str]:
        receipt, reason = self._evaluation.accept(result, self.newest_version, self._decode)
        if receipt == "taken":
            self._leases.end((result.group, result.attempt))
            self._changed.notify_all()
        return receipt, reason

    def _check_result(self, result: SampleResult) -> tuple[ResultStatus, str]:
        group = self._groups.open.get(result.group)
        if group is None or group.dispatched.attempt != result.attempt:
            return "stale", ""
        if result.number in group.results:
            return "again", ""
        if group.state is not GroupState.LEASED:
            return "stale", ""
        dispatched = group.dispatched
        reason = describe_fault(
            result,
            ResultConstraints(
                dispatched.n_completions,
                dispatched.max_tokens,
                dispatched.start_version,
                self.newest_version,
                self._settings.vocab_size,
            ),
        )
        return ("broken", reason) if reason else ("taken", "")

    def _refuse(self, worker: str, result: SampleResult, reason: str) -> None:
        """Count an invalid result of the worker, and dispatch the group again."""
        self._metrics.n_invalid_results += 1
        info = self._leases.touch(worker, self._now())
        info.n_invalid_results += 1
        log.warning("%s sent an invalid result (group %d, sample %d): %s", worker, result.group, result.number, reason)
        if info.n_invalid_results == _MAX_INVALID_RESULTS:
            log.error("%s sent %d invalid results and gets no more leases. Restart it.", worker, _MAX_INVALID_RESULTS)
        key = result.group, result.attempt
        if self._leases.find_holder(key) == worker:
            self._leases.end(key)
            self._record_lost_lease(key, "broken")

    def _record_result(self, result: SampleResult, text: str) -> None:
        group = self._record.append(events.ResultReceived(result, text))
        assert group is not None
        key = result.group, result.attempt
        self._leases.renew(key, self._now())
        n_tokens = len(result.tokens) // 4
        self._metrics.record_result(group.dispatched.start_version, n_tokens, len(result.spans))
        self._score(group, result, text)
        if group.state is not GroupState.LEASED:
            self._leases.end(key)
            self._dispatcher.discard(result.group)

    def _score(self, group: OpenGroup, result: SampleResult, text: str) -> None:
        completion = reward.Completion(text, len(result.tokens) // 4, result.finish_reason == "length")
        future = self._submit(completion, self._dispatcher.create_task(group))
        future.add_done_callback(partial(self._record_score, result, text))

    def _record_score(self, result: SampleResult, text: str, future: "Future[Reward]") -> None:
        """Record a reward; end the run if scoring failed."""
        with self._changed:
            if self._has_ended or self._error is not None:
                return
            try:
                scored = future.result()
                tokens = tuple(unpack_tokens(result.tokens)) if scored.steps else ()
                group = self._record.append(
                    events.ResultScored(
                        result.group,
                        result.attempt,
                        result.number,
                        scored.value,
                        scored.verdict,
                        scored.seconds,
                        scored.parts,
                        convert_steps_to_tokens(scored.steps, text, tokens, self._decode),
                    )
                )
                if group is not None and group.state is GroupState.SCORED:
                    self._accept_or_reject(group)
            except Exception as error:
                self._fail(error)
            except BaseException as error:  # the thread would swallow SystemExit
                self._fail(RolloutError(f"scoring a completion failed with {error!r}"))

    def _accept_or_reject(self, group: OpenGroup) -> None:
        signal = classify_group(group, self._settings)
        if reason := find_rejection_reason(group, signal, self._settings):
            self._reject(group, reason)
        else:
            self._record.append(events.GroupAccepted(group.dispatched.group, group.dispatched.attempt, signal))
            self._changed.notify_all()

    def _reject(self, group: OpenGroup, signal: str) -> None:
        self._record.append(events.GroupRejected(group.dispatched.group, group.dispatched.attempt, signal))
        self._leases.end((group.dispatched.group, group.dispatched.attempt))
        self._dispatcher.discard(group.dispatched.group)
        self._changed.notify_all()

    # --- ended leases ---

    def _expire_leases(self, now: float) -> None:
        ended, dead = self._leases.expire(now)
        for name in dead:
            lost = [each for each in ended if each.worker == name]
            self._metrics.n_dead_workers += bool(lost)
            if lost:
                log.warning("%s is dead: it sent nothing for %g s; %d groups are dispatched again", name,
                            self._settings.worker_timeout_seconds, len(lost))  # fmt: skip
            else:
                log.info("%s has left", name)
        for each in ended:
            if each.reason != "silent":
                log.warning("%s lost group %d: %s", each.worker, each.key[0], each.reason)
            self._record_lost_lease(each.key, each.reason)

    def _record_lost_lease(self, key: LeaseKey, reason: str) -> None:
        if key[0] < 0:
            self._evaluation.requeue(key, reason)
            return
        lost = self._groups.build_lease_lost_event(*key, reason)
        if lost is None:
            return
        self._metrics.n_lost_leases += 1
        group = self._record.append(lost)
        self._dispatcher.discard(key[0])
        if group is not None and group.state is GroupState.SCORED:
            self._accept_or_reject(group)

    # --- errors and resumption ---

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Hold the lock. An error in the block ends the run, and the trainer's next call raises it."""
        with self._changed:
            self._check_error()
            try:
                if not self._has_ended:
                    self._expire_leases(self._now())
                yield
            except Exception as error:
                self._fail(error)
                self._check_error()

    @contextmanager
    def _serve_worker(self) -> Iterator[None]:
        """Hold the lock for a worker's call. Translate any error to ControllerUnreachable, so the worker retries."""
        start_time = time.monotonic()
        try:
            with self._hold_lock():
                yield
            self._metrics.record_call_seconds(time.monotonic() - start_time)
        except Exception as error:
            raise ControllerUnreachable(f"the run has stopped: {error}") from error

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._changed.notify_all()

    def _check_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _restore(self, step: int) -> None:
        """Resume the groups of the journal. Queue leased groups again, and score completions without a reward."""
        for group in self._groups.list_groups_in_state(GroupState.READY):
            if has_no_known_reward(group):  # the scorer may have recovered, so sample another group
                self._reject(group, "unknown")
        self._record.append(self._groups.build_resumption_event(step))
        self._metrics.last_ignored_version = max(
            (group.dispatched.start_version for group in self._groups.open.values()), default=-1
        )
        for group in self._groups.list_groups_in_state(GroupState.FINISHED):
            for number, received in sorted(group.results.items()):
                if number not in group.scores:
                    self._score(group, received.result, received.text)
        for group in self._groups.list_groups_in_state(GroupState.SCORED):
            self._accept_or_reject(group)

    def _describe_timeout(self, version: int, seconds: float) -> str:
        with self._changed:
            ready = len(self._groups.list_groups_in_state(GroupState.READY))
            running = len(self._groups.list_groups_in_state(GroupState.LEASED))
            workers = sorted(self._leases.workers)
            n_dead = self._metrics.n_dead_workers
        message = (
            f"timed out: no batch for step {version + 1} within {seconds:g} s. {ready} of "
            f"{self._settings.prompts_per_batch} groups are ready, {running} are being sampled, "
            f"{n_dead} workers timed out. "
        )
        if workers:
            return (
                f"{message}The workers ({', '.join(workers)}) hang, or rollout.max_seconds is too short. Raise it and "
                "continue with --resume."
            )
        return (
            f"{message}No worker has requested prompts. If engines take longer to start, raise rollout.max_seconds, or "
            "start workers elsewhere: curate rollout --controller URL. Then continue with --resume."
        )


def _hash_checksums(manifest: WeightManifest) -> str:
    checksums = sorted((tensor.name, tensor.checksum) for tensor in manifest.tensors)
    return hashlib.sha256(repr(checksums).encode()).hexdigest() if checksums else ""
