"""The removal of duplicates: of several problems with nearly the same text, only the best stays."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

from curate.build_state import Address, BuildState
from curate.dedup.duplicates import Duplicate, find_duplicates
from curate.dedup.sketches import Sketches
from curate.problem import Problem, Rejection
from curate.report.duplicate_section import build_duplicate_section
from curate.stage import Stage

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[Any]]

_IS_PROBLEM = "id = ? AND EXISTS (SELECT 1 FROM problem WHERE problem.number = item.number)"
_DUPLICATE_DTYPE = [("row", "i4"), ("kept", "i4"), ("similarity", "f8"), ("exact", "?")]


class DeduplicationStage(Stage):
    """Cross-source deduplication with the MinHash sketches in each shard's folder.

    threshold: minimum word 5-gram Jaccard similarity of near-duplicates
    """

    name = "deduplicate"
    rejection_name = "dedup"

    def __init__(self, *, threshold: float) -> None:
        self._threshold = threshold

    @property
    def options(self) -> Mapping[str, Any]:
        return {"dedup": self._threshold}

    def run(self, build: BuildState) -> None:
        import numpy as np

        index = build.stages.index(self)
        numbers: list[Numbers] = []
        verified, n_tests = [np.empty(0, dtype=bool)], [np.empty(0, dtype=np.int32)]
        for shard in range(len(build.shards)):
            columns = build.files[shard].load_ranking_columns(index)
            numbers.append(columns[0].astype(np.uint32))
            verified.append(columns[1].astype(bool))
            n_tests.append(columns[2].astype(np.int32))
        with Sketches([(shard.folder, numbers[number]) for number, shard in enumerate(build.shards)]) as sketches:
            ranking = np.concatenate(verified)[sketches.rows], np.concatenate(n_tests)[sketches.rows]
            order = _order_by_rank(build, sketches, *ranking)

            def get_address(row: int) -> Address:
                return Address(int(sketches.shard[row]), int(sketches.number[row]))

            def load(row: int) -> Problem:
                return build.load(get_address(row)).problem

            duplicates = find_duplicates(sketches, order, threshold=self._threshold, load=load)
            found = np.fromiter(duplicates, dtype=_DUPLICATE_DTYPE)
            shards = sketches.shard[found["row"]]
            for shard in np.unique(shards):  # memory holds the rejections of one shard at a time
                of_shard = starmap(Duplicate, found[shards == shard].tolist())
                build.reject(self, ((get_address(d.row), _build_rejection(d, get_address, build)) for d in of_shard))
        removed = _Rejections(build, self)
        build.outputs.duplicates = build_duplicate_section(
            removed, threshold=self._threshold, load=partial(_load_by_id, build)
        )


def _order_by_rank(build: BuildState, sketches: Sketches, verified: "Numbers", n_tests: "Numbers") -> "Numbers":
    """Return the rows in rank order: verified ones first, then by number of tests, order of the sources, and id."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import compute

    source_ranks = np.array([build.sources.index(shard.source) for shard in build.shards])
    ids: list[pa.Array] = []
    for shard in range(len(build.shards)):
        numbers = sketches.number[sketches.shard == shard].tolist()
        ids.append(pa.array(map(build.files[shard].load_id, numbers), type=pa.large_binary()))
    columns = {"verified": verified, "n_tests": n_tests, "source": source_ranks[sketches.shard]}
    rows = pa.table({**columns, "id": pa.chunked_array(ids, pa.large_binary())})
    descending, ascending = ("verified", "n_tests"), ("source", "id")
    keys = [*((name, "descending") for name in descending), *((name, "ascending") for name in ascending)]
    order: Numbers = compute.sort_indices(rows, sort_keys=keys).to_numpy().astype(np.int32)
    return order


def _build_rejection(duplicate: Duplicate, get_address: Callable[[int], Address], build: BuildState) -> Rejection:
    (shard, number), kept = get_address(duplicate.row), get_address(duplicate.kept)
    id, kept_id = build.files[shard].load_id(number), build.files[kept.shard].load_id(kept.number)
    return duplicate.to_rejection(id, build.shards[shard].source, kept_id)


def _load_by_id(build: BuildState, id: str) -> Problem:
    key = id.encode("utf-8", "surrogatepass")
    addresses = (
        Address(shard, number)
        for shard in range(len(build.shards))
        for _, number in build.files[shard].iter_ids(_IS_PROBLEM, key)
    )
    return build.load(next(addresses)).problem


class _Rejections(Collection[Rejection]):
    """The rejections of a stage, read from disk on each iteration."""

    def __init__(self, build: BuildState, stage: Stage) -> None:
        self._build, self._stage = build, stage

    def __iter__(self) -> Iterator[Rejection]:
        return (rejection for _, rejection in self._build.iter_rejections(self._stage))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, rejection: object) -> bool:
        return any(rejection == held for held in self)
