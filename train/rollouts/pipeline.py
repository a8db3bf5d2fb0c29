"""What the loop needs of a pipeline: batches to train on, and a way to the samplers for new weights."""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from train.rollouts.groups import Group
from train.sampling.protocol import Sampler


class TimelineWriter(Protocol):
    """The record of when each part of a run worked (train/run/metrics_log.py)."""

    @property
    def clock(self) -> Callable[[], float]: ...

    def record(self, step: int, part: str, start_time: float, end_time: float, *, batch: int | None = None) -> None: ...


class Pipeline(Protocol):
    """Samples what the loop trains on, in its own order and at its own time.

    A step is: `ready_minibatches`, training on each, `wait_for_sampling`, `publish`. Before the first step, the weights
    that the run begins with are published.
    """

    @property
    def sampler(self) -> Sampler:
        """Draws with the newest weights, for evaluation."""

    @property
    def position(self) -> int:
        """The position in the data after the prompts that were asked."""

    @property
    def signal_counts(self) -> Mapping[str, int]:
        """What the groups of this step's batch teach, by the words of `signal` in batch_collector.py; and "rounds"."""

    @property
    def wait_seconds(self) -> float:
        """How long the trainer waited for groups in this step."""

    @property
    def sampling_seconds(self) -> float:
        """How long the sampler worked in this step; nan if it is not known."""

    def publish(self, step: int) -> dict[str, float]:
        """Hand the learner's weights after this step to the samplers, and return the metrics of that."""

    def ready_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        """Yield the groups of this step's batch as lists of minibatches that are ready to be trained on.

        There is one minibatch for each update. Raises RolloutError if no batch comes in time.
        """

    def wait_until_idle(self) -> None:
        """Wait until the sampler has drawn all that was asked of it, from a thread of its own.

        Only pipelines with times in which nothing is sampled have such a moment.
        """

    def wait_for_sampling(self) -> None:
        """Wait until weights may change."""

    def prefetched_batch(self) -> tuple[int, list[Group]] | None:
        """Return what only a checkpoint can keep: the position after the next step's batch, and its groups.

        None: no batch was sampled ahead, or the pipeline keeps it itself. Call `finish` first.
        """

    def set_max_tokens(self, max_tokens: int) -> None:
        """Ask for answers of up to so many tokens from now on."""

    def on_checkpoint_saved(self, oldest_step: int) -> None:
        """Note that the run can be resumed, and at the earliest after this step."""

    def metrics(self) -> dict[str, float]:
        """Return this pipeline's own metrics of the step."""
