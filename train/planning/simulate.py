"""A discrete-event simulation of a run: engines, rewards and a learner.

The controller's own rules (train/asynchronous/staleness.py) dispatch groups and select batches. Lengths of completions
are log-normal, to model the heavy tail of reasoning models.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import exp, inf, log, sqrt
from statistics import NormalDist, fmean, stdev
from typing import Literal, NamedTuple

from train.asynchronous.staleness import compute_dispatch_capacity, select_batch
from train.learning.flops import count_attention_pairs
from train.planning.engine import EngineTimings, LearnerTimings, SimulatedEngine, SimulatedSample

_PRECISION = 0.05  # required half-width of the step time's 95% confidence interval, relative to the step time
_MIN_CYCLES, _MAX_CYCLES = 5, 60
_STUDENT_T = 2.78  # two-sided 95% quantile for _MIN_CYCLES cycles, and an upper bound for more cycles


@dataclass(frozen=True, slots=True)
class LogNormalLengths:
    """Log-normal lengths in tokens, truncated at a limit."""

    median: float  # median before truncation
    sigma: float  # standard deviation of the logarithm; with 0.9, the 99th percentile is eight times the median
    limit: int  # maximum length in tokens

    @classmethod
    def with_mean(cls, mean: float, *, sigma: float = 0.9, limit: int) -> "LogNormalLengths":
        """Return lengths with this mean after truncation. Raises ValueError unless 1 <= mean < limit."""
        if not 1 <= mean < limit:
            raise ValueError(f"completions of at most {limit} tokens cannot have {mean:g} on average")
        low, high = 1.0, 64.0 * limit
        while high / low > 1.0001:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if cls(middle, sigma, limit).mean < mean else (low, middle)
        return cls(low, sigma, limit)

    @property
    def mean(self) -> float:
        """Return the mean after truncation: the expectation of min(length, limit)."""
        if self.sigma == 0:
            return min(self.median, self.limit)
        normal, cut = NormalDist(), (log(self.limit) - log(self.median)) / self.sigma
        whole = self.median * exp(self.sigma**2 / 2)
        return whole * normal.cdf(cut - self.sigma) + self.limit * (1 - normal.cdf(cut))

    def sample(self, rng: random.Random) -> int:
        return max(1, min(self.limit, round(self.median * exp(rng.gauss(0.0, self.sigma)))))


@dataclass(frozen=True, slots=True)
class Workload:
    """The batches of a run."""

    groups: int  # groups per batch
    completions: int  # completions per group
    prompt_tokens: int
    lengths: LogNormalLengths
    rejected_share: float = 0.0  # share of groups without a signal, each of which is replaced by another group
    # Minimum, mode and maximum of the triangular distribution of a completion's reward time.
    reward_seconds: tuple[float, float, float] = (
        4.0,
        8.0,
        20.0,
    )  # minimum, mode and maximum of the triangular distribution for a completion


@dataclass(frozen=True, slots=True)
class Layout:
    """The engines and the learner. In the pipeline "sync", they alternate on the same GPUs."""

    engines: int
    engine: EngineTimings
    learner: LearnerTimings


@dataclass(frozen=True, slots=True)
class TrainingMode:
    """The schedule of sampling and training. All fields except `pipeline` apply only to the pipeline "async"."""

    pipeline: Literal["sync", "one-off", "async"]
    staleness: int = 0  # maximum staleness (rollout.staleness)
    interrupts: bool = True  # whether engines load new weights during completions; otherwise after them

    def __str__(self) -> str:
        if self.pipeline != "async":
            return self.pipeline
        return f"async, staleness {self.staleness}" + ("" if self.interrupts else ", not interrupted")


SYNC, ONE_OFF = TrainingMode("sync"), TrainingMode("one-off", 1)


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """Measurements of a simulated run, without its first cycle."""

    n_steps: int
    step_seconds: float
    step_seconds_error: (
        float  # half-width of the 95% confidence interval, relative to step_seconds; inf for too few steps
    )
    tokens_per_second: float  # completion tokens trained on
    learner_idle_share: float  # share of the simulated time
    engine_idle_share: float
    staleness_mean: float  # mean over tokens of the number of versions between sampling and training
    staleness_max: int


def simulate(
    mode: TrainingMode, workload: Workload, layout: Layout, *, max_cycles: int = _MAX_CYCLES, seed: int = 0
) -> SimulationResult:
    """Simulate a run until the step time is precise to 5%, for at most max_cycles.

    Batches arrive in bursts of staleness + 1, so the simulation measures cycles of staleness + 1 steps. The first
    cycle fills the engines and does not count. Batch means give the confidence interval.
    """
    return _Simulation(mode, workload, layout, seed).run(max_cycles)


class _Step(NamedTuple):
    """A step: its publication time, statistics of its batch, and busy seconds since the start of the simulation."""

    publication_time: float
    tokens: int
    staleness_mean: float
    staleness_max: int
    engine_seconds: float
    learner_seconds: float


@dataclass(slots=True)
class _Group:
    start_version: int
    is_rejected: bool
    finished: list[SimulatedSample] = field(default_factory=list)
    last_reward_time: float = 0.0


class _Simulation:
    def __init__(self, mode: TrainingMode, workload: Workload, layout: Layout, seed: int) -> None:
        self._mode, self._workload, self._layout = mode, workload, layout
        self._steps_per_cycle = mode.staleness + 1
        self._rng = random.Random(seed)
        self._now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._n_events = self._event = 0
        self._engines = [SimulatedEngine(layout.engine) for _ in range(layout.engines)]
        self._engine_events = [0] * layout.engines  # number of each engine's next event
        self._groups: dict[int, _Group] = {}  # dispatched groups, neither trained on nor rejected
        self._trainable: list[tuple[int, int]] = []  # (start version, group number) of each trainable group
        self._n_dispatched = 0  # number of dispatched groups
        self._n_trained = 0  # number of batches taken for training
        self._engines_are_full = False
        self._version = 0
        self._unpublished: int | None = None  # trained weights in transfer to the engines
        self._learner_is_free = True
        self._learner_seconds = 0.0
        self._batch_stats = 0, 0.0, 0  # tokens, mean staleness and maximum staleness of the batch in training
        self._steps: list[_Step] = []

    def run(self, max_cycles: int) -> SimulationResult:
        self._dispatch_groups()
        cycles: list[float] = []  # duration in seconds of each cycle except the first
        first = self._run_cycle()
        while len(cycles) < max_cycles and _compute_relative_error(cycles) > _PRECISION:
            start = self._now
            last = self._run_cycle()
            cycles.append(last.publication_time - start)
        measured = self._steps[self._steps_per_cycle :]
        seconds = last.publication_time - first.publication_time
        tokens = sum(step.tokens for step in measured)
        return SimulationResult(
            n_steps=len(measured),
            step_seconds=seconds / len(measured),
            step_seconds_error=_compute_relative_error(cycles),
            tokens_per_second=tokens / seconds,
            learner_idle_share=1 - (last.learner_seconds - first.learner_seconds) / seconds,
            engine_idle_share=1 - (last.engine_seconds - first.engine_seconds) / seconds / self._layout.engines,
            staleness_mean=fmean(step.staleness_mean for step in measured),
            staleness_max=max(step.staleness_max for step in measured),
        )

    def _run_cycle(self) -> _Step:
        n_steps = len(self._steps) + self._steps_per_cycle
        while len(self._steps) < n_steps:
            self._now, self._event, handle = heappop(self._events)
            handle()
        return self._steps[-1]

    def _handle_engine_event(self, number: int) -> None:
        if self._engine_events[number] != self._event:
            return
        self._advance_engine(number)
        engine = self._engines[number]
        if not engine.n_pending and engine.version != self._version:
            engine.load_weights(self._version)
            self._engines_are_full = True
        if self._engines_are_full:
            self._dispatch_groups()
        self._schedule_engine(number)

    def _handle_scored_group(self, number: int) -> None:
        group = self._groups[number]
        if group.is_rejected:
            del self._groups[number]
            self._dispatch_groups()
        else:
            self._trainable.append((group.start_version, number))
            self._publish_if_possible()
            self._train_if_possible()

    def _handle_trained_batch(self, version: int) -> None:
        self._learner_is_free = self._mode.pipeline == "async"
        self._schedule(self._now + self._layout.learner.publish_seconds, partial(self._receive_weights, version))
        self._train_if_possible()

    def _receive_weights(self, version: int) -> None:
        self._unpublished = version
        self._publish_if_possible()

    def _train_if_possible(self) -> None:
        if not self._learner_is_free or len(self._trainable) < self._workload.groups:
            return
        start_versions = [group.start_version for group in self._groups.values()]
        n_groups, staleness = self._workload.groups, self._mode.staleness
        numbers = select_batch(self._n_trained, self._trainable, start_versions, prompts=n_groups, staleness=staleness)
        if numbers is None:
            return
        self._trainable = [each for each in self._trainable if each[1] not in set(numbers)]
        groups = [self._groups.pop(number).finished for number in numbers]
        spans = [
            span for group in groups for sample in group for span in _iterate_staleness_spans(sample, self._n_trained)
        ]
        self._n_trained += 1
        rates, prompt = self._layout.learner, self._workload.prompt_tokens
        tokens = sum(sample.tokens for group in groups for sample in group)
        pairs = sum(count_attention_pairs(prompt, [sample.tokens for sample in group]) for group in groups)
        seconds = (tokens + len(groups) * prompt) * rates.seconds_per_token + pairs * rates.seconds_per_pair
        seconds += rates.batch_seconds
        if self._mode.pipeline == "sync":
            seconds += rates.switch_seconds
        self._learner_is_free = False
        self._learner_seconds += seconds
        staleness_mean = sum(n_versions * n_tokens for n_versions, n_tokens in spans) / tokens
        self._batch_stats = tokens, staleness_mean, max(n_versions for n_versions, n_tokens in spans if n_tokens)
        self._schedule(self._now + seconds, partial(self._handle_trained_batch, self._n_trained))
        if self._mode.pipeline == "one-off":
            self._dispatch_groups()

    def _publish_if_possible(self) -> None:
        """Publish new weights to the engines. The pipeline "one-off" first finishes sampling the next batch."""
        version = self._unpublished
        is_sampled = len(self._trainable) >= self._workload.groups and not any(each.n_pending for each in self._engines)
        if version is None or (self._mode.pipeline == "one-off" and not is_sampled):
            return
        self._unpublished = None
        self._version = version
        if self._mode.pipeline != "async":
            self._learner_is_free = True
        for number, engine in enumerate(self._engines):
            self._advance_engine(number)
            if self._mode.interrupts or not engine.n_pending:
                engine.load_weights(version)
                self._schedule_engine(number)
        engine_seconds = sum(engine.busy_seconds for engine in self._engines)
        self._steps.append(_Step(self._now, *self._batch_stats, engine_seconds, self._learner_seconds))
        self._dispatch_groups()
        self._train_if_possible()

    def _dispatch_groups(self) -> None:
        """Dispatch groups to the least-loaded engines, up to the staleness bound.

        The pipeline "one-off" dispatches a whole batch once the previous one is in training.
        """
        if self._mode.pipeline == "one-off" and self._n_trained not in (0, self._version + 1):
            return
        least = [
            (engine.n_pending, number)
            for number, engine in enumerate(self._engines)
            if self._has_room(engine) and (self._mode.interrupts or engine.version == self._version)
        ]
        heapify(least)
        self._engines_are_full = True
        while least:
            _, number = heappop(least)
            engine = self._engines[number]
            if not self._may_dispatch(engine):
                self._engines_are_full = False
                break
            self._advance_engine(number)
            group, self._n_dispatched = self._n_dispatched, self._n_dispatched + 1
            is_rejected = self._rng.random() < self._workload.rejected_share
            self._groups[group] = _Group(engine.version, is_rejected)
            engine.add(
                *(
                    SimulatedSample(
                        (group, index), self._workload.prompt_tokens, self._workload.lengths.sample(self._rng)
                    )
                    for index in range(self._workload.completions)
                )
            )
            self._schedule_engine(number)
            if self._has_room(engine):
                heappush(least, (engine.n_pending, number))

    def _may_dispatch(self, engine: SimulatedEngine) -> bool:
        n_open, prompts, staleness = len(self._groups), self._workload.groups, self._mode.staleness
        return (
            compute_dispatch_capacity(
                engine.version, self._n_trained, n_open, prompts=prompts, staleness=staleness, steps=sys.maxsize
            )
            > 0
        )

    def _has_room(self, engine: SimulatedEngine) -> bool:
        return (
            not engine.n_pending or engine.n_pending + self._workload.completions <= self._layout.engine.max_concurrent
        )

    def _schedule_engine(self, number: int) -> None:
        at = self._engines[number].find_next_event()
        if at < inf:
            self._engine_events[number] = self._schedule(at, partial(self._handle_engine_event, number))

    def _advance_engine(self, number: int) -> None:
        low, mode, high = self._workload.reward_seconds
        for sample in self._engines[number].advance(self._now):
            group = self._groups[sample.key[0]]
            group.finished.append(sample)
            group.last_reward_time = max(group.last_reward_time, self._now + self._rng.triangular(low, high, mode))
            if len(group.finished) == self._workload.completions:
                self._schedule(group.last_reward_time, partial(self._handle_scored_group, sample.key[0]))

    def _schedule(self, at: float, handle: Callable[[], None]) -> int:
        self._n_events += 1
        heappush(self._events, (at, self._n_events, handle))
        return self._n_events


def _iterate_staleness_spans(sample: SimulatedSample, version: int) -> Iterator[tuple[int, int]]:
    """Yield (staleness, number of tokens) of each span of a sample that is trained on at this version."""
    for (sampled_by, start), (_, end) in pairwise([*sample.versions, (version, sample.tokens)]):
        yield version - sampled_by, end - start


def _compute_relative_error(cycles: Sequence[float]) -> float:
    """Return half the width of the mean's 95% confidence interval, relative to the mean; inf for too few cycles."""
    if len(cycles) < _MIN_CYCLES:
        return inf
    return _STUDENT_T * stdev(cycles) / sqrt(len(cycles)) / fmean(cycles)
