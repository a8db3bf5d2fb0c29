"""A run in which workers die, hang, come late, repeat themselves and send nonsense, and the learner is killed: chance
decides, from a seed. What is trained on is checked as it comes."""

import random
from concurrent.futures import Future
from dataclasses import replace
from math import isnan
from typing import Any

import fleet
from fleet import Clock, MemoryJournal, Worker, answer_to, publish

from rewards.reward import Completion as Scorable
from rewards.reward import Reward, Task
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.journal import NullJournal
from train.asynchronous.messages import Lease, SampleResult
from train.rollouts.groups import Group


class Run:
    """A run of some steps under random faults.

    trained   the groups of each version, as they were first trained on
    restarts  how often the learner was killed
    """

    def __init__(
        self, seed: int, *, steps: int, journal: NullJournal | None = None, max_faults: int = 120, **settings: Any
    ) -> None:
        self.rng = rng = random.Random(seed)
        drawn = ControllerSettings(
            prompts_per_batch=rng.randint(1, 3),
            completions_per_prompt=rng.randint(1, 3),
            total_steps=steps,
            max_tokens=8,
            max_staleness=rng.choice([0, 1, 1, 2, 4]),
            max_running_groups=rng.choice([0, 0, 1, 4]),
            online_filter=rng.random() < 0.5,
            max_rounds=rng.randint(2, 8),
        )
        self.settings = replace(drawn, **settings)
        self.journal = journal or MemoryJournal()
        self.clock = Clock()
        self.trained: dict[int, list[Group]] = {}
        self.checkpoint = self.position = self.restarts = self.names = 0
        self.workers: list[Worker] = []
        self.sent: list[SampleResult] = []
        self.actions_left = max_faults
        self.begin()
        self.workers = [self.new_worker() for _ in range(rng.randint(1, 3))]

    def begin(self) -> None:
        """Start the controller at the newest checkpoint; workers live on."""
        self.step = self.checkpoint
        self.open_rewards: list[tuple[Future[Reward], Reward]] = []
        self.controller = fleet.controller(
            self.settings, self.journal, submit=self.submit, now=self.clock, step=self.step, position=self.position
        )
        publish(self.controller, self.step)
        for worker in self.workers:
            worker.controller = self.controller

    def run(self) -> None:
        """Let chance act for a while, then let one sound worker bring the run to its end."""
        chances = [
            (self.ask, 6), (self.answer, 12), (self.reward, 12), (self.train, 8), (self.load, 4), (self.pass_time, 3),
            (self.repeat, 2), (self.die, 0.5), (self.hang, 0.3), (self.lose_reply, 0.5), (self.send_nonsense, 0.3),
            (self.kill_learner, 0.3),
        ]  # fmt: skip
        actions, weights = zip(*chances, strict=True)
        while self.step < self.settings.total_steps and self.actions_left:
            self.actions_left -= 1
            self.rng.choices(actions, weights)[0]()
        self.workers = [self.new_worker()]
        for _ in range(400 + 40 * self.settings.total_steps):
            if self.step >= self.settings.total_steps:
                return
            for action in (self.load, self.ask, *[self.answer] * 6, *[self.reward] * 6, self.train, self.pass_time):
                action()
        raise AssertionError(f"the run is stuck at step {self.step}: {self.controller.collect_metrics()}")

    def new_worker(self) -> Worker:
        self.names += 1
        worker = Worker(self.controller, f"w{self.names}", -1)
        worker.load()
        return worker

    def submit(self, answer: Scorable, task: Task) -> "Future[Reward]":
        future: Future[Reward] = Future()
        if self.rng.random() < 0.1:
            future.set_result(reward_of(answer.text))
        else:
            self.open_rewards.append((future, reward_of(answer.text)))
        return future

    # --- what may happen ---

    def a_worker(self) -> Worker:
        return self.rng.choice(self.workers)

    def ask(self) -> None:
        self.a_worker().ask(self.rng.randint(0, 9))

    def load(self) -> None:
        self.a_worker().load()

    def answer(self) -> None:
        worker = self.a_worker()
        if not worker.leases:
            return
        lease = self.rng.choice(worker.leases)
        numbers = list(range(len(lease.seeds)))
        self.rng.shuffle(numbers)
        if self.rng.random() < 0.3:
            numbers = numbers[: self.rng.randint(1, len(numbers))]
        else:
            worker.leases.remove(lease)
        answers = [self.interrupted(worker, lease, number) for number in numbers]
        self.sent = [*self.sent[-9:], *answers]
        if self.rng.random() < 0.95:  # else they come late, if at all
            assert "broken" not in worker.send(*answers)

    def interrupted(self, worker: Worker, lease: Lease, number: int) -> SampleResult:
        """Return an answer whose last tokens are drawn with the weights that the worker has now."""
        if worker.loaded <= lease.version:
            return answer_to(lease, number)
        return answer_to(lease, number, spans=((lease.version, 0, 1), (worker.loaded, 1, 4)))

    def reward(self) -> None:
        if self.open_rewards:
            future, worth = self.open_rewards.pop(self.rng.randrange(len(self.open_rewards)))
            future.set_result(worth)

    def repeat(self) -> None:
        if self.sent:
            self.a_worker().send(self.rng.choice(self.sent))

    def die(self) -> None:
        self.workers.remove(self.a_worker())
        self.workers.append(self.new_worker())

    def lose_reply(self) -> None:
        worker = self.a_worker()
        before = list(worker.leases)
        worker.ask(self.rng.randint(1, 9))
        worker.leases = before

    def hang(self) -> None:
        self.pass_time(seconds=70, tokens_per_second=0.0)

    def pass_time(self, seconds: float | None = None, tokens_per_second: float = 1.0) -> None:
        until = self.clock.seconds + (self.rng.uniform(1, 25) if seconds is None else seconds)
        silent = self.a_worker() if self.rng.random() < 0.2 else None
        while self.clock.seconds < until:
            self.clock.seconds += 4
            for worker in self.workers:
                if worker is not silent:
                    worker.beat(tokens_per_second)
            self.controller.expire_leases()

    def send_nonsense(self) -> None:
        worker = self.a_worker()
        if worker.leases:
            worker.send(answer_to(worker.leases[0], 0, spans=((0, 2, 3),)))

    def kill_learner(self) -> None:
        self.restarts += 1
        self.begin()

    def train(self) -> None:
        groups = self.controller.try_take_batch(self.step)
        if groups is None:
            return
        if not groups:
            if self.settings.online_filter:  # a hopeless run is over
                self.step = self.settings.total_steps
            else:  # no reward is known: the run has ended, and is resumed
                self.kill_learner()
            return
        self.check(groups)
        self.step += 1
        publish(self.controller, self.step)
        if self.rng.random() < 0.5:
            self.checkpoint, self.position = self.step, self.controller.position
            self.controller.prune_journal(self.checkpoint)

    def check(self, groups: list[Group]) -> None:
        rollouts = [rollout for group in groups for rollout in group]
        versions = {version for rollout in rollouts for version in rollout.versions}
        assert versions <= set(range(self.step - self.settings.max_staleness, self.step + 1))
        assert all(len(rollout.token_ids) == len(rollout.logprobs) == len(rollout.versions) for rollout in rollouts)
        for rollout in rollouts:
            assert rollout.reward == reward_of(rollout.text).value or isnan(rollout.reward)
        assert self.trained.setdefault(self.step, groups) == groups, "a cut that was recorded is another one now"

    def used(self) -> list[str]:
        """Return the ids of all problems that were trained on, one for each group."""
        return [group[0].problem_id for groups in self.trained.values() for group in groups]


def reward_of(text: str) -> Reward:
    chance = random.Random(text).random()
    return Reward(None if chance < 0.05 else float(chance < 0.5), "accepted")
