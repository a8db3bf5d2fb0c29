"""The training loop; read `Trainer.run` from top to bottom.

    sample groups -> score -> filter, refill -> advantages -> updates -> hand over the weights -> compare -> next

The learner may be many processes (torchrun): the loop runs in the first, and the others follow its calls.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rewards.async_rewards import AsyncRewards
from train.config import Config, Objective
from train.errors import CheckpointError, ConfigError, RolloutError, RunError
from train.evaluation.evaluate import evaluate
from train.evaluation.exercises import Exercise, exercises
from train.learning.learner import Learner
from train.learning.objectives import outcome_advantages
from train.learning.sequences import Sequence as Tokens
from train.rollouts.batch import Batch, Group, rewards_of
from train.rollouts.context_stages import Course
from train.rollouts.overlap import Pipeline
from train.rollouts.questions import Questions
from train.rollouts.scoring import opened_sandbox, scoring
from train.rollouts.weight_sync import publish
from train.run import checkpoint, figures, model_card
from train.run.checkpoint import Progress
from train.run.metrics import Metrics
from train.run.timeline import Timeline
from train.sampling import open_engine
from train.sampling.protocol import Sampling, TrainedSampler

log = logging.getLogger(__name__)

Report = Callable[[int, Mapping[str, float]], None]

_PROBES = 2  # prompts with which sampler and trainer are compared
_AS_IT_IS = "For the model as it is: --resume --set run.steps=1."
_HOPELESS_STEPS = 5  # in a row in which nearly all answers were cut off
_PATIENCE = 2  # batches that other ranks wait for rank 0: it samples, and it evaluates


def train(config: Config, run: Path, *, report: Report = lambda step, found: None) -> None:
    """Run all steps that are left, from the newest checkpoint in the run's folder or from the start, and write the
    model to RUN/model. report is told each step's figures.

    Raises ConfigError, CurateError, SamplerError, SandboxError, RolloutError, LearnerError, ParityError or
    CheckpointError, each with words; what was saved stays good.
    """
    with ExitStack() as stack:
        learner = stack.enter_context(
            closing(
                Learner(
                    config.model,
                    config.objective,
                    config.optimizer,
                    temperature=config.rollout.temperature,
                    total_updates=config.run.steps * config.optimizer.minibatches * config.optimizer.epochs,
                    seed=config.run.seed,
                    timeout_seconds=_PATIENCE * config.rollout.max_seconds + config.engine.load_seconds,
                )
            )
        )
        if learner.rank:
            learner.follow()
            return
        questions = Questions(
            config.data, _tokenizer(config.model.path), seed=config.run.seed, cache=run / "questions.jsonl"
        )
        evaluated = exercises(
            config.evaluation.dataset, config.evaluation.window, config.evaluation.problems
        ) if config.evaluation.dataset else ()  # fmt: skip
        rewards = stack.enter_context(scoring(config.reward, config.most, seed=config.run.seed))
        sampler = stack.enter_context(closing(open_engine.opened(config)))
        metrics = stack.enter_context(closing(Metrics(run, tensorboard=config.run.tensorboard, wandb=config.run.wandb)))
        Trainer(config, run, learner, sampler, questions, evaluated, rewards, metrics, report).run()


class Trainer:
    """The parts of a run, and how far it is."""

    def __init__(
        self,
        config: Config,
        run: Path,
        learner: Learner,
        sampler: TrainedSampler,
        questions: Questions,
        evaluated: Sequence[Exercise],
        rewards: AsyncRewards,
        metrics: Metrics,
        report: Report,
    ) -> None:
        self._config = config
        self._folder = run
        self._learner = learner
        self._sampler = sampler
        self._questions = questions
        self._rewards = rewards
        self._metrics = metrics
        self._report = report
        saved = checkpoint.steps(run)
        self._done = Progress()
        if saved:
            self._done, state = checkpoint.load(saved[-1])
            if self._done.questions != questions.digest:
                raise ConfigError(
                    f"{config.data.dataset} holds other problems than when {run} began. Give another --out."
                )
            learner.load_state(state)
            log.info("goes on after step %d", self._done.step)
        self._metrics.resumed_at(self._done.step if saved else -1)  # what was said of step 0 is said again
        self._step = self._saved = self._weights_of = self._done.step
        self._course = Course(
            config.stages, self._done.stage, self._done.recent_clipped, ahead=config.rollout.pipeline == "one-off"
        )
        self._timeline = Timeline(run, after_seconds=self._done.seconds)
        self._evaluated = evaluated
        self._pipeline = Pipeline(
            config.rollout,
            config.optimizer.minibatches,
            self._begin,
            position=self._done.position,
            last_step=config.run.steps,
        )
        if self._done.ahead is not None:
            self._pipeline.resume(self._done.position, self._done.ahead)

    def run(self) -> None:
        """All steps that are left, then the model. Whatever ends it, the last whole step is kept."""
        try:
            self._run()
        except (Exception, KeyboardInterrupt) as error:
            self._rescue(error)
            raise

    def _run(self) -> None:
        first, last = self._done.step + 1, self._config.run.steps
        num_tokens, hopeless = self._done.num_tokens, 0
        self._publish(first - 1)
        if first == 1:
            self._metrics.log(0, self._evaluate(0))
        for step in range(first, last + 1):
            self._step = step
            began = self._timeline.now()
            groups: list[Group] = []
            updates: list[dict[str, float]] = []
            for minibatches in self._pipeline.stretches(step):
                if self._config.rollout.pipeline == "sync":
                    self._sampler.sleep()
                updates += self._learn(step, minibatches)
                groups += [group for minibatch in minibatches for group in minibatch]
            batch = self._pipeline.batch
            if all(math.isnan(rollout.reward) for group in groups for rollout in group):
                raise RolloutError(_nothing_to_learn(step, batch))
            if self._config.objective.reference_steps and step % self._config.objective.reference_steps == 0:
                self._learner.refresh_reference()
            self._pipeline.finish()
            found = {
                **figures.of_updates(updates),
                **figures.of_batch(groups, version=step - 1, tokens_before=num_tokens),
                **{f"filter/{name}": float(n) for name, n in sorted(batch.counts.items())},
                **self._publish(step),
                "stage": float(self._course.index),
                "epoch": batch.position / len(self._questions),
            }
            seconds = self._timeline.now() - began
            found |= {
                "step_time": seconds,
                "idle/trainer": self._pipeline.waited_seconds / seconds,
                "idle/sampler": max(0.0, 1 - self._pipeline.sampled_seconds / seconds),
            }
            num_tokens = found["num_tokens"]
            cut = found["completions/clipped_ratio"]
            hopeless = hopeless + 1 if cut >= self._config.run.most_truncated else 0
            if self._course.after(step, cut):
                log.info("answers may have %d tokens from step %d on", self._course.max_tokens, step + 1)
            if step == last or (self._evaluated and step % self._config.evaluation.every_steps == 0):
                found |= self._evaluate(step)
            self._metrics.log(step, found)
            self._metrics.sample(step, [group[0] for group in groups[: self._config.run.save_samples]])
            self._done = self._progress(step, num_tokens)
            self._report(step, found)
            if step == last or step % self._config.run.checkpoint_steps == 0:
                self._save()
            if hopeless >= _HOPELESS_STEPS:
                raise RolloutError(_hopeless(step, cut))
        self._learner.save_pretrained(self._folder / model_card.MODEL)
        model_card.write(self._folder)

    def _begin(self, position: int) -> Batch:
        """A batch whose sampling may start now."""
        step = self._step
        return Batch(
            self._questions,
            position,
            self._config.rollout,
            self._sampling(self._course.max_tokens),
            sampler=self._sampler,
            submit=self._rewards.submit,
            seed=self._config.run.seed,
            cut_off_known=self._config.objective.overlong != "unknown",
            note=lambda part, began, ended: self._timeline.note(step, part, began, ended),
            now=self._timeline.now,
        )

    def _learn(self, step: int, minibatches: Sequence[Sequence[Group]]) -> list[dict[str, float]]:
        self._weights_of = step
        with self._timeline.part(step, "train"):
            parts = [
                [tokens for group in minibatch for tokens in _tokens(group, self._config.objective)]
                for minibatch in minibatches
            ]
            self._learner.begin_batch([tokens for part in parts for tokens in part])
            return [
                self._learner.update(part, most_tokens=self._course.max_tokens)
                for _ in range(self._config.optimizer.epochs)
                for part in parts
            ]

    def _publish(self, step: int) -> dict[str, float]:
        """Hand over the weights that this step has made."""
        began = self._timeline.now()
        prompts = [(self._questions.at(position).chat, position) for position in range(_PROBES)]
        with self._timeline.part(step, "sync"):
            found = publish(
                self._learner,
                self._sampler,
                step,
                prompts,
                temperature=self._config.rollout.temperature,
                most_error=self._config.engine.parity,
                # one that has died is started again meanwhile
                seconds=self._config.engine.load_seconds + self._config.engine.sync_seconds,
            )
        return {**found, "weight_sync_s": self._timeline.now() - began}

    def _evaluate(self, step: int) -> dict[str, float]:
        if not self._evaluated:
            return {}
        settings = self._config.evaluation
        sampling = replace(
            self._sampling(settings.max_tokens or self._course.max_tokens),
            temperature=settings.temperature,
            top_p=settings.top_p,
            logprobs=False,
        )
        with self._timeline.part(step, "evaluate"), opened_sandbox(self._config.reward, self._config.most) as box:
            found = evaluate(
                self._evaluated, lambda prompts: self._sampler.sample(prompts, sampling), box, k=settings.k
            )
        return found.figures()

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
        with self._timeline.part(self._done.step, "checkpoint"):
            checkpoint.save(self._folder, self._done, self._learner.state(), keep=self._config.run.keep)
        self._saved = self._done.step

    def _rescue(self, error: BaseException) -> None:
        """Save the last whole step if the weights are still its own."""
        if not self._weights_of == self._done.step > self._saved or isinstance(error, OSError | CheckpointError):
            return
        if isinstance(error, KeyboardInterrupt) and self._learner.n_ranks > 1:
            return  # it goes to all ranks, so that there is nobody to gather weights from
        try:
            self._save()
        except RunError as failed:
            log.warning("step %d is not saved: %s", self._done.step, failed)

    def _sampling(self, max_tokens: int) -> Sampling:
        return Sampling(self._config.rollout.temperature, top_p=1.0, max_tokens=max_tokens, logprobs=True)


def _tokenizer(path: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(Path(path).expanduser()))


def _tokens(group: Group, objective: Objective) -> list[Tokens]:
    """What the learner sees of a group. Completions without a signal are left out: nothing is known about them."""
    rewards = rewards_of(group, cut_off_known=objective.overlong != "unknown")
    rewards_PG = torch.tensor([rewards], dtype=torch.float64)
    (advantages,) = outcome_advantages(rewards_PG, by_std=objective.by_std).tolist()
    return [
        Tokens(
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


def _nothing_to_learn(step: int, batch: Batch) -> str:
    counts = batch.counts
    words = (
        f"step {step}: no group with a signal in {counts['rounds']} rounds: {counts['none']} groups solved by no "
        f"answer, {counts['all']} by all, {counts['unknown']} without any reward because the sandbox failed, "
        f"{counts['cut_off']} cut off, {counts['refused']} prompts refused."
    )
    if counts["unknown"]:
        return f"{words} See `curate doctor`, then --resume."
    return (
        f"{words} Choose problems of a band that this model solves sometimes: curate difficulty, --solve-rate. "
        f"{_AS_IT_IS}"
    )


def _hopeless(step: int, cut: float) -> str:
    return (
        f"step {step}: {cut:.0%} of the answers are cut off, for {_HOPELESS_STEPS} steps now: nothing is left to learn "
        "from. Begin another run, with a lower optimizer.learning_rate or with a higher max_tokens of its stage. "
        f"{_AS_IT_IS}"
    )
