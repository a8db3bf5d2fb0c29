"""The interface of the four pipelines, and functions to build their controller.

sync        sample a batch, train on it, publish the weights
minibatch   train on the first groups of a batch while the others are sampled
one-off     train on a batch while the next is sampled with the weights of the previous step (DeepCoder's one-off
            pipelining), so every token has a staleness of 1
async       workers never stop sampling, and load new weights in the middle of completions

All have a controller (controller.py) that dispatches groups within a staleness bound. In the first three, one sampler
serves it, round by round (lockstep.py); in the last, workers do (async_pipeline.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Protocol

from train.asynchronous.controller import Controller
from train.asynchronous.dispatcher import ControllerSettings
from train.asynchronous.events import Event
from train.asynchronous.journal import NullJournal
from train.config import Config
from train.rollouts.groups import Group, SubmitForReward
from train.rollouts.prompt_dataset import PromptDataset
from train.sampling.protocol import Sampler
from train.sampling.text import tokenize_prompt

_N_PROBE_PROMPTS = 4


class TimelineWriter(Protocol):
    """A log of the busy intervals of a run's components (train/run/metrics_log.py)."""

    @property
    def clock(self) -> Callable[[], float]: ...

    def record(self, step: int, part: str, start_time: float, end_time: float, *, batch: int | None = None) -> None: ...


class Pipeline:
    """The source of batches for the training loop. This base class is a pipeline without samplers.

    In each step, the loop calls `yield_minibatches`, trains on each list of minibatches, then calls `wait_for_sampling`
    and `publish`. It publishes the initial weights before the first step.

    sampler           sampler with the newest weights, for evaluation
    signal_counts     number of groups by signal (`classify_group_signal`) in this step, and "rounds" of sampling
    wait_seconds      time in this step in which the trainer waited for groups
    sampling_seconds  time in this step in which the sampler was busy; nan if unknown
    """

    sampler: Sampler
    signal_counts: Mapping[str, int]
    wait_seconds: float = 0.0
    sampling_seconds: float = 0.0

    def publish(self, step: int, groups: Sequence[Group] = ()) -> dict[str, float]:
        """Publish the learner's weights after this step to the samplers, and return the metrics of the transfer.

        groups: batch of this step, on which sampler and learner are compared; without one, new engines sample for the
        comparison
        """
        return {}

    def yield_minibatches(self, step: int) -> Iterator[list[list[Group]]]:
        """Yield the groups of this step's batch as lists of minibatches, one for each update, as they become ready.

        Raises RolloutError if the batch is not complete in time.
        """
        return iter(())

    def wait_until_idle(self) -> None:
        """Block until the sampler is idle, in pipelines with pauses of sampling. Called in a separate thread."""

    def wait_for_sampling(self) -> None:
        """Wait for completions in progress, if the sampler's weights must not change during them."""

    def get_resume_point(self) -> tuple[int, float, Sequence[Event]]:
        """Return a checkpoint's state: next position in the data, share of groups with a signal, events of open groups.

        Pipelines with a journal return no events.
        """
        return 0, 1.0, ()

    def set_max_tokens(self, max_tokens: int) -> None:
        pass

    def on_checkpoint_saved(self, oldest_step: int) -> None:
        """Delete state that only a resumption before `oldest_step` would need."""

    def collect_metrics(self) -> dict[str, float]:
        """Return the pipeline's own metrics of the step."""
        return {}


def split_into_minibatches(groups: Sequence[Group], n: int) -> list[list[Group]]:
    """Split a batch into n minibatches whose sizes differ by at most 1. A batch of fewer groups gives fewer."""
    n = min(n, len(groups))
    return [list(groups[number * len(groups) // n : (number + 1) * len(groups) // n]) for number in range(n)]


def select_probe_prompts(prompts: PromptDataset, step: int) -> list[tuple[int, ...]]:
    """Select prompts for `compare_samples`, different for each step."""
    return [prompts.get_prompt(_N_PROBE_PROMPTS * step + number).prompt_ids for number in range(_N_PROBE_PROMPTS)]


def count_filtered_groups(controller: Controller, rounds: int) -> dict[str, int]:
    """Return `Pipeline.signal_counts` for the last batch, sampled in this number of rounds."""
    none = dict.fromkeys(("none", "all", "unknown", "cut_off", "refused"), 0)
    return {**none, **controller.count_signals(), "rounds": rounds}


def open_controller(
    config: Config,
    prompts: PromptDataset,
    tokenizer: Any,
    submit: SubmitForReward,
    recorder: NullJournal,
    *,
    step: int,
    position: int,
    max_tokens: int,
) -> Controller:
    """Build the controller of a run.

    tokenizer   a transformers tokenizer
    submit      queues a completion for scoring
    recorder    the run's journal, or CheckpointJournal
    step        last completed step
    position    position in the data of the next prompt, unless the recorder has a later one
    max_tokens  length limit of completions

    Raises CheckpointError if the journal is damaged.
    """
    return Controller(
        prompts,
        build_controller_settings(config, max_tokens, vocabulary=_read_vocab_size(config.model.path)),
        recorder,
        submit=submit,
        decode=lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True)),
        encode=lambda prompt: tokenize_prompt(tokenizer, prompt, config.prompt.chat_arguments),
        seed=config.run.seed,
        step=step,
        position=position,
    )


def build_controller_settings(config: Config, max_tokens: int, *, vocabulary: int) -> ControllerSettings:
    rollout = config.rollout
    settings = ControllerSettings(
        prompts_per_batch=rollout.prompts,
        completions_per_prompt=rollout.completions,
        total_steps=config.run.steps,
        max_tokens=max_tokens,
        online_filter=rollout.online_filter,
        max_rounds=rollout.max_rounds,
        temperature=rollout.temperature,
        count_truncated_rewards=config.objective.overlong != "unknown",
        process_supervision=config.objective.supervision == "process",
        vocab_size=vocabulary,
    )
    if rollout.pipeline == "async":
        return replace(
            settings,
            max_staleness=rollout.staleness,
            max_running_groups=rollout.max_running_groups,
            weight_load_timeout_seconds=config.engine.sync_seconds,
        )
    # The trainer's own sampler sends no heartbeats while it samples.
    staleness = 1 if rollout.pipeline == "one-off" else 0
    return replace(settings, max_staleness=staleness, worker_timeout_seconds=inf, min_lease_seconds=inf)


def _read_vocab_size(path: str) -> int:
    """Return the size of a model's vocabulary, which may exceed its tokenizer's."""
    from transformers import AutoConfig

    settings = AutoConfig.from_pretrained(str(Path(path).expanduser())).get_text_config()
    return int(settings.vocab_size)
