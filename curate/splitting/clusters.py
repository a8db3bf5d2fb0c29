"""Find clusters of rows that must not be separated, because they are the same problem or nearly the same.

Two rows are linked if their statements have at least some Jaccard similarity of word 5-grams, or if they have the same
text or a common key, such as the URL of a problem. A cluster is everything that links connect. Deduplication removes
rows, so it never goes by such chains; a split removes nothing, so links that are too many do no harm.
"""

from collections.abc import Hashable, Iterator
from pathlib import Path

from curate.dataset.dataset_reader import DatasetReader
from curate.decontamination.problem_keys import derive_keys
from curate.dedup import lsh
from curate.dedup.duplicates import find_similar
from curate.dedup.lsh import LshIndex
from curate.dedup.sketches import Sketches
from curate.problem import Problem
from curate.progress import Progress, with_progress
from sandbox import Suite

_COLUMNS = ("id", "source", "statement", "url", "platform", "title")
_ROW_BATCH = 4096


class UnionFind:
    """The clusters that links make of rows (union-find)."""

    def __init__(self, n_rows: int) -> None:
        self._parents = list(range(n_rows))
        self._first: dict[Hashable, int] = {}

    def union(self, row: int, other: int) -> None:
        """Put two rows into one cluster."""
        first, second = sorted((self.find(row), self.find(other)))
        self._parents[second] = first

    def union_by_key(self, key: Hashable, row: int) -> None:
        """Put all rows that are given with this key into one cluster."""
        self.union(self._first.setdefault(key, row), row)

    def find(self, row: int) -> int:
        """Return the cluster of a row, by its smallest row."""
        while (parent := self._parents[row]) != row:
            self._parents[row] = row = self._parents[parent]
        return row


def clusters(dataset: Path, *, similarity: float, progress: Progress) -> list[int]:
    """Return the cluster of each row of a dataset, by position. Memory holds ids and sketches.

    similarity: minimum Jaccard similarity, above 0, that links two statements
    """
    stored = DatasetReader(dataset)
    links = UnionFind(len(stored))

    def problems() -> Iterator[Problem]:
        for row, values in enumerate(
            with_progress(stored.read_columns(*_COLUMNS), "read", progress, total=len(stored))
        ):
            names = (values["id"].rpartition("/")[2], values["title"])
            for key in derive_keys(url=values["url"], platform=values["platform"], names=names):
                links.union_by_key(key, row)
            # Two problems with one text stay together whatever their tests are, so the tests are not read.
            yield Problem(values["id"], values["source"], values["statement"], Suite(()), None, "")

    with Sketches(problems(), ()) as sketches:
        for row, digest in enumerate(sketches.digests):
            links.union_by_key(digest, row)
        shape = lsh.choose_shape(similarity)
        blocks = range(0, len(sketches), _ROW_BATCH)
        bands = LshIndex(lsh.band_keys(sketches.signatures[first : first + _ROW_BATCH], shape) for first in blocks)
        for row in with_progress(range(len(sketches)), "compare", progress, total=len(sketches)):
            for _, other in find_similar(row, sketches, bands, similarity):
                links.union(row, other)
            bands.add_kept(row)
    return [links.find(row) for row in range(len(stored))]
