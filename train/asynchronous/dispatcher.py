"""Dispatch of groups to workers, selection of batches, and the groups with their journal.

A worker gets groups within the staleness bound, balanced against the load of the other workers.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isnan
from typing import Protocol

from rewards import reward
from train.asynchronous import events, journal
from train.asynchronous.events import Event
from train.asynchronous.group_states import Groups, GroupState, OpenGroup
from train.asynchronous.leases import LeaseTable
from train.asynchronous.messages import Lease, pack_tokens
from train.errors import RolloutError, suggest_remedy
from train.rollouts.groups import Group, classify_signal, derive_sample_seed
from train.rollouts.prompt_dataset import TrainingPrompt
from train.sampling.protocol import SamplingParams


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The settings for dispatch and batches.

    prompts_per_batch            groups in a batch
    completions_per_prompt       completions in a group
    total_steps                  batches in the whole run
    max_tokens                   initial length limit of completions
    max_staleness                maximum difference between the version that trains on a group and its start version
    max_running_groups           maximum number of groups in sampling; 0: bounded only by max_staleness
    online_filter                whether groups without a learning signal are rejected and replaced
    max_rounds                   maximum rounds of rejected groups; in the last round, the batch may be partial
    count_truncated_rewards      whether rewards of truncated completions count
    process_supervision          whether advantages come from the rewards of steps, not of whole completions
    worker_timeout_seconds       time without a call after which a worker counts as dead
    min_lease_seconds            minimum time without progress after which a lease expires
    weight_load_timeout_seconds  time after a publication in which workers may load weights and leases do not expire
    vocab_size                   upper bound (exclusive) of token ids
    """

    prompts_per_batch: int
    completions_per_prompt: int
    total_steps: int
    max_tokens: int
    max_staleness: int = 1
    max_running_groups: int = 0
    online_filter: bool = True
    max_rounds: int = 4
    temperature: float = 1.0
    count_truncated_rewards: bool = True
    process_supervision: bool = False
    worker_timeout_seconds: float = 15.0
    min_lease_seconds: float = 60.0
    weight_load_timeout_seconds: float = 600.0
    vocab_size: int = 2**32


def select_next_batch(
    groups: Groups, settings: ControllerSettings, *, is_complete: bool = False
) -> list[OpenGroup] | None:
    """Return the groups of the next batch; None if more groups must be ready first.

    is_complete: whether no further groups will arrive

    Empty if max_rounds rounds of groups had no signal, or no reward is known. Callers must not journal an empty batch:
    it ends the run, and a replay of it would end every resumed run, too.
    """
    max_rejected = settings.max_rounds * settings.prompts_per_batch
    if (is_complete or groups.n_rejected >= max_rejected) and not groups.list_groups_in_state(GroupState.READY):
        return []
    allow_partial = is_complete or groups.n_rejected > max_rejected - settings.prompts_per_batch
    numbers = groups.select_batch(
        prompts=settings.prompts_per_batch, max_staleness=settings.max_staleness, allow_partial=allow_partial
    )
    if numbers is None:
        return None
    batch = [groups.open[number] for number in numbers]
    return [] if all(has_no_known_reward(group) for group in batch) else batch


def find_rejection_reason(group: OpenGroup, signal: str, settings: ControllerSettings) -> str:
    """Return the reason to reject a scored group with this signal of `classify_group`; "" if it is trainable."""
    return signal if not group.results or (settings.online_filter and signal != "some") else ""


def classify_group(group: OpenGroup, settings: ControllerSettings) -> str:
    """Classify a scored group's signal as `classify_signal` does; "lost" if it has no completions."""
    if not group.results:
        return "lost"
    step_rewards = group.list_step_rewards() if settings.process_supervision else ()
    return classify_signal(
        group.compute_task_rewards(), count_truncated=settings.count_truncated_rewards, step_rewards=step_rewards
    )


