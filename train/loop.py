"""The training loop; read `Trainer.run` and `Trainer._make_step` from top to bottom.

    sample groups -> score -> filter, refill -> advantages -> updates -> hand over the weights -> compare -> next

The learner can consist of many processes (torchrun): the loop runs in the first, and the others follow its calls.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from curate.prompt import Prompt
from curate.trust import Trust
from rewards.async_rewards import AsyncRewards
from train.config import Config, Evaluation, Objective
from train.errors import CheckpointError, ConfigError, RolloutError, RunError
from train.evaluation.evaluate import evaluate
from train.evaluation.exercises import Exercise, exercises
from train.learning.learner import Learner
from train.learning.objectives import outcome_advantages
from train.learning.sequences import TrainingSequence
from train.rollouts.batch import Batch, Group, rewards_of
from train.rollouts.context_stages import Course
from train.rollouts.overlap import Pipeline
from train.rollouts.questions import Questions
from train.rollouts.scoring import open_sandbox, scoring
from train.rollouts.weight_sync import publish
from train.run import checkpoint, figures, model_card
from train.run.checkpoint import Progress
from train.run.metrics import Metrics
from train.run.timeline import Timeline
from train.sampling.open_engine import open_engine
from train.sampling.protocol import Sampling, TrainedSampler

log = logging.getLogger(__name__)

Report = Callable[[int, Mapping[str, float]], None]  # called with a step and its metrics

_PROBES = 2  # prompts with which sampler and learner are compared
_MODEL_AS_IT_IS = "To write the model as it is: --resume --set run.steps=1."
_MOST_HOPELESS_STEPS = 5  # successive steps in which nearly all answers were cut off
_BATCHES_TO_WAIT = 2  # how long other ranks wait for rank 0, which samples a batch and may need as long to evaluate


def train(config: Config, run: Path, *, report: Report = lambda step, metrics: None) -> None:
    """Run all remaining steps, from the newest checkpoint in the folder or from the start, and write RUN/model.

    config  the whole configuration
    run     the folder of the run, opened by train.run.folder.open_run
    report  called with each step's number and metrics

    Raises a TrainError, CurateError or SandboxError that says what to do; what was saved stays valid.
    """
    if config.rollout.pipeline == "async":
        raise ConfigError('rollout.pipeline = "async" is not there yet; give "one-off"')
    with ExitStack() as stack:
        learner = stack.enter_context(closing(_load_learner(config)))
        if learner.rank:
            learner.follow()
            return
        questions = Questions(
            config.data,
            config.prompt,
            _tokenizer(config.model.path),
            seed=config.run.seed,
            cache=run / "questions.jsonl",
        )
        evaluation_set = _evaluation_set(config.evaluation, config.prompt, config.reward.languages)
        rewards = stack.enter_context(scoring(config.reward, config.sandbox, config.most, seed=config.run.seed))
        sampler = stack.enter_context(closing(open_engine(config)))
        metrics = stack.enter_context(closing(Metrics(run, tensorboard=config.run.tensorboard, wandb=config.run.wandb)))
        Trainer(config, run, learner, sampler, questions, evaluation_set, rewards, metrics, report).run()


def _load_learner(config: Config) -> Learner:
    return Learner(
        config.model,
        config.objective,
        config.optimizer,
        temperature=config.rollout.temperature,
        total_updates=config.run.steps * config.optimizer.minibatches * config.optimizer.epochs,
        seed=config.run.seed,
        timeout_seconds=_BATCHES_TO_WAIT * config.rollout.max_seconds + config.engine.load_seconds,
    )


def _evaluation_set(settings: Evaluation, prompt: Prompt, languages: tuple[str, ...]) -> tuple[Exercise, ...]:
    if not settings.dataset:
        return ()
    trust = Trust.including(settings.include)
    return exercises(
        settings.dataset, settings.window, settings.problems, trust=trust, prompt=prompt, languages=languages
    )


class Trainer:
    """Holds the parts of a run and its progress, and trains step by step."""

    def __init__(
        self,
        config: Config,
        run: Path,
        learner: Learner,
        sampler: TrainedSampler,
        questions: Questions,
        evaluation_set: Sequence[Exercise],
        rewards: AsyncRewards,
        metrics: Metrics,
        report: Report,
    ) -> None:
        self._config = config
        self._folder = run
        self._learner = learner
        self._sampler = sampler
        self._questions = questions
        self._evaluation_set = evaluation_set
        self._rewards = rewards
        self._metrics = metrics
        self._report = report
        self._done = self._restore()  # the progress after the last whole step
        self._step = self._saved_step = self._step_of_weights = self._done.step
        self._course = Course(
            config.stages, self._done.stage, self._done.recent_clipped, ahead=config.rollout.pipeline == "one-off"
        )
        self._timeline = Timeline(run, after_seconds=self._done.seconds)
        self._batch = self._done.step  # number of the newest batch, which is that of the step that trains on it
        self._pipeline = Pipeline(
            config.rollout,
            config.optimizer.minibatches,
            self._begin,
            position=self._done.position,
            last_step=config.run.steps,
        )
        if self._done.ahead is not None:
            self._pipeline.resume(self._done.position, self._done.ahead)
        self._saving: Future[Path] | None = None  # the checkpoint that is being written
        self._hopeless_steps = 0  # the latest successive steps in which nearly all answers were cut off

    def run(self) -> None:
        """Make all remaining steps, then write the model. Whatever ends the run, the last whole step is kept."""
        try:
            self._publish(self._done.step)
            if self._done.step == 0:
                self._metrics.log(0, self._evaluate(0))
            for step in range(self._done.step + 1, self._config.run.steps + 1):
                if self._saving is not None and self._saving.done():
                    self._finish_saving()  # if the disk is full, the run learns it now and not at the next checkpoint
                self._make_step(step)
            self._finish_saving()
            self._learner.save_pretrained(self._folder / model_card.MODEL)
            model_card.write(self._folder)
        except (Exception, KeyboardInterrupt) as error:
            self._rescue(error)
            raise

    def _restore(self) -> Progress:
        """Load the newest checkpoint, if there is one, and return its progress."""
        saved = checkpoint.steps(self._folder)
        progress = Progress()
        if saved:
            progress = checkpoint.load(saved[-1], self._learner.load_state)
            if progress.questions != self._questions.digest:
                raise ConfigError(
                    f"{self._config.data.dataset} holds other problems to train on than when {self._folder} began. "
                    "Give the same data.include as then, or choose another --out."
                )
            log.info("continues after step %d", progress.step)
        self._metrics.resumed_at(progress.step if saved else -1)  # step 0 is evaluated again
        return progress

    def _make_step(self, step: int) -> None:
        self._step = step
        began = self._timeline.now()
        groups, updates = self._learn_from_batch(step)
        batch = self._pipeline.batch
        if all(math.isnan(rollout.reward) for group in groups for rollout in group):
            raise RolloutError(_no_signal_message(step, batch.counts))
        if self._config.objective.reference_steps and step % self._config.objective.reference_steps == 0:
            self._learner.refresh_reference()
        self._pipeline.finish()
        metrics = {
            **figures.of_updates(updates),
            **figures.of_batch(groups, version=step - 1, tokens_before=self._done.num_tokens),
            **{f"filter/{name}": float(n) for name, n in sorted(batch.counts.items())},
            **self._publish(step),
            "stage": float(self._course.index),
            "epoch": batch.position / len(self._questions),
            **self._times(self._timeline.now() - began),
        }
        clipped_ratio = metrics["completions/clipped_ratio"]
        if self._course.after(step, clipped_ratio):
            log.info("answers may have %d tokens from step %d on", self._course.max_tokens, step + 1)
        if step == self._config.run.steps or step % self._config.evaluation.every_steps == 0:
            metrics |= self._evaluate(step)
        self._keep(step, metrics, groups)
        hopeless = clipped_ratio >= self._config.run.most_truncated
        self._hopeless_steps = self._hopeless_steps + 1 if hopeless else 0
        if self._hopeless_steps >= _MOST_HOPELESS_STEPS:
            raise RolloutError(_hopeless_message(step, clipped_ratio))

    def _learn_from_batch(self, step: int) -> tuple[list[Group], list[dict[str, float]]]:
        """Train on the groups of this step as they arrive; return all of them, and the metrics of each update."""
        groups: list[Group] = []
        updates: list[dict[str, float]] = []
        for minibatches in self._pipeline.stretches(step):
            if self._config.rollout.pipeline == "sync":
                self._sampler.sleep()
            updates += self._learn(step, minibatches)
            groups += [group for minibatch in minibatches for group in minibatch]
        return groups, updates

    def _times(self, seconds: float) -> dict[str, float]:
        return {
            "step_time": seconds,
            "idle/trainer": self._pipeline.waited_seconds / seconds,
            "idle/sampler": max(0.0, 1 - self._pipeline.sampled_seconds / seconds),
        }

    def _keep(self, step: int, metrics: dict[str, float], groups: Sequence[Group]) -> None:
        """Record the metrics and some samples of a step, and write a checkpoint if one is due."""
        self._metrics.log(step, metrics)
        self._metrics.sample(step, [group[0] for group in groups[: self._config.run.save_samples]])
        self._done = self._progress(step, metrics["num_tokens"])
        self._report(step, metrics)
        if step == self._config.run.steps or step % self._config.run.checkpoint_steps == 0:
            self._save()

    def _begin(self, position: int) -> Batch:
        """Return the batch that begins at this position in the data. Sampling it may start immediately."""
        self._batch += 1
        step, number = self._step, self._batch
        return Batch(
            self._questions,
            position,
            self._config.rollout,
            self._sampling(self._course.max_tokens),
            sampler=self._sampler,
            submit=self._rewards.submit,
            seed=self._config.run.seed,
            cut_off_known=self._config.objective.overlong != "unknown",
            note=lambda part, began, ended: self._timeline.note(step, part, began, ended, batch=number),
            now=self._timeline.now,
        )

    def _learn(self, step: int, minibatches: Sequence[Sequence[Group]]) -> list[dict[str, float]]:
        self._step_of_weights = step
        with self._timeline.part(step, "train"):
            parts = [
                [sequence for group in minibatch for sequence in _sequences(group, self._config.objective)]
                for minibatch in minibatches
            ]
            self._learner.begin_batch([sequence for part in parts for sequence in part])
            return [
                self._learner.update(part, most_tokens=self._course.max_tokens)
                for _ in range(self._config.optimizer.epochs)
                for part in parts
            ]

    def _publish(self, step: int) -> dict[str, float]:
        """Hand the weights after this step to the sampler, and return the metrics of the comparison."""
        began = self._timeline.now()
        prompts = [(self._questions.at(position).prompt_ids, position) for position in range(_PROBES)]
        with self._timeline.part(step, "sync"):
            metrics = publish(
                self._learner,
                self._sampler,
                step,
                prompts,
                temperature=self._config.rollout.temperature,
                most_error=self._config.engine.parity,
                # an engine that has died is started again meanwhile
                seconds=self._config.engine.load_seconds + self._config.engine.sync_seconds,
            )
        return {**metrics, "weight_sync_s": self._timeline.now() - began}

    def _evaluate(self, step: int) -> dict[str, float]:
        if not self._evaluation_set:
            return {}
        settings = self._config.evaluation
        sampling = replace(
            self._sampling(settings.max_tokens or self._course.max_tokens),
            temperature=settings.temperature,
            top_p=settings.top_p,
            logprobs=False,
        )
        with self._timeline.part(step, "evaluate"), open_sandbox(self._config.sandbox, self._config.most) as sandbox:
            evaluation = evaluate(
                self._evaluation_set, lambda prompts: self._sampler.sample(prompts, sampling), sandbox, k=settings.k
            )
        return evaluation.metrics()

    def _progress(self, step: int, num_tokens: float) -> Progress:
        ahead = self._pipeline.ahead()
        return Progress(
            step=step,
            position=self._pipeline.position if ahead is None else ahead[0],
            num_tokens=num_tokens,
            seconds=self._timeline.now(),
            stage=self._course.index,
            recent_clipped=tuple(self._course.recent),
            ahead=None if ahead is None else tuple(ahead[1]),
            questions=self._questions.digest,
        )

    def _save(self) -> None:
        """Begin to write a checkpoint. The training goes on meanwhile, up to the next checkpoint."""
        with self._timeline.part(self._done.step, "checkpoint"):
            self._finish_saving()
            self._saving = checkpoint.save(
                self._folder, self._done, self._learner.save_state, keep=self._config.run.keep
            )
        self._saved_step = self._done.step

    def _finish_saving(self) -> None:
        """Wait until the checkpoint that is being written is complete. Raises CheckpointError if it cannot be."""
        saving, self._saving = self._saving, None
        if saving is not None:
            saving.result()

    def _rescue(self, error: BaseException) -> None:
        """Save the last whole step, if the weights are still those of that step."""
        try:
            self._finish_saving()
        except CheckpointError as failure:
            log.warning("%s", failure)
            return
        if not self._step_of_weights == self._done.step > self._saved_step or isinstance(
            error, OSError | CheckpointError
        ):
            return
        if isinstance(error, KeyboardInterrupt) and self._learner.n_ranks > 1:
            return  # all ranks are interrupted, so nobody is left to gather weights from
        try:
            self._save()
        except RunError as failure:
            log.warning("step %d is not saved: %s", self._done.step, failure)

    def _sampling(self, max_tokens: int) -> Sampling:
        return Sampling(self._config.rollout.temperature, top_p=1.0, max_tokens=max_tokens, logprobs=True)


def _tokenizer(path: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(Path(path).expanduser()))


def _sequences(group: Group, objective: Objective) -> list[TrainingSequence]:
    """Return what the learner sees of a group. Completions whose reward is unknown are left out."""
    rewards = rewards_of(group, cut_off_known=objective.overlong != "unknown")
    rewards_PG = torch.tensor([rewards], dtype=torch.float64)
    (advantages,) = outcome_advantages(rewards_PG, by_std=objective.by_std, epsilon=objective.std_epsilon).tolist()
    return [
        TrainingSequence(
            prompt_ids=rollout.prompt_ids,
            token_ids=rollout.token_ids,
            sampler_logprobs=rollout.logprobs,
            advantages=(advantage,) * len(rollout.token_ids),
            truncated=rollout.truncated,
            reward=reward,
        )
        for rollout, reward, advantage in zip(group, rewards, advantages, strict=True)
        if not math.isnan(reward)
    ]


def _no_signal_message(step: int, counts: Mapping[str, int]) -> str:
    message = (
        f"step {step}: no group with a signal in {counts['rounds']} rounds: {counts['none']} groups solved by no "
        f"answer, {counts['all']} by all, {counts['unknown']} without any reward because the sandbox failed, "
        f"{counts['cut_off']} cut off, {counts['refused']} prompts refused."
    )
    if counts["unknown"]:
        return f"{message} Type `curate doctor` to see what is wrong, then --resume."
    return (
        f"{message} Choose problems that this model solves sometimes: curate difficulty, --solve-rate. "
        f"{_MODEL_AS_IT_IS}"
    )


def _hopeless_message(step: int, clipped_ratio: float) -> str:
    return (
        f"step {step}: {clipped_ratio:.0%} of the answers are cut off, for {_MOST_HOPELESS_STEPS} steps now, so there "
        "is nothing left to learn from. Start another run, with a lower optimizer.learning_rate or a higher max_tokens "
        f"of its stage. {_MODEL_AS_IT_IS}"
    )
