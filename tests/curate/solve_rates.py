"""Write solve rates into a dataset, as `curate difficulty` does after it has sampled a model."""

from collections.abc import Mapping
from pathlib import Path

from curate.difficulty import table

_SETTINGS = {"k": 8, "temperature": 0.6, "top_p": 0.95, "max_tokens": 99, "seed": 0}


def write_solve_rates(dataset: Path, model: str, counts: Mapping[str, int], n: int = 8) -> None:
    """Record how many of n samples were right, by the id of the problem."""
    right, wrong = ({"verdict": verdict, "n_tokens": 5, "truncated": False} for verdict in ("accepted", "wrong_answer"))
    rows = [
        table.build_row(id, "name", {**_SETTINGS, "model": model}, [right] * k + [wrong] * (n - k), n_sampled=n)
        for id, k in counts.items()
    ]
    with table.lock_samples(dataset, model):
        table.replace_model_rows(dataset, model, rows)
