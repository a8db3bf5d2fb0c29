"""Sampling batch by batch, under the pipelines sync, minibatch and one-off: one sampler, whose weights change between
batches (see batch_scheduler.py)."""

from collections.abc import Iterator, Sequence

from train.config import Config
from train.learning.learner import Learner
from train.rollouts.batch_collector import BatchCollector, Group, SubmitForReward
from train.rollouts.batch_scheduler import BatchScheduler
from train.rollouts.pipeline import TimelineWriter
from train.rollouts.prompt_dataset import PromptDataset
from train.rollouts.weight_sync import publish
from train.sampling.protocol import SamplingParams, UpdatableSampler

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
