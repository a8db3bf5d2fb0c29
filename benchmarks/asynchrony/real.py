"""Real runs on two cores, learner and engine pinned to one each, compared with the simulation's predictions.

    python -m benchmarks.asynchrony.real [--steps 40]     # after `make learn`; about four minutes for each pipeline

The engine sleeps SLEEP seconds after each step. This makes it the bottleneck, as engines are with long completions.
Rewards are computed on the learner's core. The simulation gets the speed of engine and learner in the synchronous run,
and the lengths of completions in the order in which an asynchronous run dispatched them, and predicts the time of a
step in all runs. Times of steps are means, since the rare long completions make a pipeline wait.

Engines keep sampling while a run evaluates, so there are two runs of each mode: one with evaluations measures the steps
until pass@1 reaches GOAL, and one without them measures the time of a step. The benchmark adds to
results/asynchrony.json.
"""

import argparse
import json
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

from benchmarks.asynchrony.simulated import RESULTS
from benchmarks.machine import VLLM_ON_CPU, describe
from train.asynchronous.events import ResultReceived
from train.asynchronous.journal import FOLDER, read_events
from train.asynchronous.messages import unpack_tokens
from train.planning.engine import EngineTimings, LearnerTimings
from train.planning.simulate import ONE_OFF, SYNC, Layout, TrainingMode, Workload, simulate
from train.run import metrics_log

ROOT = Path(__file__).parents[2]
LEARN, RUNS = ROOT / "runs" / "learn", ROOT / "runs" / "asynchrony"
SLEEP = 0.06
PASSED, GOAL = "eval/pass@1", 0.85
PROMPTS, COMPLETIONS = 16, 16
_NOT_MEASURED = 5  # steps at the beginning
_RECORDED = "async-1"  # the run whose journal has the lengths
_PROMPT_TOKENS = 24
_WAYS = {
    "sync": SYNC,
    "one-off": ONE_OFF,
    "async-1": TrainingMode("async", 1),
    "async-2": TrainingMode("async", 2),
    "async-4": TrainingMode("async", 4),
}
_ENVIRONMENT = {
    **VLLM_ON_CPU,
    "OMP_NUM_THREADS": "1",
    "CURATE_SLEEP_SECONDS": str(SLEEP),
    "PYTHONPATH": f"{Path(__file__).parent / 'slowed'}:{ROOT}",
}


class RecordedLengths:
    """The recorded lengths of real completions, replayed in order and cyclically."""

    def __init__(self, lengths: Iterable[int]) -> None:
        lengths = list(lengths)
        self.limit, self.mean = max(lengths), fmean(lengths)
        self._lengths = cycle(lengths)

    def draw(self, rng: random.Random) -> int:
        return next(self._lengths)


def train(name: str, way: TrainingMode, steps: int, *, evaluates: bool) -> Path:
    """Run or resume a training run, and return its folder."""
    folder, seed = RUNS / (f"{name}-evaluated" if evaluates else name), LEARN / "seed-0"
    changes = [
        f"model.path={seed / 'warm'}",
        f"data.dataset={seed / 'band'}",
        f"evaluation.dataset={LEARN / 'data' / 'held_out' if evaluates else ''}",
        "evaluation.every_steps=5",
        f"run.steps={steps}",
        "run.keep_journal=true",
        f"rollout.pipeline={way.pipeline}",
        "rollout.online_filter=false",  # so that all batches have the same size
        "objective.old=learner",  # in all modes, so that steps do the same work
        "objective.truncation=2.0",
        "objective.by_std=false",
        "engine.gpus=[0]",  # starts the engine in a separate process; without GPUs the number is ignored
        "engine.concurrency=2048",
    ]
    if way.pipeline == "async":
        changes.append(f"rollout.staleness={way.staleness}")
    command = [sys.executable, "-W", "ignore", "-m", "cli", "train", "examples/learn/grpo_plus.toml", "--resume"]
    command += ["--out", str(folder), *(word for change in changes for word in ("--set", change))]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **_ENVIRONMENT}, preexec_fn=lambda: os.sched_setaffinity(0, {0})
    )
    over = threading.Event()
    threading.Thread(target=_pin_engines, args=(process.pid, over), daemon=True).start()
    try:
        if process.wait():
            sys.exit(f"the run {name} has failed; see above")
    finally:
        over.set()
        if process.poll() is None:
            process.kill()
    return folder


