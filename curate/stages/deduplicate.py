"""Keep only the best of several problems that have the same or nearly the same text."""

from collections.abc import Collection, Iterator, Mapping
from itertools import starmap
from typing import Any

from curate.build_state import Address, BuildState
from curate.dedup.duplicates import find_duplicates
from curate.dedup.shard_sketches import ShardRows, ShardSketches
from curate.problem import Problem, Rejection
from curate.report.duplicate_section import build_duplicate_section
from curate.stage import Stage


class DeduplicationStage(Stage):
    """Removes duplicates across sources. The sketches of statements were made when the shards were read.

    threshold: the minimum Jaccard similarity of word 5-grams at which two statements are nearly the same
    """

    name = "deduplicate"
    rejection_name = "dedup"

    def __init__(self, *, threshold: float) -> None:
        self._threshold = threshold

    @property
    def options(self) -> Mapping[str, Any]:
        return {"dedup": self._threshold}

    def run(self, build: BuildState) -> None:
        index = build.stages.index(self)
        shards = []
        for place, shard in enumerate(build.shards):
            file = build.file(place)
            shards.append(ShardRows(shard.folder, shard.source, *file.worth(index), file.id))
        with ShardSketches(shards, build.sources) as sketches:
            addresses = dict(zip(sketches.ids, starmap(Address, sketches.addresses), strict=True))

            def load(id: str) -> Problem:
                return build.load(addresses[id]).problem

            found = find_duplicates(sketches, threshold=self._threshold, load=load)
            build.reject(self, ((addresses[rejection.id], rejection) for rejection in found))
            removed = _Rejections(build, self)
            build.outputs.duplicates = build_duplicate_section(removed, threshold=self._threshold, load=load)


class _Rejections(Collection[Rejection]):
    """The rejections of a stage, which stay on disk."""

    def __init__(self, build: BuildState, stage: Stage) -> None:
        self._build, self._stage = build, stage

    def __iter__(self) -> Iterator[Rejection]:
        return (rejection for _, rejection in self._build.rejections(self._stage))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, rejection: object) -> bool:
        return any(rejection == held for held in self)
