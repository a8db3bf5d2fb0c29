"""The three pipelines, which differ in when a batch is sampled and when it is trained on.

sync        sample a batch, train on it, hand over the weights
minibatch   train on the first groups of a batch while the others are sampled
one-off     train on a batch while the next is sampled with the weights of the previous step (DeepCoder's one-off
            pipelining): rewards and training overlap with sampling, and every token is one step old

Sampling runs in a thread of its own in all three, so that the trainer can stop waiting: a batch that takes longer than
rollout.max_seconds ends the run with an error.

MERGED Sampling batch by batch, under the pipelines sync, minibatch and one-off: one sampler, whose weights change between
batches (see batch_scheduler.py).
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from train.config import Config, RolloutConfig
from train.errors import RolloutError
from train.learning.learner import Learner
from train.rollouts.groups import BatchCollector, Group, SubmitForReward
from train.rollouts.pipeline import TimelineWriter
from train.rollouts.prompt_dataset import PromptDataset
from train.rollouts.weight_sync import publish
from train.sampling.protocol import SamplingParams, UpdatableSampler


class BackgroundBatch:
    """A batch that a thread begins to collect or, if `groups` are given, a complete one from a checkpoint."""

    def __init__(self, batch: BatchCollector, max_seconds: float, groups: Sequence[Group] | None = None) -> None:
        self.batch = batch
        self._deadline = time.monotonic() + max_seconds
        self._max_seconds = max_seconds
        self._groups = list(groups or ())
        self._taken = 0
        self._is_complete = groups is not None
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        if not self._is_complete:
            threading.Thread(target=self._collect, name="rollouts", daemon=True).start()

    def take(self, max_groups: int) -> list[Group]:
        """Return the next `max_groups` groups, or fewer at the end.

        Raises any error that collecting raised, and RolloutError if collecting takes too long.
        """
        self._wait(lambda: self._is_complete or len(self._groups) - self._taken >= max_groups)
        groups = self._groups[self._taken : self._taken + max_groups]
        self._taken += len(groups)
        return groups

    def wait_for_all(self) -> list[Group]:
        """Return all groups. Raises the same errors as `take`."""
        self._wait(lambda: self._is_complete)
        return self._groups

    def _wait(self, enough: Callable[[], bool]) -> None:
        with self._changed:
            in_time = self._changed.wait_for(enough, max(0.0, self._deadline - time.monotonic()))
        if self._error is not None:
            raise self._error
        if not in_time:
            raise RolloutError(
                f"timed out: no whole batch within {self._max_seconds:g} s, only {len(self._groups)} groups with a "
                "signal. The engine hangs, or rollout.max_seconds is too short for these answers."
            )

    def _collect(self) -> None:
        try:
            for group in self.batch:
                with self._changed:
                    self._groups.append(group)
                    self._changed.notify_all()
        except BaseException as error:
            self._error = error
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()


class BatchScheduler:
    """Hands out the batches of a run, step by step.

    begin            returns the batch whose prompts begin at a position in the data
    position         the position after the prompts of the batches that were trained on
    waited_seconds   how long the trainer waited for groups in this step
    sampled_seconds  how long the sampler worked for the batch that was collected in this step
    """

    def __init__(
        self,
        settings: RolloutConfig,
        minibatches: int,
        begin: Callable[[int], BatchCollector],
        *,
        position: int,
        last_step: int,
    ) -> None:
        self.position = position
        self.waited_seconds = self.sampled_seconds = 0.0
        self._settings = settings
        self._minibatches = minibatches
        self._begin = begin
        self._last_step = last_step
        self._current: BackgroundBatch | None = None  # that of this step
        self._ahead: BackgroundBatch | None = None

    def resume(self, position: int, groups: Sequence[Group]) -> None:
        """Use these groups from a checkpoint as the next step's batch, which was sampled up to this position."""
        self._ahead = BackgroundBatch(self._begin(position), self._settings.max_seconds, groups)

    def ready_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        """Yield the groups of this step's batch as lists of minibatches that are ready to be trained on.

        There is one minibatch for each update. Call `finish` after the last.
        """
        self.waited_seconds = self.sampled_seconds = 0.0
        current, self._ahead = self._ahead or self._collect_next(), None
        self._current = current
        self.batch = current.batch
        if self._settings.pipeline == "minibatch":
            size = -(-self._settings.prompts // self._minibatches)
            while groups := self._waiting(lambda: current.take(size)):
                yield [groups]
        else:
            groups = self._waiting(current.wait_for_all)
            if self._settings.pipeline == "one-off" and step < self._last_step:
                self.position = current.batch.position
                self._ahead = self._collect_next()
            size = max(1, -(-len(groups) // self._minibatches))
            if groups:
                yield [groups[first : first + size] for first in range(0, len(groups), size)]
        self.position = current.batch.position
        if self._ahead is None:
            self.sampled_seconds = current.batch.sampled_seconds

    def wait_until_idle(self) -> None:
        """Wait until the batch that began to be collected last is complete. Raises the errors of collecting."""
        newest = self._ahead or self._current
        if newest is not None:
            newest.wait_for_all()

    def wait_for_sampling(self) -> None:
        """Wait until sampling is over. After that, weights may change."""
        if self._ahead is not None:
            self._waiting(self._ahead.wait_for_all)
            self.sampled_seconds = self._ahead.batch.sampled_seconds

    def prefetched_batch(self) -> tuple[int, list[Group]] | None:
        """Return the position after the next step's batch and its groups, or None if no batch was sampled ahead.

        Call `finish` first.
        """
        return None if self._ahead is None else (self._ahead.batch.position, self._ahead.wait_for_all())

    def _collect_next(self) -> BackgroundBatch:
        return BackgroundBatch(self._begin(self.position), self._settings.max_seconds)

    def _waiting(self, wait: Callable[[], list[Group]]) -> list[Group]:
        start_time = time.monotonic()
        try:
            return wait()
        finally:
            self.waited_seconds += time.monotonic() - start_time


_PROBES = 4  # prompts with which sampler and learner are compared, others after each step


class BatchPipeline:
    """A Pipeline (pipeline.py) that samples whole batches.

    submit            has an answer scored
    step              the step that was made last
    position          the position in the data of the next prompt
    prefetched_batch  the next step's batch, if it was sampled already; then `position` is that after it
    max_tokens        length limit of the answers
    """

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
        self._batch = step  # number of the newest batch, which is that of the step that trains on it
        self._overlap = BatchScheduler(
            config.rollout, config.optimizer.minibatches, self._begin, position=position, last_step=config.run.steps
        )
        if ahead is not None:
            self._overlap.resume(position, ahead)

    @property
    def position(self) -> int:
        return self._overlap.position

    @property
    def signal_counts(self) -> dict[str, int]:
        return self._overlap.batch.counts

    @property
    def wait_seconds(self) -> float:
        return self._overlap.waited_seconds

    @property
    def sampling_seconds(self) -> float:
        return self._overlap.sampled_seconds

    def publish(self, step: int) -> dict[str, float]:
        config = self._config
        return publish(
            self._learner,
            self.sampler,
            step,
            [self._prompts.prompt_at(_PROBES * step + number).prompt_ids for number in range(_PROBES)],
            temperature=config.rollout.temperature,
            max_error=config.engine.parity,
            # an engine that has died is started again meanwhile
            seconds=config.engine.load_seconds + config.engine.sync_seconds,
            sampled=step == self._first_step,
        )

    def ready_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        self._step = step
        for minibatches in self._overlap.ready_minibatches(step):
            if self._config.rollout.pipeline == "sync" and self._config.evaluation.where != "idle":
                self.sampler.sleep()
            yield minibatches

    def wait_until_idle(self) -> None:
        self._overlap.wait_until_idle()

    def wait_for_sampling(self) -> None:
        self._overlap.wait_for_sampling()

    def prefetched_batch(self) -> tuple[int, list[Group]] | None:
        return self._overlap.prefetched_batch()

    def set_max_tokens(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens

    def on_checkpoint_saved(self, oldest_step: int) -> None:
        """Do nothing: checkpoints hold all that there is."""

    def metrics(self) -> dict[str, float]:
        return {"epoch": self._overlap.batch.position / len(self._prompts)}

    def _begin(self, position: int) -> BatchCollector:
        """Return the batch that begins at this position in the data. Sampling it may start immediately."""
        self._batch += 1
        step, number, timeline = self._step, self._batch, self._timeline
        return BatchCollector(
            self._prompts,
            position,
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
