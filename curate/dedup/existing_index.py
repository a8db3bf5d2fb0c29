"""A finished dataset that new rows must not repeat: its rows stay, and new ones are compared with them.

datasketch's MinHashLSH is the index here, since it takes rows one after another and answers at once; it costs
some 6 KB a row. Statements are sketched once; of the rows themselves only those that turn out alike are read again.
"""

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from curate.dataset.reader import Stored
from curate.dedup import lsh
from curate.dedup.minhash import PERMUTATIONS
from curate.dedup.shingles import jaccard
from curate.dedup.sketches import Sketches
from curate.problem import Problem

if TYPE_CHECKING:
    from curate.dedup.shingles import Set


class Existing:
    """The rows of a dataset that `curate build-dataset` wrote, indexed; close it when done. Raises CurateError."""

    def __init__(self, folder: Path) -> None:
        from datasketch import MinHash, MinHashLSH

        self._stored = Stored(folder)
        self._sketches = Sketches(self._stored, ())
        self._rows = {id: row for row, id in enumerate(self._sketches.ids)}
        self._digests = dict(zip(self._sketches.digests, self._sketches.ids, strict=True))
        self._empty = MinHash(num_perm=PERMUTATIONS, scheme="affine32")
        self._index = MinHashLSH(num_perm=PERMUTATIONS, params=(lsh.BANDS, lsh.ROWS))
        for id, signature in zip(self._sketches.ids, self._sketches.signatures, strict=True):
            self._index.insert(id, self._minhash(signature))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sketches.__exit__(kind, error, trace)

    def same(self, digest: bytes) -> str | None:
        """The id of the row with the same text, if there is one."""
        return self._digests.get(digest)

    def alike(self, shingles: "Set", signature: "Set") -> list[tuple[float, str]]:
        """Rows that are probably similar, with their exact Jaccard similarity."""
        found = sorted(self._index.query(self._minhash(signature)))
        return [(jaccard(shingles, self._sketches.shingles(self._rows[id])), id) for id in found]

    def load(self, id: str) -> Problem:
        """The whole row."""
        return self._stored.load(self._rows[id])

    def _minhash(self, signature: "Set") -> Any:
        """The signature as datasketch wants it; the permutations are shared, not drawn again."""
        from datasketch import MinHash

        return MinHash(hashvalues=signature, permutations=self._empty.permutations, scheme=self._empty.scheme)
