"""An update by a learner on two GPUs through NCCL, compared with one GPU.

python -m benchmarks.gpu.ranks MODEL RESULT.json    one rank
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.setup import FULL, SMALL, CheckEnvironment, make_model, make_small_batch, open_learner, update

RANKS = 2


def main(check: CheckEnvironment) -> None:
    made: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        model, out = Path(folder) / "small", Path(folder) / "made.json"
        make_model(model, SMALL, "cpu")
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        for launcher in ([], torchrun):
            subprocess.run([check.python, *launcher, "-m", "benchmarks.gpu.ranks", str(model), str(out)], check=True)
            made.append(json.loads(out.read_text()))
    alone, shared = made
    errors = (abs(shared["sums"][name] - total) / (total + 1) for name, total in alone["sums"].items())
    check.report(grad_norm_error=abs(shared["norm"] / alone["norm"] - 1), weights_error=max(errors))
    check.report(held_share=shared["held"] / alone["held"] if alone["held"] else None)


def make_update(model: Path, out: Path) -> None:
    """Update a small model as one rank; rank 0 writes the result."""
    learner = open_learner(CheckEnvironment(model.parent, FULL, sys.executable).make_config(model, row_tokens=512))
    if learner.rank:
        learner.serve_calls()
        return
    norm = update(learner, make_small_batch())["grad_norm"]
    held = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
    sums = {name: weight.float().abs().sum().item() for name, weight in learner.export_weights()}
    learner.close()
    out.write_text(json.dumps({"norm": norm, "held": held, "sums": sums}))


if __name__ == "__main__":
    make_update(Path(sys.argv[1]), Path(sys.argv[2]))
