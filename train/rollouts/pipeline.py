"""Pipelines, which sample what the loop trains on, and those that sample batch by batch.

sync        sample a batch, train on it, hand over the weights
minibatch   train on the first groups of a batch while the others are sampled
one-off     train on a batch while the next is sampled with the weights of the previous step (DeepCoder's one-off
            pipelining): rewards and training overlap with sampling, and every token is one step old

Sampling runs in a thread of its own in all three, so that the trainer can stop waiting: a batch that takes longer than
rollout.max_seconds ends the run with an error. The fourth pipeline, async, is train/asynchronous/pipeline.py.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Protocol

from train.config import Config
from train.errors import RolloutError
from train.learning.learner import Learner
from train.rollouts.groups import BatchCollector, Group, SubmitForReward
from train.rollouts.prompt_dataset import PromptDataset
from train.rollouts.weight_sync import publish
from train.sampling.protocol import Sampler, SamplingParams, UpdatableSampler

_PROBES = 4  # prompts with which sampler and learner are compared, others after each step


class TimelineWriter(Protocol):
    """The record of when each part of a run worked (train/run/metrics_log.py)."""

    @property
    def clock(self) -> Callable[[], float]: ...

    def record(self, step: int, part: str, start_time: float, end_time: float, *, batch: int | None = None) -> None: ...


class Pipeline:
    """Samples what the loop trains on, in its own order and at its own time.

    A step is: `ready_minibatches`, training on each, `wait_for_sampling`, `publish`. Before the first step, the weights
    that the run begins with are published. The methods here are those of a pipeline without samplers.

    sampler           draws with the newest weights, for evaluation
    signal_counts     what the groups of this step's batch teach, by the words of `group_signal`; and "rounds"
    wait_seconds      how long the trainer waited for groups in this step
    sampling_seconds  how long the sampler worked in this step; nan if it is not known
    """

    sampler: Sampler
    signal_counts: Mapping[str, int]
    wait_seconds: float = 0.0
    sampling_seconds: float = 0.0

    def publish(self, step: int) -> dict[str, float]:
        """Hand the learner's weights after this step to the samplers, and return the metrics of that."""
        return {}

    def ready_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        """Yield the groups of this step's batch as lists of minibatches that are ready to be trained on.

        There is one minibatch for each update. Raises RolloutError if no batch comes in time.
        """
        raise NotImplementedError

    def wait_until_idle(self) -> None:
        """Wait until the sampler has drawn all that was asked of it, from a thread of its own.

        Only pipelines with times in which nothing is sampled have such a moment.
        """

    def wait_for_sampling(self) -> None:
        """Wait until weights may change."""

    def resume_point(self) -> tuple[int, Sequence[Group] | None]:
        """Return what a checkpoint keeps: the position of the next prompt, and the next step's batch.

        The batch is None if it was not sampled ahead, or if the pipeline keeps it itself.
        """
        return 0, None

    def set_max_tokens(self, max_tokens: int) -> None:
        """Ask for answers of up to so many tokens from now on."""

    def on_checkpoint_saved(self, oldest_step: int) -> None:
        """Note that the run can be resumed, and at the earliest after this step."""

    def metrics(self) -> dict[str, float]:
        """Return this pipeline's own metrics of the step."""
        return {}


