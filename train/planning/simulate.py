"""A run on a clock that jumps from event to event: the product's own controller, timed engines, rewards and a learner.

Answers travel to the controller in messages, as in a real run, with one token in a message for every `token_stride`
tokens. Their lengths are log-normal with a heavy tail, as those of reasoning models nearly are.
"""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from math import ceil, exp, log
from statistics import NormalDist, fmean
from typing import Literal, NamedTuple

from rewards.reward import Completion, Reward, Task
from train.asynchronous.controller import Controller
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.journal import NullJournal
from train.asynchronous.messages import LeaseRequest, SampleResult, SubmitRequest, VersionSpan
from train.planning.engine import EngineTimings, LearnerTimings, SimulatedSample, TimedEngine
from train.rollouts.prompt_dataset import TrainingPrompt
from train.weights.manifest import WeightManifest

_STEPS_BEFORE = 2  # steps that are not measured, and as many more as batches can be under way
_FOREVER = 1e12  # seconds: simulated workers do not die


@dataclass(frozen=True, slots=True)
class LogNormalLengths:
    """Log-normal lengths in tokens, cut off at a limit."""

    median: float  # before they are cut off
    sigma: float  # standard deviation of their logarithm; 0.9 puts one answer in a hundred at eight times the median
    limit: int  # the longest length

    @classmethod
    def with_mean(cls, mean: float, *, sigma: float = 0.9, limit: int) -> "LogNormalLengths":
        """Return lengths whose mean, after the cut, is this one. Raises ValueError if the limit does not allow it."""
        if not 1 <= mean < limit:
            raise ValueError(f"answers of at most {limit} tokens cannot have {mean:g} on average")
        low, high = 1.0, 64.0 * limit
        while high / low > 1.0001:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if cls(middle, sigma, limit).mean < mean else (low, middle)
        return cls(low, sigma, limit)

    @property
    def mean(self) -> float:
        """The mean after the cut: the expectation of min(length, limit)."""
        if self.sigma == 0:
            return min(self.median, self.limit)
        normal, cut = NormalDist(), (log(self.limit) - log(self.median)) / self.sigma
        whole = self.median * exp(self.sigma**2 / 2)
        return whole * normal.cdf(cut - self.sigma) + self.limit * (1 - normal.cdf(cut))

    def draw(self, rng: random.Random) -> int:
        return max(1, min(self.limit, round(self.median * exp(rng.gauss(0.0, self.sigma)))))


@dataclass(frozen=True, slots=True)
class Workload:
    """What is sampled and trained on."""

    groups: int  # in a batch
    completions: int  # answers of a group
    prompt_tokens: int
    lengths: LogNormalLengths
    rejected_share: float = 0.0  # of the groups: they teach nothing and are replaced
    reward_seconds: tuple[float, float, float] = (4.0, 8.0, 20.0)  # least, most likely and most, to score an answer
    token_stride: int = 64  # tokens for which one token stands in a message


@dataclass(frozen=True, slots=True)
class Layout:
    """The engines and the learner. In the pipeline "sync" they take turns on the same GPUs."""

    engines: int
    engine: EngineTimings
    learner: LearnerTimings


@dataclass(frozen=True, slots=True)
class TrainingMode:
    """How sampling and training overlap. The other values count for "async" only."""

    pipeline: Literal["sync", "one-off", "async"]
    staleness: int = 0  # the bound (rollout.staleness)
    interrupts: bool = True  # whether new weights interrupt answers; otherwise an engine first finishes its answers

    def __str__(self) -> str:
        if self.pipeline != "async":
            return self.pipeline
        return f"async, staleness {self.staleness}" + ("" if self.interrupts else ", not interrupted")


