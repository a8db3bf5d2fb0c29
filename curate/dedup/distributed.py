"""Deduplicate on several machines, which exchange signatures and pairs of similar rows as Parquet files.

One machine can deduplicate some ten million rows alone (duplicates.py). For more rows, each shard writes a file of
sketches. A cluster then finds the rows that share a band and checks the pairs; Spark, datatrove or Ray Data can do this
with the columns of these files alone. Few pairs remain. Choosing between the rows of a pair needs an order of worth
over all rows, so it is done in one place, by the same rules as on one machine. docs/guides/many-machines.md shows the
whole process, and examples/dedup_on_ray.py runs it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from curate.dedup import lsh
from curate.dedup.duplicates import select_duplicates
from curate.dedup.minhash import PERMUTATIONS
from curate.dedup.sketches import RankKey, Sketches
from curate.problem import Problem, Rejection

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_BATCH = 1024


def write_signatures(problems: Iterable[Problem], file: Path) -> None:
    """Write a Parquet file with a row for each problem and these columns:

    id, source, verified, n_tests  the values that decide which row stays
    digest                         SHA-256 of the text; rows that share it have the same text
    bands                          25 keys; rows that share the key of a band are candidates
    signature                      the 128 minima that datasketch 2 computes, from which other bands can be made
    shingles                       the sorted set of shingles, from which the exact Jaccard similarity is computed
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    with Sketches(problems, ()) as sketches, pq.ParquetWriter(file, _schema(), compression="zstd") as writer:
        keys = np.concatenate([np.empty((0, lsh.BANDS), dtype=np.uint64), *sketches.keys]).view(np.int64)
        for first in range(0, len(sketches), _ROW_BATCH):
            rows = range(first, min(first + _ROW_BATCH, len(sketches)))
            columns = {
                "id": [sketches.ids[row] for row in rows],
                "source": [sketches.sources[row] for row in rows],
                "verified": [not sketches.rank_keys[row][0] for row in rows],
                "n_tests": [-sketches.rank_keys[row][1] for row in rows],
                "digest": [sketches.digests[row] for row in rows],
                "bands": list(keys[rows.start : rows.stop]),
                "signature": list(sketches.signatures[rows.start : rows.stop]),
                "shingles": [sketches.shingles(row) for row in rows],
            }
            writer.write_table(pa.table(columns, schema=_schema()))


class _Rows:
    """The values that decide which rows stay, read from all files of signatures."""

    def __init__(self, files: Iterable[Path], sources: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        self.ids: list[str] = []
        self.sources: list[str] = []
        self.rank_keys: list[RankKey] = []
        self.digests: list[bytes] = []
        places = {source: place for place, source in enumerate(sources)}
        for path in files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=["id", "source", "verified", "n_tests", "digest"]):
                    for id, source, verified, n_tests, digest in zip(*batch.to_pydict().values(), strict=True):
                        self.ids.append(id)
                        self.sources.append(source)
                        self.rank_keys.append((not verified, -n_tests, places.get(source, len(places)), id))
                        self.digests.append(digest)


def duplicates_of_pairs(
    files: Iterable[Path],
    pairs: Iterable[tuple[str, str, float]],
    sources: Sequence[str],
    *,
    load: Callable[[str], Problem],
) -> Iterator[Rejection]:
    """Yield the rows to remove, as `duplicates` does on one machine.

    files    the files that write_signatures wrote for all shards
    pairs    two ids and their Jaccard similarity, for all candidates at or above the threshold, each pair once
    sources  names of the sources; their order decides between equally good rows
    load     returns a problem by its id
    """
    rows = _Rows(files, sources)
    numbers = {id: row for row, id in enumerate(rows.ids)}
    partners: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for first, second, similarity in pairs:
        partners[numbers[first]].append((similarity, numbers[second]))
        partners[numbers[second]].append((similarity, numbers[first]))
    kept: set[int] = set()

    def similar_kept(row: int) -> list[tuple[float, str]]:
        similar = sorted((pair for pair in partners[row] if pair[1] in kept), key=lambda pair: rows.rank_keys[pair[1]])
        return [(similarity, rows.ids[other]) for similarity, other in similar]

    return select_duplicates(rows, similar_kept, kept.add, load)


def _schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(
        {
            "id": pa.string(),
            "source": pa.string(),
            "verified": pa.bool_(),
            "n_tests": pa.int32(),
            "digest": pa.binary(),
            "bands": pa.list_(pa.int64(), lsh.BANDS),
            "signature": pa.list_(pa.uint32(), PERMUTATIONS),
            "shingles": pa.list_(pa.uint32()),
        }
    )
