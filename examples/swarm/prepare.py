"""The problems and the model of the example:  python examples/swarm/prepare.py FOLDER

The problems and demonstrations are a subset of those in examples/learn. A very small model memorizes the
demonstrations with their mistakes, so it solves a quarter of the problems.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "learn"))

import problems
import warm_up

PROBLEMS = 16
STEPS, HIDDEN, LAYERS = 150, 64, 2


def prepare(folder: Path, *, seed: int = 0) -> None:
    """Write the rows of a dataset and a model to the folder."""
    training, _ = problems.make_problems()
    problems.write(folder / "raw", train=map(problems.make_row, training[:PROBLEMS]))
    if not (folder / "warm" / "tokenizer.json").exists():
        warm_up.warm_up(training[:PROBLEMS], folder / "warm", steps=STEPS, seed=seed, hidden=HIDDEN, layers=LAYERS)


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
