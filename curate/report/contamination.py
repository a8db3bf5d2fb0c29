"""Report the items of evaluation sets that were found, and the hits closest to the border of being removed or kept."""

import heapq
from collections.abc import Iterator
from typing import Any

from curate.dataset.dataset import Dataset

N_BORDERLINE = 5
_COLUMNS = ("id", "set", "item", "rule", "score", "span", "verdict")


def build_contamination_section(dataset: Dataset) -> dict[str, Any]:
    """Return for each evaluation set its counts in the manifest, and the hits by shared words closest to the border.

    These are the least similar rows that were removed and the most similar rows that stayed. The result is empty if no
    set was compared.
    """
    return {
        name: {
            **{key: getattr(count, key) for key in ("items", "rows", "removed", "removal_rate")},
            "rules": count.removed_by_rule,
            "review": count.n_to_review,
            "window": count.window,
            "warning": count.warning,
            "removed_least": heapq.nsmallest(N_BORDERLINE, _hits(dataset, name, "removed"), key=_score),
            "kept_most": heapq.nlargest(N_BORDERLINE, _hits(dataset, name, "review"), key=_score),
        }
        for name, count in dataset.manifest.decontamination.items()
    }


def _hits(dataset: Dataset, of_set: str, verdict: str) -> Iterator[dict[str, Any]]:
    if dataset.columns("contamination").issuperset(_COLUMNS):
        for hit in dataset.rows("contamination", _COLUMNS):
            if (hit["set"], hit["verdict"], hit["rule"]) == (of_set, verdict, "contained"):
                yield {name: hit[name] for name in ("id", "item", "rule", "score", "span")}


def _score(hit: dict[str, Any]) -> float:
    score: float = hit["score"]
    return score
