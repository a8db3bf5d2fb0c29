"""Short names of several results: the names of their models, unless two of them are of the same model."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from train.evaluation.results.reader import Result


def short_model_name(model: str) -> str:
    """Return the last part of the path or of the Hub id of a model."""
    return Path(model).name or model


def model_names(results: Sequence[Result]) -> list[str]:
    """Return the names of the models, shortened to the last part of their paths where these differ."""
    full = {result.model for result in results}
    times = Counter(map(short_model_name, full))
    return [
        short_model_name(result.model) if times[short_model_name(result.model)] == 1 else result.model
        for result in results
    ]


def labels(results: Sequence[Result]) -> list[str]:
    """Return a different name for each result: its model's, its file's where models are the same, or its path."""
    for names in (model_names(results), [result.path.stem for result in results]):
        if len(set(names)) == len(names):
            return names
    paths = [str(result.path) for result in results]
    seen: Counter[str] = Counter()
    for number, path in enumerate(paths):
        seen[path] += 1
        if seen[path] > 1:
            paths[number] = f"{path} ({seen[path]})"
    return paths
