"""A run that is trained again from its journal: the same batches in the same order, without engines and rewards.

With the same configuration, the weights must be the same; with another objective, two objectives are compared on the
same samples.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from train.asynchronous import journal
from train.asynchronous.pipeline import split_into_minibatches
from train.errors import CheckpointError, NoRunError, RolloutError
from train.rollouts.batch_collector import Group
from train.sampling.protocol import SampledCompletion, SamplingParams, SeededPrompt


class ReplayPipeline:
    """A Pipeline (train/rollouts/pipeline.py) of batches from a journal.

    recorded     folder of the run that the journal belongs to
    minibatches  updates of each batch
    step         the step that was made last

    Raises NoRunError if the run has no journal.
    """

    def __init__(self, recorded: Path, minibatches: int, *, step: int) -> None:
        folder = recorded / journal.FOLDER
        if not folder.is_dir():
            raise NoRunError(
                f'{recorded} has no journal: only runs with rollout.pipeline = "async" can be trained again from one'
            )
        self.sampler = _NoSampler()
        self.position = 0
        self.signal_counts: Counter[str] = Counter()  # the filter was at work when the journal was written
        self.wait_seconds = self.sampling_seconds = 0.0
        self._recorded = recorded
        self._minibatches = minibatches
        self._batches = journal.read_batches(folder, step)

    def publish(self, step: int) -> dict[str, float]:
        """Do nothing: there is no one to hand weights to."""
        return {}

    def ready_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        version, groups = next(self._batches, (-1, []))
        if version < 0:
            raise RolloutError(
                f"the journal of {self._recorded} ends before step {step}. Finish that run with --resume, or "
                f"replay a part of it: --set run.steps={step - 1}"
            )
        if version != step - 1:
            raise CheckpointError(
                f"the journal of {self._recorded} begins with step {version + 1}. Runs with run.keep_journal = true "
                "keep all of it."
            )
        yield split_into_minibatches(groups, self._minibatches)

    def wait_until_idle(self) -> None:
        """Do nothing: nothing is sampled."""

    def wait_for_sampling(self) -> None:
        """Do nothing."""

    def prefetched_batch(self) -> None:
        """Return None: what comes next is in the journal."""

    def set_max_tokens(self, max_tokens: int) -> None:
        """Do nothing: the answers are there."""

    def on_checkpoint_saved(self, oldest_step: int) -> None:
        """Do nothing: the journal belongs to another run."""

    def metrics(self) -> dict[str, float]:
        return {}


class _NoSampler:
    """There is nothing to evaluate with."""

    def sample(
        self, prompts: Iterable[SeededPrompt], sampling: SamplingParams
    ) -> Iterator[tuple[int, SampledCompletion | ValueError]]:
        raise RolloutError("a run that is trained again from its journal is not evaluated: it has no engine")

    def close(self) -> None: ...
