"""`curate train` compared with TRL's GRPOTrainer: the same tiny model, problems, batch, objective and rewards, on CPUs.

    python -m benchmarks.trl        # after `make learn`; about ten minutes, on an idle machine

Both train on STEPS batches with two updates each, in turn, ROUNDS times. TRL samples with transformers; curate samples
with vLLM, under the pipelines "minibatch", and "async" with a staleness of 1. Rates are medians of the rounds, over all
steps but the first, which also loads and warms up. Runs of curate are AHEAD steps longer than the measured part, so
that later batches are sampled during every measured step.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks.record import ROOT, describe_machine, save_results
from benchmarks.tiny_training import LEARN, make_seed_settings, make_train_command
from train.run.metrics_log import read_metrics

STEPS = 8
ROUNDS = 3
AHEAD = 2
OURS = {
    "curate": ["rollout.pipeline=minibatch", "objective.by_std=false"],
    # engine.gpus starts the engine in a separate process; without GPUs the number is ignored.
    "async": ["rollout.pipeline=async", "rollout.staleness=1", "engine.gpus=[0]", "objective.old=learner",
              "objective.truncation=2.0", "objective.by_std=false"],
}  # fmt: skip
PROMPTS, COMPLETIONS, MAX_TOKENS = 16, 16, 96  # completions of each prompt, tokens of each completion


def train_with_trl(out: Path) -> None:
    """Train with TRL and save the model. Print a line after each step, and at the end the token count of each batch."""
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
        per_device_train_batch_size=PROMPTS * COMPLETIONS // 2,
        steps_per_generation=2,
        num_generations=COMPLETIONS,
        max_completion_length=MAX_TOKENS,
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


def run_trl(out: Path) -> dict[str, float]:
    lines, found = time_steps([sys.executable, "-W", "ignore", "-m", "benchmarks.trl", str(out)])
    return {"tokens": sum(json.loads(lines[-1])[1:]), **found}


def run_curate(out: Path, pipeline: Sequence[str], steps: int = STEPS + AHEAD) -> dict[str, float]:
    settings = [
        *make_seed_settings(0), f"run.steps={steps}", "rollout.online_filter=false", "evaluation.dataset=",
        "run.checkpoint_steps=1000", f"rollout.prompts={PROMPTS}", f"rollout.completions={COMPLETIONS}",
        f"stages.0.max_tokens={MAX_TOKENS}", *pipeline,
    ]  # fmt: skip
    _, found = time_steps(make_train_command(out, settings))
    lines = [line for line in read_metrics(out) if "step_time" in line]
    mean_lengths = [line["completions/mean_length"] for line in lines[1:STEPS]]
    return {"tokens": sum(mean_lengths) * PROMPTS * COMPLETIONS, **found}


def time_steps(command: Sequence[str]) -> tuple[list[str], dict[str, float]]:
    """Run a command that prints a line after each step.

    Return its lines and, for steps 2 to STEPS, the wall seconds and the CPU seconds of its process tree.
    """
    lines: list[str] = []
    moments: list[tuple[float, float]] = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line.startswith("step "):
                moments.append((time.monotonic(), measure_tree_cpu_seconds(process.pid)))
    if process.returncode or len(moments) < STEPS:
        raise SystemExit(f"{' '.join(command[:6])} ... ended with {process.returncode} after {len(moments)} steps")
    (began, cpu_began), (ended, cpu_ended) = moments[0], moments[STEPS - 1]
    return lines, {"seconds": ended - began, "cpu_seconds": round(cpu_ended - cpu_began, 2)}


def measure_tree_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of all its descendants, including exited ones."""
    total, root = 0.0, psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])  # user and system time, its own and that of ended children
    return total


def measure_pass_at_1(model: Path, out: Path) -> float:
    command = [sys.executable, "-m", "cli", "evaluate", "--model", str(model)]
    command += ["--data", str(LEARN / "data" / "held_out")]
    command += ["--k", "4", "--temperature", "1", "--top-p", "1", "--max-tokens", str(MAX_TOKENS), "--out", str(out)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return float(json.loads(out.read_text())["numbers"]["pass_at_1"])


def measure(out: Path) -> dict[str, Any]:
    rounds = []
    for number in range(ROUNDS):
        folder = out / str(number)
        folder.mkdir(parents=True)
        found = {"trl": run_trl(folder)}
        found |= {name: run_curate(folder / name, pipeline) for name, pipeline in OURS.items()}
        rounds.append(found)
    results: dict[str, Any] = {"completions": PROMPTS * COMPLETIONS}
    for name in ("trl", *OURS):
        run = out / "0"
        if name in OURS:
            run = out / name
            run_curate(run, OURS[name], STEPS)
        measured = [found[name] for found in rounds]
        results[name] = {
            "tokens_per_second": round(median(found["tokens"] / found["seconds"] for found in measured), 1),
            "cpu_seconds_per_step": round(median(found["cpu_seconds"] for found in measured) / (STEPS - 1), 3),
            "pass_at_1": measure_pass_at_1(run / "model", out / f"{name}.json"),
        }
    return results


def main() -> None:
    if len(sys.argv) > 1:  # TRL, in a child process
        train_with_trl(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        results = {
            "machine": describe_machine(),
            "trl_version": version("trl"),
            "steps": STEPS,
            **measure(Path(folder)),
            "pass_at_1_before": measure_pass_at_1(LEARN / "seed-0" / "warm", Path(folder, "before.json")),
        }
    save_results("trl", results)


if __name__ == "__main__":
    main()
