"""Report how often models solve the problems, as a histogram for each model of the shares of right answers."""

from collections import Counter
from typing import Any

from curate.dataset.dataset import Dataset
from curate.manifest import SelectedBand

_COLUMNS = ("model", "n", "n_correct")
_MAX_STEPS = 32  # bars; if there are more samples than this, neighbouring shares are counted together


def build_solve_rate_section(dataset: Dataset, selected_band: SelectedBand | None) -> list[dict[str, Any]]:
    """Return an entry for each model in `difficulty/`, by name.

    selected_band: the band that the dataset was reduced to; None if it was not reduced

    Shares are i / steps, where `steps` is the usual number of samples, and `counts` has the number of problems that
    are nearest to each share.
    """
    if not dataset.columns("difficulty").issuperset(_COLUMNS):
        return []
    counted: Counter[tuple[str, int, int]] = Counter()
    for batch in dataset.batches("difficulty", _COLUMNS, rows=65_536):
        counted.update(zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True))
    models = sorted({model for model, _, _ in counted})
    filtered = selected_band.models if selected_band else ()
    band = tuple(float(end) for end in selected_band.band.split(":")) if selected_band else (0.0, 1.0)
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
    steps = min(samples.most_common(1)[0][0], _MAX_STEPS) if samples else 1
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
    """Return the nearest step. Problems that are never or always solved have bars of their own despite rounding."""
    if right in (0, n):
        return 0 if right == 0 else steps
    return min(max(round(right / n * steps), 1), steps - 1) if steps > 1 else round(right / n)
