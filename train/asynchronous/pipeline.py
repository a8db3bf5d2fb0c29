"""The asynchronous pipeline, as the loop sees it: batches are cut by a controller, and new weights are announced to it.

Sampling never waits for training, nor training for weights to be loaded: `publish` returns as soon as workers can fetch
the weights, and the next batch is cut from what is ready.

MERGED A run that is trained again from its journal: the same batches in the same order, without engines and rewards.

With the same configuration, the weights must be the same; with another objective, two objectives are compared on the
same samples.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import nan
from pathlib import Path

from train.asynchronous import journal
from train.asynchronous.controller import Controller
from train.config import Config
from train.errors import CheckpointError, NoRunError, RolloutError
from train.learning.learner import Learner
from train.rollouts.groups import Group
from train.rollouts.prompt_dataset import PromptDataset
from train.rollouts.weight_sync import make_probe
from train.sampling.protocol import SampledCompletion, Sampler, SamplingParams, SeededPrompt
from train.weights.manifest import WeightManifest
from train.weights.source import WeightPublisher

_PROBES = 4  # prompts with which engines are compared with the learner, others with each version


class AsynchronousPipeline:
    """A Pipeline (train/rollouts/pipeline.py) whose batches are cut by a controller."""

    def __init__(
        self,
        config: Config,
        controller: Controller,
        learner: Learner,
        publisher: WeightPublisher,
        questions: PromptDataset,
    ) -> None:
        self.sampler: Sampler = controller.create_sampler(config.rollout.max_seconds)
        self.signal_counts: dict[str, int] = {}
        self.wait_seconds = 0.0
        self._config = config
        self._controller = controller
        self._learner = learner
        self._publisher = publisher
        self._prompts = questions
        self._proofs = _Latest()

    @property
    def position(self) -> int:
        return self._controller.position

    @property
    def sampling_seconds(self) -> float:
        return nan  # workers tell their share of idle time themselves

    def publish(self, step: int) -> dict[str, float]:
        prompts = [self._prompts.prompt_at(_PROBES * step + number).prompt_ids for number in range(_PROBES)]
        probe = make_probe(self._learner, prompts)
        manifest = self._publisher.publish(self._learner.export_weights(), step, probe, self._config.engine.parity)
        self._controller.publish_weights(manifest)
        return self._proofs.take()

    def record_load_metrics(self, manifest: WeightManifest, metrics: dict[str, float]) -> None:
        """Note the proof that a worker of this process has made after it loaded weights."""
        self._proofs.put(metrics)

    def ready_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        start_time = time.monotonic()
        groups = self._controller.wait_for_batch(step - 1, self._config.rollout.max_seconds)
        self.wait_seconds = time.monotonic() - start_time
        self.signal_counts = _with_rounds(self._controller.signal_counts(), self._config.rollout.prompts)
        if groups:
            yield split_into_minibatches(groups, self._config.optimizer.minibatches)

    def wait_until_idle(self) -> None:
        """Do nothing: sampling never ends (evaluation.where = "idle" is refused)."""

    def wait_for_sampling(self) -> None:
        """Do nothing: weights may change at any time."""

    def prefetched_batch(self) -> None:
        """Return None: what was sampled ahead is in the journal."""

    def set_max_tokens(self, max_tokens: int) -> None:
        self._controller.set_max_tokens(max_tokens)

    def on_checkpoint_saved(self, oldest_step: int) -> None:
        if not self._config.run.keep_journal:
            self._controller.prune_journal(oldest_step)

    def metrics(self) -> dict[str, float]:
        return {**self._controller.metrics(), "epoch": self.position / len(self._prompts)}


def split_into_minibatches(groups: Sequence[Group], n: int) -> list[list[Group]]:
    """Divide the groups of a batch into at most n minibatches of equal size; the last one may be smaller."""
    size = max(1, -(-len(groups) // n))
    return [list(groups[first : first + size]) for first in range(0, len(groups), size)]


def _with_rounds(signals: dict[str, int], prompts: int) -> dict[str, int]:
    """Add how many rounds of prompts the groups would have been."""
    return {**dict.fromkeys(("none", "all", "unknown", "cut_off", "refused"), 0), **signals,
            "rounds": -(-sum(signals.values()) // prompts)}  # fmt: skip


class _Latest:
    """The latest metrics of a proof, from one thread to another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._metrics: dict[str, float] = {}

    def put(self, metrics: dict[str, float]) -> None:
        with self._lock:
            self._metrics = metrics

    def take(self) -> dict[str, float]:
        with self._lock:
            return self._metrics


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
