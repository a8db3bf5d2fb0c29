"""An evaluation as a JSON file: what was asked of which model and how, what came out, and each problem's counts."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from train.evaluation.evaluate import Evaluation
from train.evaluation.exercises import Exercise
from train.sampling.protocol import Sampling


def contents(
    found: Evaluation,
    *,
    model: str,
    data: str,
    window: str,
    sampling: Sampling,
    seed: int,
    exercises: Sequence[Exercise],
) -> dict[str, Any]:
    """What the file holds; a number that is not known is null."""
    numbers = {
        name: value if not isinstance(value, float) or isfinite(value) else None
        for name, value in asdict(found).items()
        if name != "problems"
    }
    return {
        "model": model,
        "data": data,
        "window": window,
        "exercises_sha256": hashlib.sha256("\n".join(exercise.name for exercise in exercises).encode()).hexdigest(),
        "sampling": asdict(sampling),
        "seed": seed,
        **numbers,
        "problems": [{"id": id, "n": n, "n_correct": correct} for id, (n, correct) in found.problems.items()],
    }


def identity(model: str) -> list[Any]:
    """Tells one model from another: its name and, of a folder, which weights lie in it now."""
    folder = Path(model).expanduser()
    weights = sorted(path for path in folder.glob("*") if path.suffix in (".safetensors", ".bin"))
    return [model, *([path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in weights)]
