"""What was found of evaluation sets, and the hits that lie closest to the border between removing and keeping."""

import heapq
from collections.abc import Iterator
from typing import Any

from curate.dataset.folder import DatasetFolder

N_BORDERLINE = 5
_COLUMNS = ("id", "set", "item", "rule", "score", "span", "verdict")


def contamination(dataset: DatasetFolder) -> dict[str, Any]:
    """For each evaluation set what the manifest says of it, and of the hits by shared words the least similar ones
    that were removed and the most similar ones that stayed. Empty if nothing was compared."""
    found: dict[str, Any] = dataset.manifest.get("decontamination") or {}
    return {
        name: {
            **{key: count.get(key) for key in ("items", "rows", "removed", "removal_rate", "rules", "review")},
            "window": count.get("window"),
            "warning": count.get("warning"),
            "removed_least": heapq.nsmallest(N_BORDERLINE, _hits(dataset, name, "removed"), key=_score),
            "kept_most": heapq.nlargest(N_BORDERLINE, _hits(dataset, name, "review"), key=_score),
        }
        for name, count in found.items()
    }


def _hits(dataset: DatasetFolder, of_set: str, verdict: str) -> Iterator[dict[str, Any]]:
    if dataset.columns("contamination").issuperset(_COLUMNS):
        for hit in dataset.rows("contamination", _COLUMNS):
            if (hit["set"], hit["verdict"], hit["rule"]) == (of_set, verdict, "contained"):
                yield {name: hit[name] for name in ("id", "item", "rule", "score", "span")}


def _score(hit: dict[str, Any]) -> float:
    score: float = hit["score"]
    return score
