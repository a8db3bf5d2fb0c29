"""Real runs on two cores, learner and engine pinned to one each, compared with the simulation's predictions.

    python -m benchmarks.asynchrony.real     # after `make learn`; about four minutes for each pipeline

The engine sleeps SLEEP_SECONDS after each step, so it is the bottleneck, as with long completions. Rewards are computed
on the learner's core. The simulation uses the speeds of engine and learner in the synchronous run, and the lengths of
completions in an asynchronous run. Step times are means, because rare long completions stall a pipeline.

Engines keep sampling while a run evaluates. So each mode has two runs: one with evaluations measures the steps until
pass@1 reaches GOAL, and one without them measures the time of a step.
"""

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import psutil

from benchmarks.record import ROOT, describe_machine, load_results, save_results
from benchmarks.tiny_training import LEARN, VLLM_ON_CPU, make_seed_settings, make_train_command, read_pass_at_1_curve
from train.asynchronous.events import ResultReceived
from train.asynchronous.journal import FOLDER, read_events
from train.asynchronous.messages import unpack_tokens
from train.planning.engine import EngineTimings, LearnerTimings
from train.planning.simulate import ONE_OFF, SYNC, Layout, TrainingMode, Workload, simulate
from train.run.metrics_log import TIMELINE, read_json_lines, read_metrics

RUNS = ROOT / "runs" / "asynchrony"
STEPS = 40
SLEEP_SECONDS = 0.06
GOAL = 0.85
PROMPTS, COMPLETIONS = 16, 16
_WARM_UP_STEPS = 5  # not measured
_RECORDED = "async-1"  # the run whose journal has the lengths
_PROMPT_TOKENS = 24
_MODES = {
    "sync": SYNC,
    "one-off": ONE_OFF,
    "async-1": TrainingMode("async", 1),
    "async-2": TrainingMode("async", 2),
    "async-4": TrainingMode("async", 4),
}
_ENVIRONMENT = {
    **VLLM_ON_CPU,
    "OMP_NUM_THREADS": "1",
    "CURATE_SLEEP_SECONDS": str(SLEEP_SECONDS),
    "PYTHONPATH": f"{Path(__file__).parent / 'slowed'}:{ROOT}",
}


class RecordedLengths:
    """The lengths of real completions, replayed cyclically."""

    def __init__(self, lengths: Iterable[int]) -> None:
        lengths = list(lengths)
        self.limit, self.mean = max(lengths), fmean(lengths)
        self._lengths = cycle(lengths)

    def sample(self, rng: random.Random) -> int:
        return next(self._lengths)


def train(name: str, mode: TrainingMode, *, is_evaluated: bool) -> Path:
    """Run or resume a training run, and return its folder."""
    folder = RUNS / (f"{name}-evaluated" if is_evaluated else name)
    settings = [
        *make_seed_settings(0),
        f"evaluation.dataset={LEARN / 'data' / 'held_out' if is_evaluated else ''}",
        "evaluation.every_steps=5",
        f"run.steps={STEPS}",
        "run.keep_journal=true",
        f"rollout.pipeline={mode.pipeline}",
        "rollout.online_filter=false",  # so that all batches have the same size
        "objective.old=learner",  # in all modes, so that steps do the same work
        "objective.truncation=2.0",
        "objective.by_std=false",
        "engine.gpus=[0]",  # starts the engine in a separate process; without GPUs the number is ignored
        "engine.concurrency=2048",
    ]
    if mode.pipeline == "async":
        settings.append(f"rollout.staleness={mode.staleness}")
    process = subprocess.Popen(
        make_train_command(folder, settings),
        cwd=ROOT,
        env={**os.environ, **_ENVIRONMENT},
        preexec_fn=lambda: os.sched_setaffinity(0, {0}),
    )
    stop = threading.Event()
    threading.Thread(target=_pin_engines, args=(process.pid, stop), daemon=True).start()
    try:
        if process.wait():
            sys.exit(f"the run {name} failed; read its output above")
    finally:
        stop.set()
        if process.poll() is None:
            process.kill()
    return folder