def has_no_known_reward(group: OpenGroup) -> bool:
    return all(isnan(value) for value, _ in group.compute_task_rewards())


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """The load of a worker that waits for groups.

    n_leases          number of its leased groups
    free_group_slots  number of further groups that fit into its free slots
    capacity          number of further groups that the staleness bound allows for its weights
    """

    n_leases: int
    free_group_slots: int
    capacity: int


def count_groups_for_worker(loads: Mapping[str, WorkerLoad], name: str, max_groups: int) -> int:
    """Assign `max_groups` groups to the least loaded workers, and return the number that worker `name` gets.

    If the first worker to request got all groups, others would be idle, and a step ends with its slowest worker.
    """
    heap = [(waiting.n_leases, other != name, other) for other, waiting in loads.items() if waiting.free_group_slots]
    heapq.heapify(heap)
    assigned: dict[str, int] = {}
    for n_assigned in range(max_groups):
        while heap and (
            assigned.get(heap[0][2], 0) >= loads[heap[0][2]].free_group_slots
            or n_assigned >= loads[heap[0][2]].capacity
        ):
            heapq.heappop(heap)
        if not heap:
            break
        load, is_other, first = heap[0]
        assigned[first] = assigned.get(first, 0) + 1
        heapq.heapreplace(heap, (load + 1, is_other, first))
    return assigned.get(name, 0)


class JournaledGroups:
    """The groups with a write-ahead journal: each event is recorded before it changes the groups.

    Callers hold the controller's lock, except for `sync` and `replay_batch`.

    recorder                  the journal, open for writing, or NullJournal()
    step                      last completed step: the checkpoint's, or 0
    position                  position in the data of the first prompt, unless the journal has a later one
    groups                    changed only by methods of this class
    first_unrecorded_version  version of the first batch that was not in the journal at the start

    Raises CheckpointError if the journal is damaged, and RolloutError if it cannot be written.
    """

    def __init__(self, recorder: journal.NullJournal, *, step: int, position: int) -> None:
        self.groups = Groups()
        self._journal = recorder
        self._recorded: Iterator[tuple[int, list[Group]]] = iter(())
        for event in recorder.read_history():
            self.groups.apply(event)
        if self.groups.batches_taken < step:  # the journal lacks batches, for example because it was deleted
            first = max(self.groups.next_group, position)
            self.groups.apply(events.SegmentStarted(step, first, max(self.groups.next_position, position)))
        elif self.groups.next_group == 0:
            self.groups.next_position = position
        elif step < self.groups.batches_taken:
            self._recorded = journal.replay_batches(recorder.read_history(), step)
        self.first_unrecorded_version = self.groups.batches_taken
        # SIGKILL may have left the segment missing or empty.
        self._begin_segment()

    def append(self, event: Event) -> OpenGroup | None:
        """Record an event, and return the group that it changed. Raises RolloutError."""
        with _translate_write_errors():
            self._journal.append(event)
        return self.groups.apply(event)

    def take_batch(self, batch: Sequence[OpenGroup]) -> None:
        """Record that these groups are the next batch. Raises RolloutError."""
        taken = events.BatchTaken(
            self.groups.batches_taken,
            tuple(
                (group.dispatched.group, group.dispatched.attempt, group.dispatched.start_version) for group in batch
            ),
        )
        with _translate_write_errors():
            self._journal.append(taken)
        self.groups.take(taken)
        self._begin_segment()

    def rewind_to(self, position: int) -> None:
        """Move the position of the next new group back to `position`. Raises RolloutError."""
        self.append(events.SegmentStarted(self.groups.batches_taken, self.groups.next_group, position))

    def replay_batch(self, version: int) -> list[Group]:
        """Return a batch that was in the journal at the start. Call once for each version, in order."""
        recorded, groups = next(self._recorded, (-1, []))
        if recorded != version:
            raise ValueError(f"the batch of version {version} was already replayed")
        if version + 1 == self.first_unrecorded_version:
            self._recorded = iter(())  # stop before the segment that this process writes
        return groups

    def sync(self) -> None:
        """Fsync the journal. Raises RolloutError."""
        with _translate_write_errors():
            self._journal.sync()

    def prune(self, segments_before: int) -> None:
        self._journal.prune(segments_before)

    def close(self) -> None:
        self._journal.close()

    def _begin_segment(self) -> None:
        with _translate_write_errors():
            self._journal.rotate(self.groups.build_segment_header())


