"""Compare `curate train` with TRL's GRPOTrainer: the same tiny model, problems, batch, objective and rewards, on CPUs.

    python -m benchmarks.trl        # after `make learn`; about six minutes

Both train on STEPS batches with two updates each. TRL samples with transformers, as it does on CPUs; we sample with
vLLM. The benchmark measures the completion tokens per second of whole steps, and pass@1 on held-out problems after the
same number of answers. It writes results/trl.json.
"""

import json
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from train.run import metrics

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "trl.json"
LEARN = ROOT / "runs" / "learn"
STEPS = 8
SHAPES = ((16, 16, 96), (4, 16, 64))  # prompts, answers to each prompt, maximum number of tokens of an answer


def of_trl(out: Path, prompts: int, completions: int, most_tokens: int) -> dict[str, float]:
    """Train with TRL and save the model, in a process of its own; return the resources that this took."""
    import datasets
    from trl import GRPOConfig, GRPOTrainer

    from rewards.trl import code_reward

    subprocess.run(
        [
            sys.executable,
            "-m",
            "cli",
            "export",
            str(LEARN / "seed-0" / "band"),
            "--to",
            "trl",
            "--out",
            str(out / "rows"),
        ],
        check=True,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )
    rows = datasets.load_dataset(str(out / "rows"), split="train", cache_dir=str(out / "cache"))
    tokens = [0]

    def reward(completions: Any, completion_ids: Any, **columns: Any) -> Any:
        tokens[0] += sum(map(len, completion_ids))
        return code_reward(completions=completions, completion_ids=completion_ids, **columns)

    arguments = GRPOConfig(
        output_dir=str(out / "run"),
        per_device_train_batch_size=prompts * completions // 2,
        steps_per_generation=2,
        num_generations=completions,
        max_completion_length=most_tokens,
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
    trainer = GRPOTrainer(str(LEARN / "seed-0" / "warm"), reward_funcs=reward, args=arguments, train_dataset=rows)
    began = time.monotonic()
    trainer.train()
    seconds = time.monotonic() - began
    trainer.save_model(str(out / "model"))
    return {"tokens": tokens[0], "seconds": seconds}


def ours(out: Path, prompts: int, completions: int, most_tokens: int) -> dict[str, float]:
    seed = LEARN / "seed-0"
    changes = [f"model.path={seed / 'warm'}", f"data.dataset={seed / 'band'}", f"run.steps={STEPS}"]
    changes += ["rollout.online_filter=false", "evaluation.dataset=", "run.checkpoint_steps=1000"]
    changes += [
        f"rollout.prompts={prompts}",
        f"rollout.completions={completions}",
        f"stages.0.max_tokens={most_tokens}",
    ]
    command = [sys.executable, "-m", "cli", "train", "examples/learn/grpo_plus.toml", "--out", str(out)]
    subprocess.run(command + [part for change in changes for part in ("--set", change)], check=True, cwd=ROOT)
    steps = [line for line in metrics.steps(out) if "step_time" in line]
    answers = prompts * completions
    return {
        "tokens": sum(line["completions/mean_length"] * answers for line in steps),
        "seconds": sum(line["step_time"] for line in steps),
    }


def pass_at_1(model: Path, out: Path) -> float:
    command = [
        sys.executable,
        "-m",
        "cli",
        "evaluate",
        "--model",
        str(model),
        "--data",
        str(LEARN / "data" / "held_out"),
    ]
    command += ["--k", "4", "--temperature", "1", "--top-p", "1", "--max-tokens", str(SHAPES[0][2]), "--out", str(out)]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return float(json.loads(out.read_text())["pass_at_1"])


def measure(out: Path, shape: tuple[int, int, int], *, learning: bool) -> dict[str, Any]:
    out.mkdir()
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.trl", str(out), *map(str, shape)]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    found: dict[str, Any] = {"trl": json.loads(done.stdout.splitlines()[-1]), "curate": ours(out / "ours", *shape)}
    for name, model in (("trl", out / "model"), ("curate", out / "ours" / "model")):
        found[name]["tokens_per_second"] = round(found[name]["tokens"] / found[name]["seconds"], 1)
        if learning:
            found[name]["pass_at_1"] = pass_at_1(model, out / f"{name}.json")
    ratio = found["curate"]["tokens_per_second"] / found["trl"]["tokens_per_second"]
    return {"answers": shape[0] * shape[1], "most_tokens": shape[2], "ratio": round(ratio, 1), **found}


def main() -> None:
    if len(sys.argv) > 1:  # TRL, in a process of its own
        print(json.dumps(of_trl(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        shapes = [measure(out / str(n), shape, learning=n == 0) for n, shape in enumerate(SHAPES)]
        before = pass_at_1(LEARN / "seed-0" / "warm", out / "before.json")
    versions = {name: version(name) for name in ("trl", "torch", "transformers")}
    found = {"machine": describe(), "versions": versions, "steps": STEPS, "pass_at_1_before": before, "shapes": shapes}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
