"""Training of the reward model on rankings of the run's own completions (DeepSeekMath, section 4.1.4).

    RUN/reward_model/rankings.jsonl    for each prompt of a step, its completions and their rewards
    RUN/reward_model/step-000020/      the model trained after that step, a classifier like the initial one

Every few steps, the model is trained to order the completions of a prompt by their rewards from other sources, such as
tests. A tenth of the rankings are replayed from earlier trainings. Seed and step determine the selection and the order,
and each training starts with a new optimizer, so a resumed run needs only these files.
"""

import json
import math
import random
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from rewards.form import NAMES as FORM_REWARDS
from rewards.reward import Completion, Reward, Task
from train.asynchronous.journal import fsync_path
from train.errors import RolloutError, suggest_remedy
from train.rollouts.groups import SubmitForReward
from train.rollouts.reward_model import RewardModel
from train.run import checkpoint
from train.run.metrics_log import delete_after_step, read_json_lines

FOLDER = "reward_model"
_REPLAY_SHARE = 0.1  # share of rankings replayed from earlier trainings (DeepSeekMath)
_RANKINGS_PER_UPDATE = 16
_MAX_GRADIENT_NORM = 1.0


class RewardTraining:
    """A collector of rankings, which trains a reward model on them.

    model        reward model, opened with `trainable`
    every_steps  steps between trainings
    """

    def __init__(self, run: Path, model: RewardModel, *, every_steps: int, learning_rate: float, seed: int) -> None:
        self._run, self._folder = run, run / FOLDER
        self._rankings = self._folder / "rankings.jsonl"
        self.model = model
        self._every_steps, self._learning_rate, self._seed = every_steps, learning_rate, seed
        self._lock = threading.Lock()
        self._scored: dict[str, list[tuple[str, float]]] = {}  # by prompt, completions and rewards of this step

    def wrap_submit(self, submit: SubmitForReward) -> SubmitForReward:
        """Wrap `submit` to record each completion's rewards from other sources than the model."""

        def submit_and_record(completion: Completion, task: Task) -> Future[Reward]:
            future = submit(completion, task)
            # Registered before other callbacks, so it also runs before those that complete the step.
            future.add_done_callback(partial(self._record_reward, completion, task))
            return future

        return submit_and_record

    def restore(self, step: int) -> None:
        """Resume after a step: load the model last trained by then, and delete what later steps wrote."""
        delete_after_step(self._rankings, step)
        trained = self._list_trained_steps()
        for later in (each for each in trained if each > step):
            shutil.rmtree(self._locate_model(later))
        if earlier := [each for each in trained if each <= step]:
            self.model.load_weights(self._locate_model(earlier[-1]))

    def train_if_due(self, step: int) -> dict[str, float]:
        """Write the rankings of a step and, if due, train the model. Return the training's metrics; empty if not due.

        Call this between steps, after all completions of the step are scored and before the next one is submitted.
        Raises RolloutError if the files cannot be written.
        """
        with self._lock:
            scored, self._scored = self._scored, {}
        lines = (
            {"step": step, "prompt": prompt, "answers": sorted(completions)}
            for prompt, completions in sorted(scored.items())
            if len({value for _, value in completions}) > 1
        )
        try:
            self._folder.mkdir(exist_ok=True)
            with self._rankings.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            fsync_path(self._rankings)  # a run resumed from this step's checkpoint reads them
            if step % self._every_steps:
                return {}
            metrics = self._train(step)
            self._save(step)
        except OSError as error:
            raise RolloutError(
                f"cannot write {self._folder}: {error}. {suggest_remedy(error)}; --resume continues."
            ) from error
        return metrics

    def _record_reward(self, completion: Completion, task: Task, future: "Future[Reward]") -> None:
        if future.exception() is not None:
            return  # the caller of `submit` gets the error, and ends the run
        values = [value for name, value in future.result().parts if name != "model" and name not in FORM_REWARDS]
        if values and not math.isnan(total := sum(values)):
            with self._lock:
                self._scored.setdefault(task.prompt, []).append((completion.text, total))

    def _train(self, step: int) -> dict[str, float]:
        """Train for one epoch on the rankings since the previous training and some earlier ones."""
        first = step - self._every_steps + 1
        n_old = sum(line["step"] < first for line in read_json_lines(self._rankings))
        rankings = [line for line in read_json_lines(self._rankings) if line["step"] >= first]
        rng = random.Random(f"{self._seed} {step} rankings")
        n_replayed = min(n_old, round(len(rankings) * _REPLAY_SHARE / (1 - _REPLAY_SHARE)))
        replayed = set(rng.sample(range(n_old), n_replayed))
        rankings += [line for number, line in enumerate(read_json_lines(self._rankings)) if number in replayed]
        rng.shuffle(rankings)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=self._learning_rate, weight_decay=0.0)
        losses, right, n_pairs = 0.0, 0.0, 0.0
        for start in range(0, len(rankings), _RANKINGS_PER_UPDATE):
            batch = rankings[start : start + _RANKINGS_PER_UPDATE]
            optimizer.zero_grad()
            for ranking in batch:
                loss, n_right, n = self._accumulate_gradient(
                    ranking["prompt"], ranking["answers"], scale=1 / len(batch)
                )
                losses, right, n_pairs = losses + loss, right + n_right, n_pairs + n
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), _MAX_GRADIENT_NORM)
            if not norm.isfinite():
                raise RolloutError(
                    f"step {step}: the gradient of the reward model is not finite. Start another run with a lower "
                    "reward.model_learning_rate."
                )
            optimizer.step()
        optimizer.zero_grad()
        return {
            "reward_model/loss": losses / max(len(rankings), 1),
            "reward_model/accuracy": right / n_pairs if n_pairs else math.nan,
            "reward_model/pairs": n_pairs,
            "reward_model/replayed": float(n_replayed),
        }

    def _accumulate_gradient(
        self, prompt: str, completions: Sequence[Any], *, scale: float
    ) -> tuple[float, float, float]:
        """Accumulate the gradient of a ranking, multiplied by `scale`.

        Returns the ranking's loss, its number of correctly ordered pairs, and its number of pairs.

        The loss is the mean of -log sigmoid(score of better - score of worse) over all pairs. A first pass computes the
        gradient of the loss with respect to the scores; a second pass backpropagates it, batch by batch.
        """
        batches = self.model.make_batches(prompt, [text for text, _ in completions])
        values_N = torch.tensor([value for _, value in completions])
        scores_N = torch.full_like(values_N, math.nan)
        with torch.no_grad():
            for numbers, rows in batches:
                scores_N[numbers] = self.model.compute_outputs(rows)
        known_N = ~scores_N.isnan()
        scores_N = scores_N.nan_to_num()
        better_NN = (values_N[:, None] > values_N) & known_N[:, None] & known_N
        n_pairs = int(better_NN.sum())
        if not n_pairs:
            return 0.0, 0.0, 0.0
        scores_N.requires_grad_()
        margin_NN = scores_N[:, None] - scores_N
        loss = -(F.logsigmoid(margin_NN) * better_NN).sum() / n_pairs
        (gradient_N,) = torch.autograd.grad(loss, scores_N)
        for numbers, rows in batches:
            torch.autograd.backward(self.model.compute_outputs(rows), gradient_N[numbers] * scale)
        return loss.item(), float((better_NN & (margin_NN > 0)).sum()), float(n_pairs)

    def _save(self, step: int) -> None:
        """Write the model, and delete earlier models that no checkpoint needs."""
        folder = self._locate_model(step)
        aside = folder.with_name(f".{folder.name}.writing")
        shutil.rmtree(aside, ignore_errors=True)
        self.model.save_pretrained(aside)
        for path in (*aside.iterdir(), aside):
            fsync_path(path)
        aside.rename(folder)
        fsync_path(self._folder)
        oldest = checkpoint.find_oldest_step(self._run) if checkpoint.list_checkpoints(self._run) else 0
        for old in [each for each in self._list_trained_steps() if each <= oldest][:-1]:
            shutil.rmtree(self._locate_model(old))

    def _list_trained_steps(self) -> list[int]:
        return sorted(int(path.name.removeprefix("step-")) for path in self._folder.glob("step-*"))

    def _locate_model(self, step: int) -> Path:
        return self._folder / f"step-{step:06d}"
