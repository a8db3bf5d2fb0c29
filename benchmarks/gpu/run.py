"""`curate train` with random rewards on a file of prompts, killed after a checkpoint, and resumed."""

import fcntl
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.setup import CheckEnvironment
from curate.recipes.toml_writer import to_toml
from train.config import as_table, with_overrides
from train.run.checkpoint import list_checkpoints

CHECKPOINT_STEPS = 2
# All completions of a random model are truncated. overlong = "none" trains on them, and this value of
# max_truncated_share disables the error for them.
CHANGES = (
    "rollout.prompts=8", "rollout.completions=4", "rollout.online_filter=false", "reward.random=true", "run.steps=100",
    f"run.checkpoint_steps={CHECKPOINT_STEPS}", "run.keep=1", "run.max_truncated_share=2.0",
)  # fmt: skip


def main(check: CheckEnvironment) -> None:
    folder, path = check.folder / "run", write_configuration(check)
    command = [check.python, "-W", "ignore", "-m", "cli", "train", str(path), "--out", str(folder)]
    shutil.rmtree(folder, ignore_errors=True)  # of a killed check
    try:
        before = _kill_after_checkpoint(check, command, folder)
        done = int(list_checkpoints(folder)[-1].name.removeprefix("step-"))
        began = time.monotonic()
        subprocess.run([*command, "--resume", "--set", f"run.steps={done + 1}"], check=True)
        steps, files = _read_steps(folder), len(list((folder / "model").glob("*.safetensors")))
        continued = len(steps) == done + 1 and steps[:done] == before[:done]
        check.report(resumed_after_step=done if continued else 0, model_files=files)
        check.report(resume_seconds=time.monotonic() - began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_configuration(check: CheckEnvironment) -> Path:
    """Write prompts and configuration, and return the path of the configuration."""
    prompts, path = check.folder / "prompts.jsonl", check.folder / "run.toml"
    prompts.write_text("".join(json.dumps({"prompt": f"What is {n}?"}) + "\n" for n in range(64)))
    changes = [f"data.dataset={prompts}", f"engine.kind={check.sizes.run_engine}"]
    changes += [*CHANGES, f"stages.0.max_tokens={check.sizes.completion_tokens}"]
    path.write_text(to_toml(as_table(with_overrides(check.make_config(), changes))))
    return path


def _kill_after_checkpoint(check: CheckEnvironment, command: list[str], folder: Path) -> list[dict[str, Any]]:
    """Run the command until its first checkpoint is complete, kill it, and return the metrics of its steps."""
    began = time.monotonic()
    process = subprocess.Popen(command)  # killed with the process group of this check

    def wait_until(condition: Callable[[], Any]) -> float:
        while not condition():
            if process.poll() is not None:
                raise RuntimeError(f"curate train ended with status {process.returncode}")
            time.sleep(0.05)
        return time.monotonic()

    try:
        check.report(start_seconds=wait_until(lambda: _read_steps(folder)) - began)
        began = wait_until(lambda: len(_read_steps(folder)) >= CHECKPOINT_STEPS)
        check.report(checkpoint_seconds=wait_until(lambda: list_checkpoints(folder)) - began)
    finally:
        process.kill()
        process.wait()
    with (folder / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # blocks until the last process of the run has exited
    steps = _read_steps(folder)
    check.report(
        killed_after_step=len(steps),
        step_seconds=min(step["step_time"] for step in steps),
        grad_norm=min(step["grad_norm"] for step in steps),
        skipped=sum(step["skipped"] for step in steps),
        mismatch_kl=max(step["mismatch/kl"] for step in steps),
        parity=max(step["parity/token_mult_prob_error"] for step in steps),
    )
    return steps


def _read_steps(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of all finished steps."""
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
    return [step for line in lines if line.endswith("\n") and "step_time" in (step := json.loads(line))]
