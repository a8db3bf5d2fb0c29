"""A learner on two GPUs makes the updates of one, through NCCL, and each rank holds half of it."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.gpu import models
from benchmarks.gpu.learner import learner
from benchmarks.gpu.outcome import need_gpus, print_figures

RANKS = 2


def work(path: str, out: Path) -> None:
    """Make three updates; rank 0 writes what came out."""
    one = learner(path, "bfloat16", row_tokens=512)
    if one.rank:
        one.serve_calls()
        return
    figures = [one.update(models.completions(4, 4, 30, 60)) for _ in range(3)]
    held = torch.cuda.memory_allocated()
    sums = {name: weight.float().sum().item() for name, weight in one.export_weights()}
    one.close()
    out.write_text(json.dumps({"figures": figures, "held": held, "sums": sums}))


def main() -> None:
    if len(sys.argv) > 1:
        work(sys.argv[1], Path(sys.argv[2]))
        return
    need_gpus(RANKS)
    path, found = models.folder(models.SMALL), []
    for ranks in (1, RANKS):
        out = Path(tempfile.mkdtemp()) / "made.json"
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        launched = torchrun if ranks > 1 else []
        command = [sys.executable, *launched, "-m", "benchmarks.gpu.ranks", path, str(out)]
        subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "4"})
        found.append(json.loads(out.read_text()))
    alone, shared = found
    errors = [
        abs(one["grad_norm"] / other["grad_norm"] - 1)
        for one, other in zip(alone["figures"], shared["figures"], strict=True)
    ]
    assert max(errors) < 0.02, found
    for name, value in alone["sums"].items():
        assert abs(value - shared["sums"][name]) <= 0.02 * abs(value) + 0.5, name
    print_figures(
        worst_relative_error_of_grad_norm=round(max(errors), 5), held_share=round(shared["held"] / alone["held"], 3)
    )


if __name__ == "__main__":
    main()
