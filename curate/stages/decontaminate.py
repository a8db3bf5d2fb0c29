"""The removal of problems that contain an item of an evaluation set."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace

from curate.build_state import Address, BuildState
from curate.dataset.contamination_hits import HIT_COLUMNS
from curate.decontamination.contamination_search import find_contamination
from curate.decontamination.evaluation_set import EvaluationSet
from curate.decontamination.training_set import TrainingRow, add_progress_reports, to_training_row
from curate.problem import Problem
from curate.stage import Stage
from curate.stages.deduplicate import DeduplicationStage
from sandbox import Suite


class DecontaminationStage(Stage):
    """A comparison of all rows with the evaluation sets. It assigns the keys and dates of duplicates to the kept row.

    The stage has no options, because the plan's `against` identifies the sets.
    """

    name = "decontaminate"

    def __init__(self, evaluations: Sequence[EvaluationSet], deduplicate: DeduplicationStage) -> None:
        self.evaluations = tuple(evaluations)
        self._deduplicate = deduplicate

    def run(self, build: BuildState) -> None:
        if not self.evaluations:
            return
        removed: dict[str, list[Address]] = defaultdict(list)
        for address, rejection in build.iter_rejections(self._deduplicate):
            removed[rejection.kept_id or ""].append(address)

        def iter_rows(positions: Collection[int] | None) -> Iterator[tuple[int, TrainingRow]]:
            for position, address in enumerate(build.iter_problems(stage=self)):
                if positions is None or position in positions:
                    problem = _load_text(address, build)
                    duplicates = [_load_text(other, build) for other in removed.get(problem.id, ())]
                    yield position, to_training_row(problem, duplicates)

        result = find_contamination(add_progress_reports(iter_rows, build.progress), self.evaluations)
        build.outputs.decontamination = result.counts
        build.outputs.tables["contamination"] = map(asdict, result.hits), HIT_COLUMNS
        positions = enumerate(build.iter_problems(stage=self))
        rejected = [(a, result.rejections[n]) for n, a in positions if n in result.rejections]
        build.reject(self, rejected)


def _load_text(address: Address, build: BuildState) -> Problem:
    """Load a problem without its tests and solutions, which may need much memory."""
    return replace(build.load_original(address), tests=Suite(()), solutions=None)
