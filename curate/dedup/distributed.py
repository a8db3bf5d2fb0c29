"""Beyond one machine: signatures go out as Parquet files, pairs come back, and what is removed is decided here.

Up to some ten million rows one machine does it all (duplicates.py). Beyond, each shard writes a file of sketches;
what then takes a cluster is finding the rows that share a band and checking the pairs, which Spark, datatrove or Ray
Data do with nothing but these columns. The pairs that hold are few, and deciding between them takes an order of worth
over all rows, so that is done in one place, by the rules that hold for one machine, too.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from curate.dedup import lsh
from curate.dedup.duplicates import Match, decide
from curate.dedup.minhash import PERMUTATIONS
from curate.dedup.sketches import Sketches, Worth
from curate.problem import Problem, Rejection

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 1024


def write_signatures(problems: Iterable[Problem], file: Path) -> None:
    """Write a Parquet file with a row for each problem:

    id, source, verified, n_tests  what decides which row stays
    digest                         SHA-256 of the text; rows that share it are the same
    bands                          25 keys; rows that share the key of a band are candidates
    signature                      128 minima, those of datasketch 2, for other bands
    shingles                       the set itself, sorted; its Jaccard similarity is the one that counts
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    with Sketches(problems, ()) as sketches, pq.ParquetWriter(file, _schema(), compression="zstd") as writer:
        keys = np.concatenate([np.empty((0, lsh.BANDS), dtype=np.uint64), *sketches.keys]).view(np.int64)
        for first in range(0, len(sketches), _ROWS_AT_ONCE):
            rows = range(first, min(first + _ROWS_AT_ONCE, len(sketches)))
            columns = {
                "id": [sketches.ids[row] for row in rows],
                "source": [sketches.sources[row] for row in rows],
                "verified": [not sketches.worths[row][0] for row in rows],
                "n_tests": [-sketches.worths[row][1] for row in rows],
                "digest": [sketches.digests[row] for row in rows],
                "bands": list(keys[rows.start : rows.stop]),
                "signature": list(sketches.signatures[rows.start : rows.stop]),
                "shingles": [sketches.shingles(row) for row in rows],
            }
            writer.write_table(pa.table(columns, schema=_schema()))


class _Rows:
    """What decides between rows, of all files of signatures."""

    def __init__(self, files: Iterable[Path], sources: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        self.ids: list[str] = []
        self.sources: list[str] = []
        self.worths: list[Worth] = []
        self.digests: list[bytes] = []
        places = {source: place for place, source in enumerate(sources)}
        for path in files:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=["id", "source", "verified", "n_tests", "digest"]):
                    for id, source, verified, n_tests, digest in zip(*batch.to_pydict().values(), strict=True):
                        self.ids.append(id)
                        self.sources.append(source)
                        self.worths.append((not verified, -n_tests, places.get(source, len(places)), id))
                        self.digests.append(digest)


def duplicates_of_pairs(
    files: Iterable[Path],
    pairs: Iterable[tuple[str, str, float]],
    sources: Sequence[str],
    *,
    load: Callable[[str], Problem],
) -> Iterator[Rejection]:
    """The rows to remove, as `duplicates` would. pairs: two ids and their Jaccard similarity, of all candidates at
    or above the threshold, each once; sources: their order decides between equally good rows."""
    rows = _Rows(files, sources)
    numbers = {id: row for row, id in enumerate(rows.ids)}
    partners: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for one, other, similarity in pairs:
        partners[numbers[one]].append((similarity, numbers[other]))
        partners[numbers[other]].append((similarity, numbers[one]))
    kept: set[int] = set()

    def alike(row: int) -> list[Match]:
        found = sorted((pair for pair in partners[row] if pair[1] in kept), key=lambda pair: rows.worths[pair[1]])
        return [Match(similarity, rows.ids[other], load) for similarity, other in found]

    return decide(rows, alike, kept.add, load, lambda digest: None)


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
