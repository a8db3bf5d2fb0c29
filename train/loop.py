"""The training loop; read `Trainer.run` and `Trainer._make_step` from top to bottom.

    sample groups -> score -> filter, refill -> advantages -> updates -> publish weights -> check parity -> next

With torchrun, the learner consists of many processes: rank 0 runs the loop, and the others serve its calls.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from train.asynchronous.async_pipeline import ReplayPipeline, open_async_pipeline
from train.asynchronous.journal import FOLDER, CheckpointJournal, RunJournal
from train.asynchronous.lockstep import LockstepPipeline
from train.asynchronous.pipeline import Pipeline, open_controller
from train.config import Config
from train.config.checks import find_config_warnings
from train.errors import CheckpointError, ConfigError, RolloutError, RunError
from train.interrupts import defer_interrupts, handle_signals, is_interrupt_requested
from train.learning.learner import Learner
from train.rollouts.context_schedule import ContextSchedule
from train.rollouts.groups import Group, SubmitForReward, to_training_sequences
from train.rollouts.prompt_dataset import PromptDataset
from train.rollouts.reward_model import RewardModel
from train.rollouts.rewards import open_scorer
from train.rollouts.weight_sync import check_mismatch
from train.run import checkpoint, model_card, step_metrics
from train.run.checkpoint import RunProgress
from train.run.evaluation_scheduler import EvaluationScheduler
from train.run.metrics_log import MetricsLog, Timeline
from train.run.pending_evaluation import RunSuite, read_suites
from train.run.reward_training import RewardTraining
from train.run.step_metrics import Performance
from train.sampling.open_engine import open_engine

log = logging.getLogger(__name__)

# Callback with a step and its metrics, called again with the metrics of an evaluation that ends later.
StepCallback = Callable[[int, Mapping[str, float]], None]

_SAVE_HINT = "To end the run here and write the model, repeat the command with --resume --set run.steps=1."
_MAX_TRUNCATED_STEPS = 5  # successive truncated steps that end the run; see run.max_truncated_share


def train(config: Config, run: Path, *, report: StepCallback = lambda step, metrics: None) -> None:
    """Run all remaining steps, from the newest checkpoint or from the start, and write RUN/model.

    run: the folder of the run, opened by train.run.folder.open_run

    Raises TrainError, CurateError or SandboxError. Saved files stay valid.
    """
    for doubt in find_config_warnings(config):
        log.warning("%s", doubt)
    with _open_learner(config) as (learner, stack):
        if learner is None:
            return
        tokenizer = _load_tokenizer(config.model.path)
        prompts = PromptDataset(
            config.data, config.prompt, tokenizer, seed=config.run.seed, cache=run / "prompts.jsonl"
        )
        suites = read_suites(config)
        reward_training = _open_reward_training(config, run, stack)
        rewards = stack.enter_context(
            open_scorer(
                config.reward, config.sandbox, config.limits, seed=config.run.seed, kinds=prompts.kinds,
                model=reward_training.model if reward_training else None,
            )
        )  # fmt: skip
        metrics = _open_metrics(config, run, stack)
        progress = _restore_progress(config, run, learner, metrics, prompts.digest)
        submit: SubmitForReward = rewards.submit
        if reward_training:
            reward_training.restore(progress.step)
            submit = reward_training.wrap_submit(submit)
        timeline = Timeline(run, after_seconds=progress.seconds)
        pipeline = stack.enter_context(
            _open_pipeline(config, run, learner, prompts, tokenizer, submit, timeline, progress)
        )
        Trainer(config, run, learner, pipeline, suites, metrics, timeline, report, progress, reward_training).run()


def replay(config: Config, recorded: Path, run: Path, *, report: StepCallback = lambda step, metrics: None) -> None:
    """Train a finished asynchronous run again from its journal, without engines and rewards, and write RUN/model.

    config    the configuration of that run; the objective may differ
    recorded  the folder of that run
    run       the folder of the new run, opened by train.run.folder.open_run

    Raises TrainError. Saved files stay valid.
    """
    with _open_learner(config) as (learner, stack):
        if learner is None:
            return
        metrics = _open_metrics(config, run, stack)
        progress = _restore_progress(config, run, learner, metrics, dataset_digest="")
        timeline = Timeline(run, after_seconds=progress.seconds)
        pipeline = ReplayPipeline(recorded, config.optimizer.minibatches, step=progress.step)
        Trainer(config, run, learner, pipeline, (), metrics, timeline, report, progress).run()


@contextmanager
def _open_learner(config: Config) -> Iterator[tuple[Learner | None, ExitStack]]:
    """Yield the learner and its exit stack in rank 0. Other ranks serve its calls, then yield None."""
    with handle_signals(), ExitStack() as stack:
        learner = Learner(
            config.model,
            config.objective,
            config.optimizer,
            temperature=config.rollout.temperature,
            total_updates=config.run.steps * config.optimizer.minibatches * config.optimizer.epochs,
            seed=config.run.seed,
            ranks=config.ranks,
        )
        stack.enter_context(closing(learner))
        if learner.rank:
            with defer_interrupts():  # only rank 0 ends this rank
                learner.serve_calls()
        yield None if learner.rank else learner, stack


def _restore_progress(
    config: Config, run: Path, learner: Learner, metrics: MetricsLog, dataset_digest: str
) -> RunProgress:
    """Load the newest checkpoint, if any, delete the metrics of later steps, and return the progress.

    dataset_digest: digest of the prompt dataset; empty for a replay
    """
    saved = checkpoint.list_checkpoints(run)
    if not saved:
        metrics.truncate_after(-1)  # including step 0, because the run starts again
        return RunProgress(dataset_digest=dataset_digest)
    progress = checkpoint.load(saved[-1], learner.load_state)
    if progress.dataset_digest != dataset_digest:
        raise ConfigError(
            f"{config.data.dataset} has other training problems than at the start of {run}. "
            "Restore data.include and the dataset, or choose another --out."
        )
    log.info("the run resumes after step %d", progress.step)
    metrics.truncate_after(progress.step)
    return progress


def _open_reward_training(config: Config, run: Path, stack: ExitStack) -> RewardTraining | None:
    reward = config.reward
    if not reward.model_train_steps:
        return None
    model = stack.enter_context(RewardModel(reward.model, reward.model_device, trainable=True))
    steps, learning_rate = reward.model_train_steps, reward.model_learning_rate
    return RewardTraining(run, model, every_steps=steps, learning_rate=learning_rate, seed=config.run.seed)


def _open_metrics(config: Config, run: Path, stack: ExitStack) -> MetricsLog:
    return stack.enter_context(closing(MetricsLog(run, tensorboard=config.run.tensorboard, wandb=config.run.wandb)))


@contextmanager
def _open_pipeline(
    config: Config, run: Path, learner: Learner, prompts: PromptDataset, tokenizer: Any, submit: SubmitForReward,
    timeline: Timeline, progress: RunProgress,
) -> Iterator[Pipeline]:  # fmt: skip
    is_async = config.rollout.pipeline == "async"
    if is_async and progress.step and not (run / FOLDER).exists():
        log.warning(
            "%s is missing: groups after step %d are sampled again, so the run is not bit-exactly repeatable",
            run / FOLDER,
            progress.step,
        )
    controller = open_controller(
        config, prompts, tokenizer, submit,
        RunJournal.open(run / FOLDER) if is_async else CheckpointJournal(progress.sampled_ahead),
        step=progress.step, position=progress.position, max_tokens=config.stages[progress.stage].max_tokens,
    )  # fmt: skip
    if is_async:
        with open_async_pipeline(config, run, controller, learner, prompts) as pipeline:
            yield pipeline
    else:
        with closing(controller), closing(open_engine(config)) as sampler:
            yield LockstepPipeline(
                config, controller, sampler, learner, prompts, timeline, step=progress.step, share=progress.signal_share
            )


class Trainer:
    """The training loop, and its state between steps."""

    def __init__(
        self,
        config: Config,
        run: Path,
        learner: Learner,
        pipeline: Pipeline,
        suites: Sequence[RunSuite],
        metrics: MetricsLog,
        timeline: Timeline,
        report: StepCallback,
        progress: RunProgress,
        reward_training: RewardTraining | None = None,
    ) -> None:
        self._config = config
        self._reward_training = reward_training
        self._folder = run
        self._learner = learner
        self._pipeline = pipeline
        self._metrics = metrics
        self._timeline = timeline
        self._report = report
        self._last_progress = progress  # progress after the last complete step
        self._saved_step = self._step_of_weights = progress.step
        self._schedule = ContextSchedule(
            config.stages, progress.stage, progress.recent_clipped, sampled_ahead=config.rollout.pipeline == "one-off"
        )
        self._pending_checkpoint: Future[Path] | None = None
        self._evaluations = EvaluationScheduler(
            config,
            run,
            learner,
            pipeline,
            suites,
            self._log_deferred_evaluation,
            timeline,
            evaluated_seconds=progress.evaluated_seconds,
        )
        self._performance = Performance(config, n_ranks=learner.n_ranks)
        self._step_train_seconds = 0.0
        self._n_truncated_steps = 0  # number of successive truncated steps up to now; see _MAX_TRUNCATED_STEPS

    def run(self) -> None:
        """Run all remaining steps, then write the model. On failure, save the last complete step."""
        try:
            self._publish(self._last_progress.step)
            self._evaluations.resume(self._last_progress.step)
            if self._last_progress.step == 0:
                self._metrics.log(0, self._evaluations.evaluate_if_due(0, self._schedule.max_tokens))
            for step in range(self._last_progress.step + 1, self._config.run.steps + 1):
                self._evaluations.collect()
                if self._pending_checkpoint is not None and self._pending_checkpoint.done():
                    self._finish_checkpoint()  # raises an error such as ENOSPC now instead of at the next checkpoint
                self._make_step(step)
            self._finish_checkpoint()
            self._learner.save_pretrained(self._folder / model_card.MODEL_FOLDER)
            self._evaluations.finish()
            model_card.write(self._folder)
        except (Exception, KeyboardInterrupt) as error:
            self._save_after_failure(error)
            if is_interrupt_requested() and not isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt from error  # the same signal made another thread fail
            raise
        finally:
            self._evaluations.close()

    def _make_step(self, step: int) -> None:
        start_time = self._timeline.clock()
        groups, updates = self._learn_from_batch(step)
        counts = self._pipeline.signal_counts
        if all(math.isnan(rollout.reward) for group in groups for rollout in group):
            raise RolloutError(_describe_missing_signal(step, counts))
        if self._config.objective.reference_steps and step % self._config.objective.reference_steps == 0:
            self._learner.update_reference()
        self._pipeline.wait_for_sampling()
        self._evaluations.wait_for_engine()
        reward_metrics = self._reward_training.train_if_due(step) if self._reward_training else {}
        metrics = {
            **reward_metrics,
            **step_metrics.combine_update_metrics(updates),
            **step_metrics.compute_batch_metrics(
                groups, version=step - 1, tokens_before=self._last_progress.num_tokens
            ),
            **{f"filter/{name}": float(n) for name, n in sorted(counts.items())},
            **self._publish(step, groups),
            "stage": float(self._schedule.index),
            **self._compute_time_metrics(groups, self._timeline.clock() - start_time),
            **self._pipeline.collect_metrics(),
        }
        clipped_ratio = metrics["completions/clipped_ratio"]
        if self._schedule.advance(step, clipped_ratio):
            self._pipeline.set_max_tokens(self._schedule.max_tokens)
            log.info("the maximum completion length is now %d tokens", self._schedule.max_tokens)
        metrics |= self._evaluations.evaluate_if_due(step, self._schedule.max_tokens)
        with defer_interrupts():
            self._record_step(step, metrics, groups)
        is_truncated = clipped_ratio >= self._config.run.max_truncated_share
        self._n_truncated_steps = self._n_truncated_steps + 1 if is_truncated else 0
        if self._n_truncated_steps >= _MAX_TRUNCATED_STEPS:
            raise RolloutError(_describe_truncation(step, clipped_ratio))

    def _learn_from_batch(self, step: int) -> tuple[list[Group], list[dict[str, float]]]:
        """Train on the groups of this step as they arrive; return the groups, and the metrics of each update."""
        groups: list[Group] = []
        updates: list[dict[str, float]] = []
        self._step_train_seconds = 0.0
        for minibatches in self._pipeline.yield_minibatches(step):
            self._evaluations.begin_idle_evaluation()
            start_time = self._timeline.clock()
            metrics = self._update_weights(step, minibatches)
            self._step_train_seconds += self._timeline.clock() - start_time
            if not updates:
                self._check_parity(step, minibatches[0], metrics[0])
            updates += metrics
            groups += [group for minibatch in minibatches for group in minibatch]
        return groups, updates

    def _check_parity(self, step: int, groups: Sequence[Group], metrics: Mapping[str, float]) -> None:
        """Compare sampler and learner on the first groups of a batch, if both used the same weights."""
        if all(version == step - 1 for group in groups for rollout in group for version in rollout.versions):
            engine = self._config.engine
            check_mismatch(metrics, step=step, warn_above=engine.mismatch_alarm, fail_above=engine.mismatch_stop)

    def _compute_time_metrics(self, groups: Sequence[Group], seconds: float) -> dict[str, float]:
        return {
            **self._performance.compute_step_metrics(
                groups, train_seconds=self._step_train_seconds, step_seconds=seconds
            ),
            "step_time": seconds,
            "idle/trainer": self._pipeline.wait_seconds / seconds,
            "idle/sampler": max(1 - self._pipeline.sampling_seconds / seconds, 0.0),  # nan stays nan
        }

    def _record_step(self, step: int, metrics: dict[str, float], groups: Sequence[Group]) -> None:
        self._metrics.log(step, metrics)
        self._metrics.log_samples(step, [group[0] for group in groups[: self._config.run.save_samples]])
        self._last_progress = self._build_progress(step, metrics["num_tokens"])
        self._report(step, metrics)
        if step == self._config.run.steps or step % self._config.run.checkpoint_steps == 0:
            self._begin_checkpoint()

    def _update_weights(self, step: int, minibatches: Sequence[Sequence[Group]]) -> list[dict[str, float]]:
        if self._step_of_weights != step and self._last_progress.step > self._saved_step:
            self._learner.snapshot()  # to save the previous step if this step fails
        self._step_of_weights = step
        with self._timeline.record_part(step, "train"):
            parts = [
                [sequence for group in minibatch for sequence in to_training_sequences(group, self._config.objective)]
                for minibatch in minibatches
            ]
            self._learner.begin_batch([sequence for part in parts for sequence in part])
            return [
                self._learner.update(part, max_tokens=self._schedule.max_tokens)
                for _ in range(self._config.optimizer.epochs)
                for part in parts
            ]

    def _publish(self, step: int, groups: Sequence[Group] = ()) -> dict[str, float]:
        start_time = self._timeline.clock()
        with self._timeline.record_part(step, "sync"):
            metrics = self._pipeline.publish(step, groups)
        return {**metrics, "weight_sync_s": self._timeline.clock() - start_time}

    def _log_deferred_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        self._metrics.log(step, metrics)
        self._report(step, metrics)

    def _build_progress(self, step: int, num_tokens: float) -> RunProgress:
        position, share, ahead = self._pipeline.get_resume_point()
        return replace(
            self._last_progress,
            step=step,
            position=position,
            num_tokens=num_tokens,
            seconds=self._timeline.clock(),
            stage=self._schedule.index,
            evaluated_seconds=self._evaluations.schedule.evaluated_seconds,
            recent_clipped=tuple(self._schedule.recent_truncated),
            signal_share=share,
            sampled_ahead=tuple(ahead),
        )

    def _begin_checkpoint(self, *, from_snapshot: bool = False) -> None:
        with self._timeline.record_part(self._last_progress.step, "checkpoint"):
            self._finish_checkpoint()
            save_learner = partial(self._learner.save_state, from_snapshot=from_snapshot)
            self._pending_checkpoint = checkpoint.save(
                self._folder, self._last_progress, save_learner, keep=self._config.run.keep
            )
        self._saved_step = self._last_progress.step

    def _finish_checkpoint(self) -> None:
        checkpoint_future, self._pending_checkpoint = self._pending_checkpoint, None
        if checkpoint_future is not None:
            checkpoint_future.result()
            self._pipeline.on_checkpoint_saved(checkpoint.find_oldest_step(self._folder))

    def _save_after_failure(self, error: BaseException) -> None:
        """Save the last complete step, from the learner's snapshot if the next step changed the weights."""
        try:
            self._finish_checkpoint()
        except CheckpointError as failure:
            log.warning("%s", failure)
            return
        if self._last_progress.step <= self._saved_step or isinstance(error, CheckpointError):
            return
        if not self._learner.all_ranks_alive:
            log.warning("step %d is not saved, because a rank has failed", self._last_progress.step)
            return
        try:
            with defer_interrupts():
                self._begin_checkpoint(from_snapshot=self._step_of_weights != self._last_progress.step)
                self._finish_checkpoint()
        except RunError as failure:
            log.warning("step %d is not saved: %s", self._last_progress.step, failure)


def _load_tokenizer(path: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(Path(path).expanduser()))


def _describe_missing_signal(step: int, counts: Mapping[str, int]) -> str:
    message = (
        f"step {step}: no group with a signal in {counts['rounds']} rounds: {counts['none']} groups solved by no "
        f"completion, {counts['all']} solved by all completions, {counts['cut_off']} truncated, {counts['unknown']} "
        f"without any reward; {counts['refused']} prompts refused. Rewards are missing if the sandbox or reward.model "
        "fails, or reward.function returns None."
    )
    if counts["unknown"]:
        return f"{message} Run `curate doctor` to diagnose the sandbox, then repeat the command with --resume."
    advice = "Choose problems that this model sometimes solves: see `curate difficulty` and --solve-rate."
    return f"{message} {advice} {_SAVE_HINT}"


def _describe_truncation(step: int, clipped_ratio: float) -> str:
    return (
        f"step {step}: {clipped_ratio:.0%} of the completions are truncated. {_MAX_TRUNCATED_STEPS} successive steps "
        "reached run.max_truncated_share, so too few completions give a gradient. Start another run with a lower "
        f"optimizer.learning_rate, or with a higher max_tokens of the stage. {_SAVE_HINT}"
    )
