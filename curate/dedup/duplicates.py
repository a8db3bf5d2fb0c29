"""Find duplicates across sources: first rows with the same text, then rows with nearly the same words.

MinHash only proposes pairs; the exact Jaccard similarity over runs of five words decides. Rows are taken in order of
worth, and a row is removed only if it matches a row that stays. So if A is like B and B is like C, C is not removed
because of A unless it is like A, too. Each removed row names the row that was kept. Statements are compared without the
templates of their sources. Two similar statements both stay if they ask for different things, as the parts of a series
do (curate/dedup/problem_series.py).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from curate.dedup.lsh import LshIndex
from curate.dedup.problem_series import find_difference
from curate.dedup.shard_sketches import ShardSketches
from curate.dedup.shingles import jaccard
from curate.dedup.sketches import RankKey, Sketches
from curate.problem import Problem, Rejection

EXACT, NEAR = "duplicate_exact", "duplicate_near"  # the reasons in its rejections

log = logging.getLogger(__name__)

# Two signatures estimate a similarity with a standard deviation of at most 0.044, so the estimate for a pair that
# reaches the threshold is this much too low once in 100,000 times. This saves most comparisons between boilerplate.
_SLACK = 0.2


def find_duplicates(
    sketches: Sketches | ShardSketches, *, threshold: float, load: Callable[[str], Problem]
) -> Iterator[Rejection]:
    """Yield the rows to remove.

    threshold  minimum Jaccard similarity, above 0, at which two statements count as nearly the same
    load       returns a problem by its id, so that two similar problems can be compared in detail
    """
    bands = LshIndex(sketches.keys)

    def similar_kept(row: int) -> list[tuple[float, str]]:
        return [
            (similarity, sketches.ids[other]) for similarity, other in find_similar(row, sketches, bands, threshold)
        ]

    yield from select_duplicates(sketches, similar_kept, bands.add_kept, load)
    if bands.overfull:
        log.warning("%d buckets held too many rows to compare all of them", len(bands.overfull))


class RankedRows(Protocol):
    """The values that decide which rows stay, in one list each; sketches.py explains `rank_keys` and `digests`."""

    @property
    def ids(self) -> Sequence[str]: ...
    @property
    def sources(self) -> Sequence[str]: ...
    @property
    def rank_keys(self) -> Sequence[RankKey]: ...
    @property
    def digests(self) -> Sequence[bytes]: ...


def select_duplicates(
    rows: RankedRows,
    similar_kept: Callable[[int], Sequence[tuple[float, str]]],
    keep: Callable[[int], None],
    load: Callable[[str], Problem],
) -> Iterator[Rejection]:
    """Go through the rows in order of worth and yield each row that matches a kept row.

    similar_kept  returns the kept rows that are similar enough to a row, as (similarity, id) in order of worth
    keep          called with each row that is kept
    load          returns a problem by its id
    """
    kept_ids: dict[bytes, str] = {}  # by digest
    for row in sorted(range(len(rows.ids)), key=rows.rank_keys.__getitem__):
        id, digest = rows.ids[row], rows.digests[row]
        if kept_id := kept_ids.get(digest):
            yield _rejection(rows, row, EXACT, kept_id, 1.0)
            continue
        for similarity, kept_id in sorted(similar_kept(row), key=lambda match: -match[0]):
            if not find_difference(load(id), load(kept_id)):
                yield _rejection(rows, row, NEAR, kept_id, similarity)
                break
        else:
            kept_ids[digest] = id
            keep(row)


def find_similar(
    row: int, sketches: Sketches | ShardSketches, bands: LshIndex, threshold: float
) -> list[tuple[float, int]]:
    """Return (similarity, row) of the kept rows that reach the threshold, in order of worth."""
    import numpy as np

    met = bands.candidates(row)
    if not met:
        return []
    candidates = np.array(sorted(met, key=sketches.rank_keys.__getitem__))
    agreeing = (sketches.signatures[candidates] == sketches.signatures[row]).sum(axis=1)
    likely = candidates[agreeing >= (threshold - _SLACK) * sketches.signatures.shape[1]]
    shingles = sketches.shingles(row)
    pairs = [(jaccard(shingles, sketches.shingles(other)), other) for other in likely.tolist()]
    return [(similarity, other) for similarity, other in pairs if similarity >= threshold]


def _rejection(rows: RankedRows, row: int, reason: str, kept_id: str, similarity: float) -> Rejection:
    return Rejection(
        rows.ids[row],
        rows.sources[row],
        "dedup",
        reason,
        # Every removed row matches the kept row directly, so the id of the kept row also names the cluster.
        detail=f"cluster={kept_id} kept={kept_id} jaccard={similarity:.3f}",
        kept_id=kept_id,
        similarity=round(similarity, 3),
    )