@contextmanager
def _translate_write_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RolloutError(
            f"the journal cannot be written: {error}. {suggest_remedy(error)}; the same command with --resume "
            "continues."
        ) from error


_IDLE_WINDOW_SECONDS = 2.0  # a worker with free slots counts as waiting until this time after its last request


class PromptSource(Protocol):
    """The part of PromptDataset (train/rollouts/prompt_dataset.py) that the dispatcher uses."""

    def get_prompt(self, position: int) -> TrainingPrompt: ...


class Dispatcher:
    """A dispatcher of groups to workers. Callers hold the controller's lock.

    max_tokens: length limit of completions of later groups
    """

    def __init__(
        self,
        prompts: PromptSource,
        settings: ControllerSettings,
        record: JournaledGroups,
        leases: LeaseTable,
        seed: int,
    ) -> None:
        self.max_tokens = settings.max_tokens
        self._prompts = prompts
        self._settings = settings
        self._record = record
        self._leases = leases
        self._seed = seed
        self._open: dict[int, TrainingPrompt] = {}

    def compute_capacity(self, loaded_version: int) -> int:
        """Return the number of further groups that workers with these weights may get."""
        groups, settings = self._record.groups, self._settings
        capacity = groups.compute_capacity(
            loaded_version,
            prompts=settings.prompts_per_batch,
            max_staleness=settings.max_staleness,
            steps=settings.total_steps,
        )
        if settings.max_running_groups:
            capacity = min(capacity, settings.max_running_groups - groups.n_leased)
        return max(0, capacity)

    def list_waiting_workers(self, now: float) -> Mapping[str, WorkerLoad]:
        """Return the loads of the workers that wait for groups, by name."""
        return {
            name: WorkerLoad(worker.n_leases, worker.free_group_slots, self.compute_capacity(worker.loaded_version))
            for name, worker in self._leases.workers.items()
            if worker.free_group_slots > 0
            and now - worker.last_request <= _IDLE_WINDOW_SECONDS
            and worker.loaded_version >= 0
        }

    def dispatch(self, worker: str, loaded_version: int, now: float) -> Lease:
        """Lease the next group to a worker with these weights. Raises RolloutError if the journal cannot be written."""
        pending, settings = self._record.groups.peek_next_group(), self._settings
        prompt = self._prompts.get_prompt(pending.position)
        self._record.append(
            events.GroupDispatched(
                pending.group,
                pending.attempt,
                pending.position,
                loaded_version,
                worker,
                settings.completions_per_prompt,
                self.max_tokens,
                prompt.id,
                pack_tokens(prompt.prompt_ids),
                prompt.source,
                pending.n_lost,
            )
        )
        self._open[pending.group] = prompt
        seeds = tuple(
            derive_sample_seed(self._seed, pending.position, number)
            for number in range(settings.completions_per_prompt)
        )
        params = SamplingParams(settings.temperature, 1.0, self.max_tokens, logprobs=True)
        seconds = self._leases.grant((pending.group, pending.attempt), worker, now)
        return Lease(pending.group, pending.attempt, loaded_version, prompt.prompt_ids, seeds, params, seconds)

    def create_task(self, group: OpenGroup) -> reward.Task:
        """Return the task that scores the completions of a group."""
        prompt = self._open.get(group.dispatched.group) or self._prompts.get_prompt(group.dispatched.position)
        return replace(prompt.task, max_tokens=group.dispatched.max_tokens)

    def discard(self, group: int) -> None:
        """Free the prompt of a group that will get no more completions."""
        self._open.pop(group, None)