def _pin_engines(pid: int, over: threading.Event) -> None:
    """Move the threads of engines to the second core as soon as they appear."""
    while not over.wait(0.2):
        try:
            for child in psutil.Process(pid).children(recursive=True):
                words = " ".join(child.cmdline())
                if "local_worker" in words or "multiprocessing.spawn" in words:
                    for thread in child.threads():
                        os.sched_setaffinity(thread.id, {1})
        except (psutil.Error, OSError):
            continue  # the thread has just ended


def learned(folder: Path) -> dict[str, Any]:
    """Return the first step at which pass@1 reached the goal, and the last pass@1 of a run."""
    found = {line["step"]: line[PASSED] for line in metrics_log.read_metrics(folder) if PASSED in line}
    return {
        "steps_to_goal": next((step for step, passed in found.items() if passed >= GOAL), None),
        "pass@1": found[max(found)],
    }


def measured(folder: Path) -> dict[str, Any]:
    """Return the time of a run's steps, and the shares of waiting."""
    counted = [line for line in metrics_log.read_metrics(folder) if "step_time" in line][_NOT_MEASURED:]
    return {
        "step_seconds": round(fmean(line["step_time"] for line in counted), 3),
        "learner_idle_share": round(fmean(line["idle/trainer"] for line in counted), 3),
        "engine_idle_share": round(fmean(line["idle/sampler"] for line in counted), 3),
        "staleness_mean": round(fmean(line["staleness/mean"] for line in counted), 3),
        "staleness_max": max(line["staleness/max"] for line in counted),
    }


def part_seconds(folder: Path) -> dict[str, list[float]]:
    """Return the seconds of each part of the synchronous steps."""
    seconds: dict[str, list[float]] = {}
    for line in (json.loads(text) for text in (folder / "timeline.jsonl").read_text().splitlines()):
        if line["step"] > _NOT_MEASURED:
            seconds.setdefault(line["part"], []).append(line["ended"] - line["began"])
    return seconds


def lengths(folder: Path) -> list[int]:
    """Return the tokens of each completion of an asynchronous run, group by group in the order of dispatch."""
    of_group: dict[int, list[int]] = {}
    for event in read_events(folder / FOLDER):
        if isinstance(event, ResultReceived):
            of_group.setdefault(event.answer.group, []).append(len(unpack_tokens(event.answer.tokens)))
    return [tokens for group in sorted(of_group) for tokens in of_group[group]]


def calibrated(folder: Path) -> tuple[Workload, Layout]:
    """Return the batches and the speeds of engine and learner, measured in a synchronous run."""
    lines = [line for line in metrics_log.read_metrics(folder) if "step_time" in line][_NOT_MEASURED:]
    of_part = {part: fmean(seconds) for part, seconds in part_seconds(folder).items()}
    latency = fmean(line["reward_latency_s/p50"] for line in lines)
    workload = Workload(
        PROMPTS,
        COMPLETIONS,
        _PROMPT_TOKENS,
        RecordedLengths(lengths(RUNS / _RECORDED)),
        reward_seconds=(0.5 * latency, latency, 2 * latency),
    )
    # The engine makes as many steps as the longest completion has tokens. The fit has a cost per step and per token.
    counts = [
        (line["completions/max_length"], line["completions/mean_length"] * PROMPTS * COMPLETIONS) for line in lines
    ]
    (of_step, of_token), *_ = np.linalg.lstsq(np.array(counts), np.array(part_seconds(folder)["sample"]), rcond=None)
    engine = EngineTimings(float(of_step), float(of_token), 0.0, 0.0, of_part["sync"], 1e9, max_concurrent=2048)
    return workload, Layout(1, engine, LearnerTimings(0.0, of_part["train"], of_part["sync"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    real: dict[str, Any] = {"machine": describe(), "sleep_seconds": SLEEP, "goal": GOAL, "runs": {}}
    for name, way in _WAYS.items():
        began = time.monotonic()
        folders = [train(name, way, options.steps, evaluates=evaluates) for evaluates in (False, True)]
        of_run = measured(folders[0]) | learned(folders[1])
        goal = of_run["steps_to_goal"]
        real["runs"][name] = {"seconds_to_goal": goal and round(goal * of_run["step_seconds"], 1), **of_run}
        print(name, real["runs"][name], f"in {time.monotonic() - began:.0f} s", flush=True)
    for name, way in _WAYS.items():
        workload, layout = calibrated(RUNS / "sync")
        predicted = simulate(way, workload, layout).step_seconds
        real["runs"][name]["predicted_step_seconds"] = round(predicted, 3)
    print(json.dumps(real, indent=1))
    RESULTS.write_text(json.dumps(found | {"real": real}, indent=1) + "\n")


if __name__ == "__main__":
    main()
