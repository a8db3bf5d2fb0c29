"""How often models solve the problems: the share of right answers per problem, one histogram for each model."""

from collections import Counter
from typing import Any

from curate.dataset.folder import DatasetFolder

_COLUMNS = ("model", "n", "n_correct")
_MOST_STEPS = 32  # bars; with more samples than that neighbouring shares are counted together


def solve_rates(dataset: DatasetFolder, chosen: dict[str, Any] | None) -> list[dict[str, Any]]:
    """One entry for each model in `difficulty/`, by name.

    shares are i / steps, and counts says how many problems are nearest to each; steps is the usual number of samples.
    chosen: what the manifest says of a filter, the band of shares that stayed as LEAST:MOST, and the models whose
    shares had to lie in it; None if there was none.
    """
    if not dataset.columns("difficulty").issuperset(_COLUMNS):
        return []
    counted: Counter[tuple[str, int, int]] = Counter()
    for batch in dataset.batches("difficulty", _COLUMNS, rows=65_536):
        counted.update(zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True))
    models = sorted({model for model, _, _ in counted})
    filtered = (chosen or {}).get("models", ())
    band = tuple(float(end) for end in (chosen or {}).get("band", "0:1").split(":"))
    return [
        _of_model(
            model,
            {key[1:]: rows for key, rows in counted.items() if key[0] == model},
            band if model in filtered else None,
        )
        for model in models
    ]


def _of_model(model: str, counted: dict[tuple[int, ...], int], band: tuple[float, ...] | None) -> dict[str, Any]:
    scored = {pair: rows for pair, rows in counted.items() if pair[0]}
    samples: Counter[int] = Counter()
    for (n, _), rows in scored.items():
        samples[n] += rows
    steps = min(samples.most_common(1)[0][0], _MOST_STEPS) if samples else 1
    counts = [0] * (steps + 1)
    for (n, n_correct), rows in scored.items():
        counts[_nearest(n_correct, n, steps)] += rows
    low, high = band or (0.0, 1.0)
    inside = sum(rows for (n, right), rows in scored.items() if low <= right / n <= high)
    return {
        "model": model,
        "n": sum(scored.values()),
        "unknown": sum(counted.values()) - sum(scored.values()),
        "steps": steps,
        "counts": counts,
        "never": sum(rows for (_, right), rows in scored.items() if right == 0),
        "always": sum(rows for (n, right), rows in scored.items() if right == n),
        "mean": sum(rows * right / n for (n, right), rows in scored.items()) / max(sum(scored.values()), 1),
        "band": list(band) if band else None,
        "in_band": inside if band else None,
    }


def _nearest(right: int, n: int, steps: int) -> int:
    """Never and always keep their own bars, whatever the rounding."""
    if right in (0, n):
        return 0 if right == 0 else steps
    return min(max(round(right / n * steps), 1), steps - 1) if steps > 1 else round(right / n)
