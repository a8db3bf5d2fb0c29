"""Remove what occurs twice, across sources: the same text first, then nearly the same words.

MinHash only proposes pairs; exact Jaccard over runs of five words decides. Rows are taken in order of worth, and
a row goes only if it matches a row that stays: no chain A~B~C removes C because of an A that it does not resemble,
and each removed row names the one kept. What is compared is the statement without its source's template, and two
that are alike but ask for different things, as the parts of a series do, both stay (curate/dedup/series.py).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from curate.dedup.existing_index import Existing
from curate.dedup.lsh import Bands
from curate.dedup.series import difference
from curate.dedup.shingles import jaccard
from curate.dedup.sketches import Sketches, Worth
from curate.problem import Problem, Rejection

log = logging.getLogger(__name__)

# Two signatures estimate a similarity with a standard deviation of at most 0.044, so a pair that reaches the
# threshold looks this much less alike once in 100,000 times. Where all is boilerplate it saves most comparisons.
_SLACK = 0.2


def duplicates(
    sketches: Sketches, *, threshold: float, load: Callable[[str], Problem], existing: Existing | None = None
) -> Iterator[Rejection]:
    """The rows to remove. `load` fetches a problem by id, to look more closely at two that are alike.

    threshold is the least Jaccard similarity, above 0, at which two statements count as nearly the same. The rows
    of an existing dataset stay whatever they are worth, and what matches one of them is removed.
    """
    bands = Bands(sketches.keys)

    def alike(row: int) -> list[Match]:
        found = [Match(s, sketches.ids[other], load) for s, other in _alike(row, sketches, bands, threshold)]
        if existing is not None:
            pairs = existing.alike(sketches.shingles(row), sketches.signatures[row])
            found += [Match(similarity, id, existing.load) for similarity, id in pairs if similarity >= threshold]
        return found

    yield from decide(sketches, alike, bands.keep, load, existing.same if existing is not None else lambda digest: None)
    if bands.overfull:
        log.warning("%d buckets held too many rows to compare all of them", len(bands.overfull))


class Match(NamedTuple):
    """A row that stays, how similar it is, and what fetches it by its id."""

    similarity: float
    id: str
    load: Callable[[str], Problem]


class Rows(Protocol):
    """What decides between rows, a list for each thing; `worths` and `digests` are those of sketches.py."""

    @property
    def ids(self) -> Sequence[str]: ...
    @property
    def sources(self) -> Sequence[str]: ...
    @property
    def worths(self) -> Sequence[Worth]: ...
    @property
    def digests(self) -> Sequence[bytes]: ...


def decide(
    rows: Rows,
    alike: Callable[[int], Sequence[Match]],
    keep: Callable[[int], None],
    load: Callable[[str], Problem],
    same: Callable[[bytes], str | None],
) -> Iterator[Rejection]:
    """Go through the rows in order of worth and remove those that match one that stays.

    alike gives the rows that stay and are similar enough, in order of worth; keep says of a row that it stays; same
    gives the row of a digest that stays from the beginning.
    """
    digests: dict[bytes, str] = {}
    for row in sorted(range(len(rows.ids)), key=rows.worths.__getitem__):
        id, digest = rows.ids[row], rows.digests[row]
        if twin := same(digest) or digests.get(digest):
            yield _removed(rows, row, "duplicate_exact", twin, 1.0)
            continue
        for match in sorted(alike(row), key=lambda match: -match.similarity):
            if not difference(load(id), match.load(match.id)):
                yield _removed(rows, row, "duplicate_near", match.id, match.similarity)
                break
        else:
            digests[digest] = id
            keep(row)


def _alike(row: int, sketches: Sketches, bands: Bands, threshold: float) -> list[tuple[float, int]]:
    """The kept rows at least so similar, with their similarity, in order of worth."""
    import numpy as np

    met = bands.candidates(row)
    if not met:
        return []
    candidates = np.array(sorted(met, key=sketches.worths.__getitem__))
    agreeing = (sketches.signatures[candidates] == sketches.signatures[row]).sum(axis=1)
    likely = candidates[agreeing >= (threshold - _SLACK) * sketches.signatures.shape[1]]
    shingles = sketches.shingles(row)
    pairs = [(jaccard(shingles, sketches.shingles(other)), other) for other in likely.tolist()]
    return [(similarity, other) for similarity, other in pairs if similarity >= threshold]


def kept_instead(removed: Rejection) -> str:
    """The id of the row that was kept instead of a duplicate."""
    named = removed.detail.removeprefix("cluster=").rpartition(" jaccard=")[0]
    return named[: (len(named) - len(" kept=")) // 2]  # the same twice, and it may hold any words


def _removed(rows: Rows, row: int, reason: str, kept: str, similarity: float) -> Rejection:
    # Every removed row matches the kept one itself, so the kept id is also the name of the cluster.
    detail = f"cluster={kept} kept={kept} jaccard={similarity:.3f}"
    return Rejection(rows.ids[row], rows.sources[row], "dedup", reason, detail)
