"""Result files for tests."""

import json
from pathlib import Path
from typing import Any

from made_outcomes import outcomes

from train.evaluation.statistics.outcomes import ProblemOutcomes


def write(
    path: Path,
    problems: list[ProblemOutcomes],
    *,
    model: str = "",
    suite: str = "lcb",
    window: str = "",
    **changes: Any,
) -> Path:
    """Write a result file of schema 2 with what its readers need."""
    content = {
        "schema": 2,
        "model": {"name": model or path.stem, "base_url": None},
        "suite": {"name": suite, "window": {"asked": window}},
        "sampling": {"k": 1, "temperature": 0.6, "top_p": 0.95, "max_tokens": 1024},
        "problems": [problem.to_json() for problem in problems],
    }
    path.write_text(json.dumps(content | changes))
    return path


def of_bits(path: Path, *bits: str, **more: Any) -> Path:
    """Write a result file of problems named p0, p1 and so on, with these outcomes."""
    return write(path, outcomes(*bits), **more)


def earlier(path: Path, **right: tuple[int, int]) -> Path:
    """Write a file of the earlier schema: for each problem, the numbers of samples and of right ones."""
    problems = [{"id": id, "n": n, "n_correct": n_correct} for id, (n, n_correct) in right.items()]
    content = {"model": path.stem, "data": "data/lcb", "window": "", "sampling": {}, "problems": problems}
    path.write_text(json.dumps(content))
    return path
