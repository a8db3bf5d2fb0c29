"""Which groups a worker is asked for: as many as the bound on staleness and the other workers leave to it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from rewards import reward
from train.asynchronous.controller.dealing import Room
from train.asynchronous.controller.leases import Leases
from train.asynchronous.controller.record import Record
from train.asynchronous.controller.settings import Settings
from train.asynchronous.groups import events
from train.asynchronous.groups.open_group import OpenGroup
from train.asynchronous.messages import Draw, Lease
from train.asynchronous.packed import pack_tokens
from train.rollouts.batch import sample_seed
from train.rollouts.questions import Question

_HUNGRY_SECONDS = 2.0  # a worker that asked within this time and got less than it has room for still waits


class AsksAt(Protocol):
    """The questions of a run (train/rollouts/questions.py)."""

    def at(self, position: int) -> Question: ...


class Asking:
    """Asks for groups. Callers of its methods hold the controller's lock.

    max_tokens  length limit of the answers to groups that are asked from now on
    """

    def __init__(self, questions: AsksAt, settings: Settings, record: Record, leases: Leases, seed: int) -> None:
        self.max_tokens = settings.max_tokens
        self._questions = questions
        self._settings = settings
        self._record = record
        self._leases = leases
        self._seed = seed
        self._open: dict[int, Question] = {}

    def most(self, loaded: int) -> int:
        """Return how many groups may be asked now of workers with these weights."""
        groups, settings = self._record.groups, self._settings
        most = groups.capacity(loaded, prompts=settings.prompts, most_stale=settings.staleness, steps=settings.steps)
        if settings.most_running:
            most = min(most, settings.most_running - groups.n_leased)
        return max(0, most)

    def rooms(self, now: float) -> Mapping[str, Room]:
        """Return what room the workers have that wait for groups."""
        return {
            name: Room(worker.n_leases, worker.free_groups, self.most(worker.loaded))
            for name, worker in self._leases.workers.items()
            if worker.free_groups > 0 and now - worker.asked <= _HUNGRY_SECONDS and worker.loaded >= 0
        }

    def ask(self, worker: str, loaded: int, now: float) -> Lease:
        """Ask a worker with these weights for the next group. Raises RolloutError if that cannot be recorded."""
        waiting, settings = self._record.groups.to_ask(), self._settings
        question = self._questions.at(waiting.position)
        self._record.happened(
            events.Asked(
                waiting.group,
                waiting.attempt,
                waiting.position,
                loaded,
                worker,
                settings.completions,
                self.max_tokens,
                question.id,
                pack_tokens(question.prompt_ids),
                question.source,
                waiting.losses,
            )
        )
        self._open[waiting.group] = question
        seeds = tuple(sample_seed(self._seed, waiting.position, number) for number in range(settings.completions))
        draw = Draw(settings.temperature, 1.0, self.max_tokens)
        seconds = self._leases.grant((waiting.group, waiting.attempt), worker, now)
        return Lease(waiting.group, waiting.attempt, loaded, question.prompt_ids, seeds, draw, seconds)

    def task(self, group: OpenGroup) -> reward.Task:
        """Return what the answers of a group are judged by."""
        question = self._open.get(group.asked.group) or self._questions.at(group.asked.position)
        return replace(question.task, max_tokens=group.asked.max_tokens)

    def answered(self, group: int) -> None:
        """Forget the question of a group for which no answers are awaited any more."""
        self._open.pop(group, None)
