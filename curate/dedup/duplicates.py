"""The search for duplicates across sources: rows with the same text, and rows with nearly the same words.

MinHash only proposes pairs; the exact Jaccard similarity over word 5-grams decides. The search visits rows in rank
order, and removes a row only if it matches a kept row. A row similar only to removed rows stays. The comparison ignores
prompt templates. Similar statements of different problems, such as parts of a series, stay (problem_series.py).
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from curate.dedup.problem_series import find_difference
from curate.dedup.signatures import PERMUTATIONS, compute_jaccard
from curate.dedup.sketches import Sketches
from curate.problem import Problem, Rejection

if TYPE_CHECKING:
    import numpy as np

EXACT, NEAR = "duplicate_exact", "duplicate_near"  # reasons of rejections

log = logging.getLogger(__name__)

# Pairs with an estimated similarity this far below the threshold are not compared exactly. Estimates have a standard
# deviation of at most 0.044, so 1 of 100,000 pairs at the threshold is missed.
_ESTIMATE_MARGIN = 0.2
_MAX_EXACT_COMPARISONS = 4  # number of candidates up to which exact comparisons are faster than estimates


class Duplicate(NamedTuple):
    """A row to remove and the row kept instead, by their indices in `Sketches`.

    similarity  their Jaccard similarity
    exact       whether they have the same text
    """

    row: int
    kept: int
    similarity: float
    exact: bool

    def to_rejection(self, id: str, source: str, kept_id: str) -> Rejection:
        """Return the rejection of the row with this id and source. kept_id: id of the kept row"""
        return Rejection(
            id,
            source,
            "dedup",
            EXACT if self.exact else NEAR,
            # Each removed row matches the kept row directly, so the kept row's id identifies the cluster.
            detail=f"cluster={kept_id} kept={kept_id} jaccard={self.similarity:.3f}",
            kept_id=kept_id,
            similarity=round(self.similarity, 3),
        )


def order_by_rank(verified: "np.ndarray[Any, Any]", n_tests: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return the rows in rank order: verified ones first, then by number of tests, then in input order."""
    import numpy as np

    order: np.ndarray[Any, Any] = np.lexsort((-n_tests, ~verified))
    return order


def find_duplicates(
    sketches: Sketches, order: "np.ndarray[Any, Any]", *, threshold: float, load: Callable[[int], Problem]
) -> Iterator[Duplicate]:
    """Yield the rows to remove.

    order      the rows in rank order
    threshold  minimum Jaccard similarity of near-duplicates, above 0
    load       returns the problem of a row, to compare titles, functions and tests
    """
    import numpy as np

    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    for row in map(int, order):
        similar = find_similar(row, sketches, threshold)
        if len(similar) > 1:
            similar.sort(key=lambda match: (-match[0], rank[match[1]]))
        duplicate = _find_original(row, similar, sketches, load) if similar else None
        if duplicate is None:
            sketches.index.add_kept(row)
        else:
            yield duplicate
    if sketches.index.overfull:
        log.warning("%d LSH buckets held too many rows to compare all of them", len(sketches.index.overfull))


def find_similar(row: int, sketches: Sketches, threshold: float) -> list[tuple[float, int]]:
    """Return (similarity, row) of the kept rows that reach the threshold."""
    candidates = sketches.index.find_candidates(row)
    if len(candidates) > _MAX_EXACT_COMPARISONS:
        signed = sketches.load_signatures([row, *candidates])
        agreeing = (signed[1:] == signed[0]).sum(axis=1).tolist()
        enough = (threshold - _ESTIMATE_MARGIN) * PERMUTATIONS
        candidates = [other for other, n in zip(candidates, agreeing, strict=True) if n >= enough]
    if not candidates:
        return []
    shingles = sketches.load_shingles(row)
    pairs = [(compute_jaccard(shingles, sketches.load_shingles(other)), other) for other in candidates]
    return [(similarity, other) for similarity, other in pairs if similarity >= threshold]


def _find_original(
    row: int, similar: list[tuple[float, int]], sketches: Sketches, load: Callable[[int], Problem]
) -> Duplicate | None:
    digest = sketches.get_digest(row)
    for similarity, kept in similar:
        if similarity == 1 and sketches.get_digest(kept) == digest:
            return Duplicate(row, kept, 1.0, True)
    for similarity, kept in similar:
        if not find_difference(load(row), load(kept)):
            return Duplicate(row, kept, similarity, False)
    return None
