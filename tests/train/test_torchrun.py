"""`torchrun --no-python curate train` spreads the learner over several ranks."""

import os
import sys
from pathlib import Path

import forked
import pytest
from small_runs import without_a_file

pytest.importorskip("torch", reason="torch is not installed")

ROOT = Path(__file__).parents[2]


def test_torchrun_starts_the_command_on_every_rank(tiny_model, six_problems, tmp_path):
    curate = tmp_path / "curate"  # whatever is installed
    curate.write_text(f'#!/bin/sh\nexec {forked.shell_command(sys.executable, "-m", "cli")} "$@"\n')
    curate.chmod(0o755)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = without_a_file("deepcoder-16k", tiny_model, six_problems, "run.steps=1")
    done = forked.run(
        [*launcher, "--no-python", str(curate), "train", *words, "--system", "Be brief."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("model in ") == 1  # only the first rank speaks
    run = tmp_path / "runs" / "deepcoder-16k"
    assert (run / "model" / "model.safetensors").is_file()
    assert '"content": "Be brief."' in (run / "prompts.jsonl").read_text()
