"""Remove problems that contain an item of an evaluation set."""

from collections.abc import Sequence
from dataclasses import asdict

from curate.build_state import BuildState
from curate.dataset.contamination_hits import HIT_COLUMNS
from curate.decontamination.contamination_search import find_contamination
from curate.decontamination.evaluation_set import EvaluationSet
from curate.decontamination.training_rows import training_row_reader, with_progress_reports
from curate.stage import Stage
from curate.stages.deduplicate import DeduplicationStage


class DecontaminationStage(Stage):
    """Compares all rows with the evaluation sets. A row also counts as having the names and dates of its duplicates.

    The plan's `against` records what the sets were read from, so the stage has no options of its own.
    """

    name = "decontaminate"

    def __init__(self, evaluations: Sequence[EvaluationSet], deduplicate: DeduplicationStage) -> None:
        self.evaluations = tuple(evaluations)
        self._deduplicate = deduplicate

    def run(self, build: BuildState) -> None:
        rows = training_row_reader(build.ids, build.load, self._deduplicate.removed)
        findings = find_contamination(with_progress_reports(rows, build.progress), self.evaluations)
        build.outputs.decontamination = findings.counts
        if self.evaluations:
            build.outputs.tables["contamination"] = map(asdict, findings.hits), HIT_COLUMNS
        build.reject(findings.rejections.values())
