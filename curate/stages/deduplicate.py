"""Keep only the best of several problems that have the same or nearly the same text."""

from collections.abc import Mapping
from typing import Any

from curate.dedup.duplicates import duplicates
from curate.dedup.sketches import Sketches
from curate.ongoing_build import OngoingBuild
from curate.problem import Rejection
from curate.progress import counted
from curate.report.duplicates import duplicates_among
from curate.stage import Stage


class Deduplicate(Stage):
    """Removes duplicates across sources.

    threshold: the minimum Jaccard similarity of word 5-grams at which two statements are nearly the same
    removed: the rejections of the duplicates, once the stage has run
    """

    name = "deduplicate"
    word = "dedup"
    removed: list[Rejection]

    def __init__(self, *, threshold: float) -> None:
        self._threshold = threshold
        self.removed = []

    @property
    def options(self) -> Mapping[str, Any]:
        return {"dedup": self._threshold}

    def run(self, build: OngoingBuild) -> None:
        problems = map(build.load, counted(build.ids, self.name, build.progress, total=len(build.ids)))
        with Sketches(problems, build.sources, folder=build.folder) as sketches:
            self.removed = list(duplicates(sketches, threshold=self._threshold, load=build.load))
        build.extras.duplicates = duplicates_among(self.removed, threshold=self._threshold, load=build.load)
        build.reject(self.removed)