def split_into_minibatches(groups: Sequence[Group], n: int) -> list[list[Group]]:
    """Divide the groups of a batch into at most n minibatches of equal size; the last one may be smaller."""
    size = max(1, -(-len(groups) // n))
    return [list(groups[first : first + size]) for first in range(0, len(groups), size)]


def probe_prompts(questions: PromptDataset, step: int) -> list[tuple[int, ...]]:
    """Return the prompts with which sampler and learner are compared after this step."""
    return [questions.prompt_at(_PROBES * step + number).prompt_ids for number in range(_PROBES)]


class _Batch:
    """A batch that a thread begins to collect or, if `groups` are given, a complete one from a checkpoint."""

    def __init__(self, collector: BatchCollector, max_seconds: float, groups: Sequence[Group] | None = None) -> None:
        self.collector = collector
        self._deadline = time.monotonic() + max_seconds
        self._max_seconds = max_seconds
        self._groups = list(groups or ())
        self._is_complete = groups is not None
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        if not self._is_complete:
            threading.Thread(target=self._collect, name="rollouts", daemon=True).start()

    def wait(self, n: float = inf) -> list[Group]:
        """Return the groups so far, as soon as there are `n` or the batch is complete.

        Raises any error that collecting raised, and RolloutError if collecting takes too long.
        """
        with self._changed:
            left = max(0.0, self._deadline - time.monotonic())
            in_time = self._changed.wait_for(lambda: self._is_complete or len(self._groups) >= n, left)
        if self._error is not None:
            raise self._error
        if not in_time:
            raise RolloutError(
                f"timed out: no whole batch within {self._max_seconds:g} s, only {len(self._groups)} groups with a "
                "signal. The engine hangs, or rollout.max_seconds is too short for these answers."
            )
        return self._groups

    def _collect(self) -> None:
        try:
            for group in self.collector:
                with self._changed:
                    self._groups.append(group)
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()


class BatchPipeline(Pipeline):
    """The pipelines with one sampler, whose weights change between batches.

    submit      has an answer scored
    step        the step that was made last
    position    the position in the data of the next prompt
    ahead       the next step's batch, if it was sampled already; then `position` is that after it
    max_tokens  length limit of the answers
    """

    sampler: UpdatableSampler

    def __init__(
        self,
        config: Config,
        sampler: UpdatableSampler,
        learner: Learner,
        questions: PromptDataset,
        submit: SubmitForReward,
        timeline: TimelineWriter,
        *,
        step: int,
        position: int,
        ahead: Sequence[Group] | None,
        max_tokens: int,
    ) -> None:
        self.sampler = sampler
        self._config = config
        self._learner = learner
        self._prompts = questions
        self._submit = submit
        self._timeline = timeline
        self._max_tokens = max_tokens
        self._step = self._first_step = step
        self._n_batches = step  # the number of a batch is that of the step that trains on it
        self._position = position  # after the prompts of the batches that were trained on
        self._batch: _Batch | None = None  # of this step
        self._next: _Batch | None = None
        if ahead is not None:
            self._next = _Batch(self._collector(), config.rollout.max_seconds, ahead)

    def publish(self, step: int) -> dict[str, float]:
        config = self._config
        return publish(
            self._learner,
            self.sampler,
            step,
            probe_prompts(self._prompts, step),
            temperature=config.rollout.temperature,
            max_error=config.engine.parity,
            # an engine that has died is started again meanwhile
            seconds=config.engine.load_seconds + config.engine.sync_seconds,
            sampled=step == self._first_step,
        )

    def ready_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        way, n_minibatches = self._config.rollout.pipeline, self._config.optimizer.minibatches
        self._step = step
        self.wait_seconds = self.sampling_seconds = 0.0
        batch, self._next = self._next or self._begin(), None
        self._batch, self.signal_counts = batch, batch.collector.counts
        if way == "minibatch":
            size, n_taken = -(-self._config.rollout.prompts // n_minibatches), 0
            while groups := self._wait(batch, n_taken + size)[n_taken : n_taken + size]:
                n_taken += len(groups)
                yield [groups]
        elif groups := self._wait(batch):
            if way == "one-off" and step < self._config.run.steps:
                self._position = batch.collector.position
                self._next = self._begin()
            if way == "sync" and self._config.evaluation.where != "idle":
                self.sampler.sleep()
            yield split_into_minibatches(groups, n_minibatches)
        self._position = batch.collector.position
        if self._next is None:
            self.sampling_seconds = batch.collector.sampled_seconds

    def wait_until_idle(self) -> None:
        if newest := self._next or self._batch:
            newest.wait()

    def wait_for_sampling(self) -> None:
        if self._next is not None:
            self._wait(self._next)
            self.sampling_seconds = self._next.collector.sampled_seconds

    def resume_point(self) -> tuple[int, Sequence[Group] | None]:
        if self._next is None:
            return self._position, None
        return self._next.collector.position, self._next.wait()

    def set_max_tokens(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens

    def metrics(self) -> dict[str, float]:
        assert self._batch is not None
        return {"epoch": self._batch.collector.position / len(self._prompts)}

    def _wait(self, batch: _Batch, n: float = inf) -> list[Group]:
        start_time = time.monotonic()
        try:
            return batch.wait(n)
        finally:
            self.wait_seconds += time.monotonic() - start_time

    def _begin(self) -> _Batch:
        return _Batch(self._collector(), self._config.rollout.max_seconds)

    def _collector(self) -> BatchCollector:
        """Return the batch that begins at the present position. Sampling it may start immediately."""
        self._n_batches += 1
        step, number, timeline = self._step, self._n_batches, self._timeline
        return BatchCollector(
            self._prompts,
            self._position,
            self._config.rollout,
            SamplingParams(self._config.rollout.temperature, top_p=1.0, max_tokens=self._max_tokens, logprobs=True),
            sampler=self.sampler,
            submit=self._submit,
            seed=self._config.run.seed,
            cut_off_known=self._config.objective.overlong != "unknown",
            process=self._config.objective.supervision == "process",
            note=lambda part, start_time, ended: timeline.record(step, part, start_time, ended, batch=number),
            now=timeline.clock,
        )
