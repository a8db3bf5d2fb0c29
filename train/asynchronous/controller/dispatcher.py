"""Dispatch groups to workers, within the staleness bound and balanced against the other workers' load."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from rewards import reward
from train.asynchronous.binary_arrays import pack_tokens
from train.asynchronous.controller.journaled_groups import JournaledGroups
from train.asynchronous.controller.leases import LeaseTable
from train.asynchronous.controller.load_balancing import WorkerLoad
from train.asynchronous.controller.settings import ControllerSettings
from train.asynchronous.groups import events
from train.asynchronous.groups.open_group import OpenGroup
from train.asynchronous.messages import Lease
from train.rollouts.batch_collector import sample_seed
from train.rollouts.prompt_dataset import TrainingPrompt
from train.sampling.protocol import SamplingParams

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
