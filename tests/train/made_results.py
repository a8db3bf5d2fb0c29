"""Result files for tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from made_outcomes import outcomes

from train.evaluation.results.result import Result, TokenCounts
from train.evaluation.statistics.outcomes import ProblemOutcomes


def write(
    path: Path,
    problems: list[ProblemOutcomes],
    *,
    model: str = "",
    suite: str = "lcb",
    window: str = "",
    content: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Write a result file.

    content  other values for keys of its content
    """
    result = Result(
        {"name": model or path.stem, "base_url": None},
        {"name": suite, "given": suite, "location": "rows", "window": {"asked": window}},
        {"k": 1, "temperature": 0.6, "top_p": 0.95, "max_tokens": 1024},
        prompt={},
        engine={},
        seed=0,
        outcomes=tuple(problems),
        tokens=TokenCounts(None, None),
    )
    path.write_text(json.dumps(result.to_json() | dict(content)))
    return path


def of_bits(path: Path, *bits: str, **more: Any) -> Path:
    """Write a result file of problems named p0, p1 and so on, with these outcomes."""
    return write(path, outcomes(*bits), **more)