SYNC, ONE_OFF = TrainingMode("sync"), TrainingMode("one-off", 1)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a simulated run measured, over its later steps."""

    step_seconds: float
    tokens_per_second: float  # completion tokens that were trained on
    learner_idle_share: float  # of the time
    engine_idle_share: float
    staleness_mean: float  # versions between a token's sampling and its training, over the tokens
    staleness_max: int


def simulate(
    mode: TrainingMode, workload: Workload, layout: Layout, *, steps: int = 6, seed: int = 0
) -> SimulationResult:
    """Run so many steps after the engines have filled, and return what was measured."""
    return _Run(mode, workload, layout, steps, seed).outcome()


class _Step(NamedTuple):
    """One batch: when it was published, and what was in it."""

    published: float
    tokens: int
    age_mean: float
    age_max: int
    engine_seconds: float
    learner_seconds: float


class _Prompts:
    """Endless prompts that all look the same; only their numbers differ."""

    def prompt_at(self, position: int) -> TrainingPrompt:
        return TrainingPrompt(str(position), (0,), Task())


class _Run:
    def __init__(self, way: TrainingMode, workload: Workload, layout: Layout, steps: int, seed: int) -> None:
        self._way, self._workload, self._layout = way, workload, layout
        self._n_before = _STEPS_BEFORE + way.staleness
        self._n_steps = self._n_before + steps
        self._rng = random.Random(seed)
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._n_events = self._event = 0
        self._engines = [TimedEngine(layout.engine) for _ in range(layout.engines)]
        self._awaited = [0] * layout.engines  # number of the event at which each engine is looked at next
        self._teaches: dict[int, bool] = {}
        self._n_scored: Counter[int] = Counter()  # answers of each group
        self._engines_are_full = False
        self._n_ready = 0  # groups that the controller holds for a cut
        self._sent = 0, 0  # the group of the answer that is on its way, and the answer's place in it
        self._version = 0
        self._unpublished: int | None = None  # trained weights that are on their way to the engines
        self._learner_is_free = True
        self._learner_seconds = 0.0
        self._of_cut = 0, 0.0, 0  # tokens of the batch in training, and their ages, mean and maximum
        self._steps: list[_Step] = []
        self._controller = Controller(
            _Prompts(),
            ControllerSettings(
                prompts_per_batch=workload.groups,
                completions_per_prompt=workload.completions,
                total_steps=self._n_steps + way.staleness + 1,
                max_tokens=ceil(workload.lengths.limit / workload.token_stride),
                max_staleness=way.staleness,
                online_filter=workload.rejected_share > 0,
                max_rounds=1_000,
                worker_timeout_seconds=_FOREVER,
                min_lease_seconds=_FOREVER,
            ),
            NullJournal(),
            submit=self._submit,
            decode=lambda ids: "",
            seed=seed,
            now=lambda: self._now,
        )

    def outcome(self) -> SimulationResult:
        self._controller.publish_weights(WeightManifest(0))
        self._feed()
        while len(self._steps) < self._n_steps:
            self._now, self._event, happen = heappop(self._events)
            happen()
        first, last = self._steps[self._n_before - 1], self._steps[-1]
        measured = self._steps[self._n_before :]
        seconds = last.published - first.published
        tokens = sum(step.tokens for step in measured)
        return SimulationResult(
            step_seconds=seconds / len(measured),
            tokens_per_second=tokens / seconds,
            learner_idle_share=1 - (last.learner_seconds - first.learner_seconds) / seconds,
            engine_idle_share=1 - (last.engine_seconds - first.engine_seconds) / seconds / self._layout.engines,
            staleness_mean=fmean(step.age_mean for step in measured),
            staleness_max=max(step.age_max for step in measured),
        )

    # --- events ---

    def _look_at(self, number: int) -> None:
        if self._awaited[number] != self._event:
            return
        self._let_pass(number)
        engine = self._engines[number]
        if not engine.n_pending and engine.version != self._version:  # it has finished what it had begun
            engine.load_weights(self._version)
            self._engines_are_full = True
        if self._engines_are_full:
            self._feed()
        self._await(number)

    def _score(self, group: int, future: "Future[Reward]", reward: Reward) -> None:
        future.set_result(reward)
        self._n_scored[group] += 1
        if self._n_scored[group] < self._workload.completions:
            return
        if self._teaches[group]:
            self._n_ready += 1
            self._publish_if_possible()
            self._train_if_possible()
        else:
            self._feed()  # it was rejected, and another can be asked

    def _end_batch(self, version: int) -> None:
        self._learner_is_free = self._way.pipeline == "async"
        self._add(self._now + self._layout.learner.publish_seconds, partial(self._offer, version))
        self._train_if_possible()

    def _offer(self, version: int) -> None:
        self._unpublished = version
        self._publish_if_possible()

    # --- the learner ---

    def _train_if_possible(self) -> None:
        if not self._learner_is_free or self._n_ready < self._workload.groups:
            return
        groups = self._controller.try_take_batch(self._controller.batches_taken)
        if groups is None:
            return
        self._n_ready -= len(groups)
        n_taken, rates = self._controller.batches_taken, self._layout.learner
        ages = [n_taken - 1 - version for group in groups for rollout in group for version in rollout.versions]
        tokens = len(ages) * self._workload.token_stride
        prompts = len(groups) * self._workload.prompt_tokens
        seconds = (tokens + prompts) * rates.seconds_per_token + rates.batch_seconds
        if self._way.pipeline == "sync":
            seconds += rates.switch_seconds
        self._learner_is_free = False
        self._learner_seconds += seconds
        self._of_cut = tokens, fmean(ages), max(ages)
        self._add(self._now + seconds, partial(self._end_batch, n_taken))
        if self._way.pipeline == "one-off":
            self._feed()

    def _publish_if_possible(self) -> None:
        """Let the engines have new weights. In the pipeline "one-off" they wait until the next batch is there."""
        version = self._unpublished
        is_sampled = self._n_ready >= self._workload.groups and not any(engine.n_pending for engine in self._engines)
        if version is None or (self._way.pipeline == "one-off" and not is_sampled):
            return
        self._unpublished = None
        self._version = version
        if self._way.pipeline != "async":
            self._learner_is_free = True
        for number, engine in enumerate(self._engines):
            self._let_pass(number)
            if self._way.interrupts or not engine.n_pending:
                engine.load_weights(version)
                self._await(number)
        self._controller.publish_weights(WeightManifest(version))
        engine_seconds = sum(engine.busy_seconds for engine in self._engines)
        self._steps.append(_Step(self._now, *self._of_cut, engine_seconds, self._learner_seconds))
        self._feed()
        self._train_if_possible()

    # --- the engines ---

    def _feed(self) -> None:
        """Let the engine with the least to do ask for a group, until there is none to be had.

        In the pipeline "one-off", the next batch is asked as a whole, once the one before is in training.
        """
        if self._way.pipeline == "one-off" and self._controller.batches_taken not in (0, self._version + 1):
            return
        group = self._workload.completions  # samples
        least = [
            (engine.n_pending, number)
            for number, engine in enumerate(self._engines)
            if self._has_room(engine) and (self._way.interrupts or engine.version == self._version)
        ]
        heapify(least)
        self._engines_are_full = True
        while least:
            _, number = heappop(least)
            engine = self._engines[number]
            leases = self._controller.request_leases(LeaseRequest(str(number), engine.version, group)).leases
            if not leases:
                self._engines_are_full = False
                break
            self._let_pass(number)
            self._teaches[leases[0].group] = self._rng.random() >= self._workload.rejected_share
            for place in range(group):
                key, tokens = (leases[0].group, leases[0].attempt, place), self._workload.lengths.draw(self._rng)
                engine.add(SimulatedSample(key, self._workload.prompt_tokens, tokens))
            self._await(number)
            if self._has_room(engine):
                heappush(least, (engine.n_pending, number))

    def _has_room(self, engine: TimedEngine) -> bool:
        return (
            not engine.n_pending or engine.n_pending + self._workload.completions <= self._layout.engine.max_concurrent
        )

    def _await(self, number: int) -> None:
        at = self._engines[number].next_event()
        if at < _FOREVER:
            self._awaited[number] = self._add(at, partial(self._look_at, number))

    def _let_pass(self, number: int) -> None:
        """Let an engine's time pass until now, and send the controller what it has drawn."""
        for drawing in self._engines[number].advance(self._now):
            group, attempt, place = drawing.key
            n_tokens = ceil(drawing.tokens / self._workload.token_stride)
            data = bytes(4 * n_tokens)
            spans = _spans(drawing, n_tokens, self._workload.token_stride)
            finish: Literal["stop", "length"] = "length" if drawing.tokens >= self._workload.lengths.limit else "stop"
            answer = SampleResult(group, place, attempt, data, data, spans, finish)
            self._sent = group, place
            (receipt,) = self._controller.submit_results(SubmitRequest(str(number), (answer,)))
            assert receipt == "taken", receipt

    def _submit(self, completion: Completion, task: Task) -> "Future[Reward]":
        future: Future[Reward] = Future()
        low, mode, high = self._workload.reward_seconds
        seconds = self._rng.triangular(low, high, mode)
        group, place = self._sent
        reward = Reward(float(self._teaches[group] and place % 2), "", seconds)
        self._add(self._now + seconds, partial(self._score, group, future, reward))
        return future

    def _add(self, at: float, happen: Callable[[], None]) -> int:
        self._n_events += 1
        heappush(self._events, (at, self._n_events, happen))
        return self._n_events


def _spans(drawing: SimulatedSample, n_tokens: int, token_stride: int) -> tuple[VersionSpan, ...]:
    """Return the versions of a drawing as spans of the tokens that stand for it in a message."""
    starts = [(version, min(round(drawn / token_stride), n_tokens - 1)) for version, drawn in drawing.versions]
    starts[0] = (starts[0][0], 0)
    ends = [start for _, start in starts[1:]] + [n_tokens]
    return tuple((version, start, end) for (version, start), end in zip(starts, ends, strict=True) if end > start)
