"""Write an evaluation to a JSON file: the model, data, sampling and results, and the counts of each problem."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

from curate.prompt import Prompt
from sandbox import Package
from train.engine_options import EngineOptions
from train.evaluation.evaluate import Evaluation
from train.evaluation.exercises import Exercise
from train.sampling.protocol import Sampling


def contents(
    evaluation: Evaluation,
    *,
    model: str,
    data: str,
    window: str,
    sampling: Sampling,
    seed: int,
    exercises: Sequence[Exercise],
    prompt: Prompt,
    engine: EngineOptions,
) -> dict[str, Any]:
    """Return the content of the file, in which an unknown number is null. The default prompt is an empty table."""
    numbers = {
        name: value if not isinstance(value, float) or isfinite(value) else None
        for name, value in asdict(evaluation).items()
        if name != "problems"
    }
    return {
        "model": model,
        "data": data,
        "window": window,
        "exercises_sha256": hashlib.sha256("\n".join(exercise.name for exercise in exercises).encode()).hexdigest(),
        "sampling": asdict(sampling),
        "prompt": prompt.as_table(),
        "engine": engine.for_vllm(),
        "seed": seed,
        **numbers,
        "problems": [{"id": id, "n": n, "n_correct": n_correct} for id, (n, n_correct) in evaluation.problems.items()],
    }


def dependencies(
    model: str, sampling: Sampling, prompt: Prompt, engine: EngineOptions, packages: Iterable[Package]
) -> list[Any]:
    """Return all that samples and their verdicts depend on, except the exercise and the seed, as plain values.

    The prompt and the engine add nothing if they are the default ones, so that earlier samples are found again.
    """
    more = {"template_arguments": dict(prompt.template_arguments), "engine": engine.deciding_answers()}
    return [
        _identity(model),
        asdict(sampling),
        *([more] if any(more.values()) else []),
        *(asdict(package) for package in packages),
    ]


def _identity(model: str) -> list[Any]:
    """Return values that distinguish models: the name and, for a folder, the sizes and times of its weight files."""
    folder = Path(model).expanduser()
    weights = sorted(path for path in folder.glob("*") if path.suffix in (".safetensors", ".bin"))
    return [model, *([path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in weights)]
