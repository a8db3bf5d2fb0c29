"""The gain of pipelining in the training loop, with stages that sleep:  python -m benchmarks.pipeline

Sampling, scoring and training sleep in the proportions that DeepCoder's authors report: 180 s of sampling, 140 s of
code rewards, and somewhat less for training than for sampling. A batch has 256 completions, most of them short and some
very long; each is scored when it is finished, four at a time. Batches, threads, their order and the timeline are real.
"stages" is sync without overlap: completions arrive only when all are finished. "math" has rewards that take no time.
The benchmark also writes docs/timeline.svg.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.record import ROOT, describe_machine, save_results
from rewards.async_rewards import AsyncRewards
from rewards.reward import Completion, Reward, Task
from train.asynchronous.controller import Controller
from train.asynchronous.journal import NullJournal
from train.asynchronous.lockstep import LockstepPipeline
from train.asynchronous.pipeline import build_controller_settings
from train.config import Config, DataConfig, ModelConfig, RolloutConfig, RunConfig
from train.loop import Trainer
from train.rollouts.prompt_dataset import TrainingPrompt
from train.run.checkpoint import RunProgress
from train.run.folder import open_run
from train.run.metrics_log import MetricsLog, Timeline
from train.run.plots import PlottedRun, plot_timeline
from train.sampling.protocol import SampledCompletion

SAMPLE, REWARD, TRAIN, SYNC = 1.8, 1.4, 1.5, 0.03  # seconds: a hundredth of those of a large run
STEPS = 8
WORKERS = 4
STAGES = "stages"  # sync without any overlap
PIPELINES = ("sync", "minibatch", "one-off")


class Sampler:
    """A sampler whose completions finish one after another, the last one after SAMPLE seconds.

    is_delayed: yield all completions when the last one is finished
    """

    def __init__(self, *, is_delayed: bool) -> None:
        self._version = 0
        self._is_delayed = is_delayed

    def sample(self, prompts: Any, sampling: Any) -> Iterator[tuple[int, SampledCompletion]]:
        batch = list(prompts)
        rng = random.Random(batch[0][1])
        ends = sorted(min(rng.lognormvariate(-1.2, 0.8), 1.0) for _ in batch)
        ends[-1] = 1.0
        if len(batch) <= 4:  # the probe
            ends = [0.0] * len(batch)
        if self._is_delayed:
            ends = [ends[-1]] * len(ends)
        began = time.monotonic()
        for index, end in enumerate(ends):
            time.sleep(max(0.0, began + SAMPLE * end - time.monotonic()))
            yield index, SampledCompletion("", "stop", 2, (1,), (index % 2, 3), (-0.5, -0.5), (self._version,) * 2)

    def update_weights(self, weights: Any, version: int, probe: Any, max_error: float) -> dict[str, float]:
        time.sleep(SYNC)
        self._version = version
        return {}

    def sleep(self) -> None:
        pass

    def close(self) -> None:
        pass


class Learner:
    def begin_batch(self, sequences: Any) -> None:
        pass

    def update(self, sequences: Any, *, max_tokens: int) -> dict[str, float]:
        time.sleep(TRAIN / 2)  # two minibatches
        return {"loss": 0.0}

    def export_weights(self) -> Iterator[Any]:
        return iter(())

    def compute_logprobs(self, sequences: Any, *, temperature: float = 1.0) -> list[Any]:
        import torch

        return [torch.full((len(each.token_ids),), -0.5) for each in sequences]  # equal to the sampler's

    all_ranks_alive, n_ranks = True, 1

    def snapshot(self) -> None:
        pass

    def save_state(self, folder: Path, *, from_snapshot: bool = False) -> Future[None]:
        folder.mkdir()
        written: Future[None] = Future()
        written.set_result(None)
        return written

    def load_state(self, folder: Path) -> None:
        pass

    def save_pretrained(self, folder: Path) -> None:
        folder.mkdir()


class Prompts:
    digest = ""

    def get_prompt(self, position: int) -> TrainingPrompt:
        return TrainingPrompt(f"q{position}", (1, 2), Task())

    def __len__(self) -> int:
        return 1000


def math_reward(completion: Completion, task: Task) -> Reward:
    return Reward(float(completion.text), "accepted")


def code_reward(completion: Completion, task: Task) -> Reward:
    time.sleep(min(random.expovariate(256 / (WORKERS * REWARD)), 0.12))  # a test takes at most its time limit, 12 s
    return math_reward(completion, task)


def measure(name: str, run: Path, reward: Callable[[Completion, Task], Reward]) -> dict[str, float]:
    """Return the median seconds of a step, and the share of them in which the trainer waits."""
    pipeline_name: Any = "sync" if name == STAGES else name
    config = Config(
        ModelConfig("model"),
        DataConfig("dataset"),
        rollout=RolloutConfig(prompts=32, completions=8, pipeline=pipeline_name),
        run=RunConfig(steps=STEPS, checkpoint_steps=STEPS),
    )
    seconds: list[float] = []
    idle: list[float] = []

    def report(step: int, found: Any) -> None:
        seconds.append(found["step_time"])
        idle.append(found["idle/trainer"])

    with open_run(run, config), AsyncRewards(reward, max_concurrent=WORKERS) as rewards:
        metrics, clock = MetricsLog(run), Timeline(run)
        learner: Any = Learner()
        prompts: Any = Prompts()
        settings = build_controller_settings(config, config.stages[0].max_tokens, vocabulary=10)
        controller = Controller(
            prompts, settings, NullJournal(), submit=rewards.submit, decode=lambda tokens: str(tokens[0])
        )
        pipeline = LockstepPipeline(
            config, controller, Sampler(is_delayed=name == STAGES), learner, prompts, clock, step=0, share=1.0
        )
        Trainer(config, run, learner, pipeline, (), metrics, clock, report, RunProgress()).run()
    # In a one-step-off-policy run, the first and the last step overlap with no other step.
    return {"step_seconds": round(median(seconds[1:-1]), 3), "trainer_idle": round(median(idle[1:-1]), 3)}


def main() -> None:
    longer = max(SAMPLE, TRAIN)
    with tempfile.TemporaryDirectory() as folder:
        found = {name: measure(name, Path(folder, name), code_reward) for name in (STAGES, *PIPELINES)}
        plot_timeline([PlottedRun(name, Path(folder, name)) for name in PIPELINES], ROOT / "docs" / "timeline.svg")
        for name, numbers in found.items():
            mathematics = measure(name, Path(folder, f"math-{name}"), math_reward)
            numbers["math_step_seconds"] = mathematics["step_seconds"]
            numbers["times_the_longer"] = round(numbers["step_seconds"] / longer, 3)
    shape = {"sample_seconds": SAMPLE, "reward_seconds": REWARD, "train_seconds": TRAIN}
    save_results("pipeline", {"machine": describe_machine(), **shape, "ways": found})


if __name__ == "__main__":
    main()