def _pin_engines(pid: int, stop: threading.Event) -> None:
    """Pin the threads of new engines to the second core, until `stop` is set."""
    while not stop.wait(0.2):
        try:
            for child in psutil.Process(pid).children(recursive=True):
                command = " ".join(child.cmdline())
                if "local_worker" in command or "multiprocessing.spawn" in command:
                    for thread in child.threads():
                        os.sched_setaffinity(thread.id, {1})
        except (psutil.Error, OSError):
            continue  # the thread has exited


def find_steps_to_goal(folder: Path) -> int | None:
    """Return the first step at which pass@1 reached the goal; None if it did not."""
    return next((step for step, passed in read_pass_at_1_curve(folder) if passed >= GOAL), None)


def read_measured_steps(folder: Path) -> list[dict[str, Any]]:
    return [line for line in read_metrics(folder) if "step_time" in line][_WARM_UP_STEPS:]


def read_step_means(folder: Path) -> dict[str, float]:
    """Return the mean step time, idle shares and staleness of the measured steps."""
    metrics = {
        "step_seconds": "step_time",
        "learner_idle_share": "idle/trainer",
        "engine_idle_share": "idle/sampler",
        "staleness_mean": "staleness/mean",
    }
    steps = read_measured_steps(folder)
    return {name: round(fmean(step[metric] for step in steps), 3) for name, metric in metrics.items()}


def read_part_seconds(folder: Path) -> dict[str, list[float]]:
    """Return the durations of each part of a synchronous run's steps, such as `sample`."""
    seconds: dict[str, list[float]] = {}
    for line in read_json_lines(folder / TIMELINE):
        if line["step"] > _WARM_UP_STEPS:
            seconds.setdefault(line["part"], []).append(line["ended"] - line["began"])
    return seconds


def read_completion_lengths(folder: Path) -> list[int]:
    """Return the number of tokens of each completion of an asynchronous run, in the order of dispatch."""
    by_group: dict[int, list[int]] = {}
    for event in read_events(folder / FOLDER):
        if isinstance(event, ResultReceived):
            by_group.setdefault(event.result.group, []).append(len(unpack_tokens(event.result.tokens)))
    return [tokens for group in sorted(by_group) for tokens in by_group[group]]


def calibrate(folder: Path) -> tuple[Workload, Layout]:
    """Return the workload of a synchronous run, and the measured speeds of its engine and learner."""
    steps, by_part = read_measured_steps(folder), read_part_seconds(folder)
    means = {part: fmean(seconds) for part, seconds in by_part.items()}
    latency = fmean(step["reward_latency_s/p50"] for step in steps)
    workload = Workload(
        PROMPTS,
        COMPLETIONS,
        _PROMPT_TOKENS,
        RecordedLengths(read_completion_lengths(RUNS / _RECORDED)),  # type: ignore[arg-type]
        reward_seconds=(0.5 * latency, latency, 2 * latency),
    )
    # The engine makes as many steps as the longest completion has tokens. Fit a cost per step and a cost per token.
    counts = [
        (step["completions/max_length"], step["completions/mean_length"] * PROMPTS * COMPLETIONS) for step in steps
    ]
    (per_step, per_token), *_ = np.linalg.lstsq(np.array(counts), np.array(by_part["sample"]), rcond=None)
    engine = EngineTimings(float(per_step), float(per_token), 0.0, 0.0, means["sync"], 1e9, max_concurrent=2048)
    return workload, Layout(1, engine, LearnerTimings(0.0, means["train"], means["sync"]))


def main() -> None:
    real: dict[str, Any] = {"machine": describe_machine(), "sleep_seconds": SLEEP_SECONDS, "goal": GOAL, "runs": {}}
    for name, mode in _MODES.items():
        began = time.monotonic()
        folders = [train(name, mode, is_evaluated=is_evaluated) for is_evaluated in (False, True)]
        run, goal = read_step_means(folders[0]), find_steps_to_goal(folders[1])
        seconds = goal and round(goal * run["step_seconds"], 1)
        real["runs"][name] = {"seconds_to_goal": seconds, "steps_to_goal": goal, **run}
        print(name, real["runs"][name], f"in {time.monotonic() - began:.0f} s", flush=True)
    for name, mode in _MODES.items():
        workload, layout = calibrate(RUNS / "sync")
        real["runs"][name]["predicted_step_seconds"] = round(simulate(mode, workload, layout).step_seconds, 3)
    save_results("asynchrony", load_results("asynchrony") | {"real": real})


if __name__ == "__main__":
    main()
