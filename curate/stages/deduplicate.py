"""Keep only the best of several problems that have the same or nearly the same text."""

from collections.abc import Mapping
from typing import Any

from curate.build_state import BuildState
from curate.dedup.duplicates import find_duplicates
from curate.dedup.sketches import Sketches
from curate.problem import Rejection
from curate.progress import with_progress
from curate.report.duplicate_section import build_duplicate_section
from curate.stage import Stage


class DeduplicationStage(Stage):
    """Removes duplicates across sources.

    threshold: the minimum Jaccard similarity of word 5-grams at which two statements are nearly the same
    removed: the rejections of the duplicates, once the stage has run
    """

    name = "deduplicate"
    rejection_name = "dedup"
    removed: list[Rejection]

    def __init__(self, *, threshold: float) -> None:
        self._threshold = threshold
        self.removed = []

    @property
    def options(self) -> Mapping[str, Any]:
        return {"dedup": self._threshold}

    def run(self, build: BuildState) -> None:
        problems = map(build.load, with_progress(build.ids, self.name, build.progress, total=len(build.ids)))
        with Sketches(problems, build.sources, folder=build.folder) as sketches:
            self.removed = list(find_duplicates(sketches, threshold=self._threshold, load=build.load))
        build.outputs.duplicates = build_duplicate_section(self.removed, threshold=self._threshold, load=build.load)
        build.reject(self.removed)
