"""Remove what occurs twice, across sources: the same text first, then nearly the same words.

MinHash only proposes pairs (25 bands of 5 rows miss fewer than 1 in 1000 at Jaccard 0.7); exact Jaccard over
word 5-grams decides. Rows are taken in order of worth, and a row goes only if it matches a row that stays: no
chain A~B~C removes C because of an A that it does not resemble, and each removed row names the one kept.
Memory: some 6 KB per kept row for the index, and 4 bytes per word of each statement.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from curate.problem import Problem, Rejection
from curate.similar import difference

if TYPE_CHECKING:
    import numpy as np

    Shingles = np.ndarray[tuple[int], np.dtype[np.uint32]]

WORDS_PER_SHINGLE = 5
PERMUTATIONS = 128
BANDS_AND_ROWS = (25, 5)


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is remembered of a problem: its worth (smallest is best), its text's digest and its shingles."""

    id: str
    source: str
    worth: tuple[bool, int, int, str]
    digest: bytes
    shingles: "Shingles"


def sketch(problem: Problem, sources: Sequence[str]) -> Sketch:
    """Worth: verified before unverified, most tests, the order of `sources`, the smallest id."""
    text = " ".join(unicodedata.normalize("NFKC", problem.statement).casefold().split())
    asked = f"{problem.tests.entry_point or ''}\n{text}"
    return Sketch(
        id=problem.id,
        source=problem.source,
        worth=(not problem.verified, -len(problem.tests.cases), sources.index(problem.source), problem.id),
        digest=hashlib.sha256(asked.encode()).digest(),
        shingles=_shingles(text),
    )


def duplicates(sketches: Iterable[Sketch], *, threshold: float, load: Callable[[str], Problem]) -> Iterator[Rejection]:
    """The rows to remove. `load` fetches a problem by id, to look at two that are alike more closely.

    threshold is the least Jaccard similarity, above 0, at which two statements count as nearly the same.
    """
    from datasketch import MinHash, MinHashLSH

    ordered = sorted(sketches, key=lambda sketch: sketch.worth)
    # The shingles are hashes already, so the signature takes them as they are.
    signatures = MinHash.generator(
        (sketch.shingles.tolist() for sketch in ordered), num_perm=PERMUTATIONS, hashfunc=int
    )
    index = MinHashLSH(num_perm=PERMUTATIONS, params=BANDS_AND_ROWS)
    kept: dict[str, Sketch] = {}
    texts: dict[bytes, str] = {}
    for candidate, signature in zip(ordered, signatures, strict=True):
        if candidate.digest in texts:
            yield _removed(candidate, "duplicate_exact", texts[candidate.digest], 1.0)
            continue
        alike = [(jaccard(candidate.shingles, kept[id].shingles), id) for id in index.query(signature)]
        for similarity, id in sorted(alike, key=lambda pair: (-pair[0], kept[pair[1]].worth)):
            if similarity >= threshold and not difference(load(candidate.id), load(id)):
                yield _removed(candidate, "duplicate_near", id, similarity)
                break
        else:
            kept[candidate.id] = candidate
            texts[candidate.digest] = candidate.id
            index.insert(candidate.id, signature)


def jaccard(one: "Shingles", other: "Shingles") -> float:
    """Size of the intersection over size of the union of two sorted sets."""
    import numpy as np

    common = len(np.intersect1d(one, other, assume_unique=True))
    return common / (len(one) + len(other) - common)


def _shingles(text: str) -> "Shingles":
    import numpy as np
    import xxhash

    words = re.findall(r"\w+", text)
    starts = range(max(1, len(words) - WORDS_PER_SHINGLE + 1))
    grams = (" ".join(words[start : start + WORDS_PER_SHINGLE]) for start in starts)
    return np.unique(np.fromiter((xxhash.xxh32_intdigest(gram.encode()) for gram in grams), dtype=np.uint32))


def _removed(candidate: Sketch, reason: str, kept_id: str, similarity: float) -> Rejection:
    # Every removed row matches the kept one itself, so the kept id is also the name of the cluster.
    detail = f"cluster={kept_id} kept={kept_id} jaccard={similarity:.3f}"
    return Rejection(candidate.id, candidate.source, "dedup", reason, detail)
