"""The rules by which groups are asked and batches are cut: settings, load balancing, and the groups with their journal.

A worker gets groups within the staleness bound, and balanced against the load of the other workers. Groups and journal
change only together: every event is recorded before it has an effect. A resumed run replays its journal: batches
recorded after the checkpoint are returned first, then new ones are taken.
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
from train.errors import RolloutError, recovery_hint
from train.rollouts.groups import Group, sample_seed, signal_from_rewards
from train.rollouts.prompt_dataset import TrainingPrompt
from train.sampling.protocol import SamplingParams


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The rules by which groups are asked and batches are cut.

    prompts_per_batch            groups in a batch
    completions_per_prompt       answers in a group
    total_steps                  batches that the run takes in all
    max_tokens                   length limit of the answers to groups that are asked now
    max_staleness                versions between the birth of a group and the version that trains on it, at most
    max_running_groups           groups that are generated at the same time, at most; 0: as many as the staleness
                                 allows
    online_filter                whether groups that teach nothing are given up and replaced
    max_rounds                   a batch is cut short if more than (max_rounds - 1) * prompts groups were given up for
                                 it
    count_truncated_rewards      whether the reward of an answer that was cut off counts
    process_supervision          whether the rewards of steps teach, instead of those of whole answers
    worker_timeout_seconds       a worker that says nothing for so long is dead
    min_lease_seconds            lower bound of the time in which a lease must make progress
    weight_load_timeout_seconds  a worker may draw nothing for so long after new weights were published: it loads them
    vocab_size                   token ids are below this number
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


def next_batch(groups: Groups, settings: ControllerSettings, *, is_complete: bool = False) -> list[OpenGroup] | None:
    """Return the groups that can be trained on now, or None if they are not ready.

    is_complete: whether no others will come

    The list is empty if nothing can be learned: max_rounds rounds of groups taught nothing, or no reward is known. Such
    a cut is not recorded, since a recorded one would end the run again whenever it is resumed.
    """
    n_most_rejected = settings.max_rounds * settings.prompts_per_batch
    if (is_complete or groups.n_rejected >= n_most_rejected) and not groups.groups_in_state(GroupState.READY):
        return []
    short = is_complete or groups.n_rejected > n_most_rejected - settings.prompts_per_batch
    numbers = groups.select_batch(
        prompts=settings.prompts_per_batch, max_staleness=settings.max_staleness, allow_partial=short
    )
    if numbers is None:
        return None
    batch = [groups.open[number] for number in numbers]
    return [] if all(has_no_known_reward(group) for group in batch) else batch


def rejection_reason(group: OpenGroup, taught: str, settings: ControllerSettings) -> str:
    """Return why a scored group that taught this (`open_group_signal`) is given up, or "" if it can be trained on."""
    return taught if not group.answers or (settings.online_filter and taught != "some") else ""


def open_group_signal(group: OpenGroup, settings: ControllerSettings) -> str:
    """Return what a scored group teaches (train.rollouts.groups.signal_from_rewards), or "lost" if all of its
    answers were lost."""
    if not group.answers:
        return "lost"
    of_steps = group.step_rewards() if settings.process_supervision else ()
    return signal_from_rewards(
        group.task_rewards(), count_truncated=settings.count_truncated_rewards, step_rewards=of_steps
    )


def has_no_known_reward(group: OpenGroup) -> bool:
    """Return whether no reward of the group is known."""
    return all(isnan(value) for value, _ in group.task_rewards())


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """A worker that waits for groups.

    load              groups that it samples now
    free_group_slots  further groups for which it has room
    capacity          further groups that the bound on staleness allows it, with its weights
    """

    load: int
    free_group_slots: int
    capacity: int


def count_groups_for_worker(loads: Mapping[str, WorkerLoad], name: str, max_groups: int) -> int:
    """Return how many of at most `max_groups` groups a worker gets if each goes to the worker with the least to do.

    A worker that asks first must not be filled while others stay idle: a step ends with its slowest worker.
    """
    heap = [(room.load, other != name, other) for other, room in loads.items() if room.free_group_slots]
    heapq.heapify(heap)
    given: dict[str, int] = {}
    for dealt in range(max_groups):
        while heap and (
            given.get(heap[0][2], 0) >= loads[heap[0][2]].free_group_slots or dealt >= loads[heap[0][2]].capacity
        ):
            heapq.heappop(heap)
        if not heap:
            break
        load, is_other, first = heap[0]
        given[first] = given.get(first, 0) + 1
        heapq.heapreplace(heap, (load + 1, is_other, first))
    return given.get(name, 0)


class JournaledGroups:
    """The groups as the journal has them. Callers hold the controller's lock, except in `sync` and `replay_batch`.

    recorder                  the journal, open for writing, or NullJournal()
    step                      steps that the trainer has made: a checkpoint's, or 0
    position                  position in the data of the first prompt, if the journal does not know better

    groups                    their states; only methods of this class change them
    first_unrecorded_version  the version of the first cut that was not recorded when this began

    Raises CheckpointError if the journal is damaged, and RolloutError if it cannot be written.
    """

    def __init__(self, recorder: journal.NullJournal, *, step: int, position: int) -> None:
        self.groups = Groups()
        self._journal = recorder
        self._recorded: Iterator[tuple[int, list[Group]]] = iter(())
        for event in recorder.history():
            self.groups.apply(event)
        if self.groups.batches_taken < step:  # batches were taken without this journal
            first = max(self.groups.next_group, position)
            self.groups.apply(events.SegmentStarted(step, first, max(self.groups.next_position, position)))
        elif self.groups.next_group == 0:
            self.groups.next_position = position
        elif step < self.groups.batches_taken:
            self._recorded = journal.replay_batches(recorder.history(), step)
        self.first_unrecorded_version = self.groups.batches_taken
        # A killed process can have left the segment without its first event, or not have begun it.
        self._begin_segment()

    def append(self, event: Event) -> OpenGroup | None:
        """Record an event, and return the group that it changed. Raises RolloutError."""
        with _writing():
            self._journal.append(event)
        return self.groups.apply(event)

    def take_batch(self, batch: Sequence[OpenGroup]) -> None:
        """Record that these groups are the next batch. Raises RolloutError."""
        cut = events.BatchTaken(
            self.groups.batches_taken,
            tuple(
                (group.dispatched.group, group.dispatched.attempt, group.dispatched.start_version) for group in batch
            ),
        )
        with _writing():
            self._journal.append(cut)
        self.groups.take(cut)
        self._begin_segment()

    def ask_again_from(self, position: int) -> None:
        """Let the next new group be that of an earlier position. Raises RolloutError."""
        self.append(events.SegmentStarted(self.groups.batches_taken, self.groups.next_group, position))

    def replay_batch(self, version: int) -> list[Group]:
        """Return the groups of a cut that the journal had when this began; each can be had once, in their order."""
        recorded, groups = next(self._recorded, (-1, []))
        if recorded != version:
            raise ValueError(f"the cut of version {version} was handed out before")
        if version + 1 == self.first_unrecorded_version:
            self._recorded = iter(())  # it would read on in a file that is being written
        return groups

    def sync(self) -> None:
        """Return when everything that happened is on disk. Raises RolloutError."""
        with _writing():
            self._journal.sync()

    def prune(self, segments_before: int) -> None:
        """Remove old segments of the journal. Raises OSError."""
        self._journal.prune(segments_before)

    def close(self) -> None:
        self._journal.close()

    def _begin_segment(self) -> None:
        with _writing():
            self._journal.rotate(self.groups.segment_header())


@contextmanager
def _writing() -> Iterator[None]:
    """Say what an error of the disk means. Raises RolloutError."""
    try:
        yield
    except OSError as error:
        raise RolloutError(
            f"the journal cannot be written: {error}. {recovery_hint(error)}; the same command with --resume continues."
        ) from error


_IDLE_WINDOW_SECONDS = 2.0  # a worker that asked within this time and got less than it has room for still waits


class PromptSource(Protocol):
    """The questions of a run (train/rollouts/prompt_dataset.py)."""

    def prompt_at(self, position: int) -> TrainingPrompt: ...


class Dispatcher:
    """Asks for groups. Callers of its methods hold the controller's lock.

    max_tokens  length limit of the answers to groups that are asked from now on
    """

    def __init__(
        self,
        questions: PromptSource,
        settings: ControllerSettings,
        record: JournaledGroups,
        leases: LeaseTable,
        seed: int,
    ) -> None:
        self.max_tokens = settings.max_tokens
        self._prompts = questions
        self._settings = settings
        self._record = record
        self._leases = leases
        self._seed = seed
        self._open: dict[int, TrainingPrompt] = {}

    def capacity(self, loaded_version: int) -> int:
        """Return how many groups may be asked now of workers with these weights."""
        groups, settings = self._record.groups, self._settings
        most = groups.capacity(
            loaded_version,
            prompts=settings.prompts_per_batch,
            max_staleness=settings.max_staleness,
            steps=settings.total_steps,
        )
        if settings.max_running_groups:
            most = min(most, settings.max_running_groups - groups.n_leased)
        return max(0, most)

    def waiting_workers(self, now: float) -> Mapping[str, WorkerLoad]:
        """Return what room the workers have that wait for groups."""
        return {
            name: WorkerLoad(worker.n_leases, worker.free_group_slots, self.capacity(worker.loaded_version))
            for name, worker in self._leases.workers.items()
            if worker.free_group_slots > 0
            and now - worker.last_request <= _IDLE_WINDOW_SECONDS
            and worker.loaded_version >= 0
        }

    def dispatch(self, worker: str, loaded_version: int, now: float) -> Lease:
        """Ask a worker with these weights for the next group. Raises RolloutError if that cannot be recorded."""
        waiting, settings = self._record.groups.next_to_dispatch(), self._settings
        question = self._prompts.prompt_at(waiting.position)
        self._record.append(
            events.GroupDispatched(
                waiting.group,
                waiting.attempt,
                waiting.position,
                loaded_version,
                worker,
                settings.completions_per_prompt,
                self.max_tokens,
                question.id,
                pack_tokens(question.prompt_ids),
                question.source,
                waiting.n_lost,
            )
        )
        self._open[waiting.group] = question
        seeds = tuple(
            sample_seed(self._seed, waiting.position, number) for number in range(settings.completions_per_prompt)
        )
        draw = SamplingParams(settings.temperature, 1.0, self.max_tokens, logprobs=True)
        seconds = self._leases.grant((waiting.group, waiting.attempt), worker, now)
        return Lease(waiting.group, waiting.attempt, loaded_version, question.prompt_ids, seeds, draw, seconds)

    def task(self, group: OpenGroup) -> reward.Task:
        """Return what the answers of a group are judged by."""
        question = self._open.get(group.dispatched.group) or self._prompts.prompt_at(group.dispatched.position)
        return replace(question.task, max_tokens=group.dispatched.max_tokens)

    def discard(self, group: int) -> None:
        """Forget the question of a group for which no answers are awaited any more."""
        self._open.pop(group, None)
