"""Find duplicates across the datasets of a merge, by the rules of a build (curate/dedup).

Of several equal problems the one stays that is verified, then the one with most tests, then the one from the dataset
that was given first.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from curate.dedup.duplicates import find_duplicates
from curate.dedup.sketches import Sketches
from curate.errors import CurateError
from curate.merging.inputs import MergeInput, input_index, named_problems, unqualified_id
from curate.problem import Problem, Rejection
from curate.progress import Progress, with_progress
from curate.report.duplicate_section import DuplicateSection, build_duplicate_section

_MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class CrossDuplicates:
    """The duplicates across datasets.

    removed: rejections as the table `rejected` has them, by the name of the row
    kept_names: for each removed row, the name of the row that stays instead
    section: the part of the report on them
    """

    removed: Mapping[str, Rejection]
    kept_name_by_removed: Mapping[str, str]
    section: DuplicateSection


def find_cross_duplicates(
    inputs: Sequence[MergeInput], *, threshold: float, work: Path, progress: Progress
) -> CrossDuplicates:
    """Find the rows to remove. Raises CurateError if different problems have the same id.

    threshold: minimum Jaccard similarity of word 5-grams at which two statements are nearly the same
    work: folder for temporary files
    progress: called with the progress
    """
    rows = {dataset.qualified_id(id): row for dataset in inputs for row, id in enumerate(dataset.ids)}

    def load(name: str) -> Problem:
        return inputs[input_index(name)].reader.load(rows[name])

    problems = with_progress(named_problems(inputs), "deduplicate", progress, total=len(rows))
    with Sketches(problems, [str(dataset.index) for dataset in inputs], folder=work) as sketches:
        rejections = list(find_duplicates(sketches, threshold=threshold, load=load))
    _check_ids(inputs, rows.keys() - {rejection.id for rejection in rejections})
    return CrossDuplicates(
        removed={rejection.id: _with_ids(rejection) for rejection in rejections},
        kept_name_by_removed={rejection.id: rejection.kept_id or "" for rejection in rejections},
        section=_section(rejections, threshold, load),
    )


def _check_ids(inputs: Sequence[MergeInput], kept: Set[str]) -> None:
    repeated = sorted(id for id, n in Counter(map(unqualified_id, kept)).items() if n > 1)
    if repeated:
        holding = [dataset.given_location for dataset in inputs if dataset.qualified_id(repeated[0]) in kept]
        listed = ", ".join(repeated[:_MAX_SHOWN]) + (
            f" and {len(repeated) - _MAX_SHOWN} more" if repeated[_MAX_SHOWN:] else ""
        )
        raise CurateError(
            f"{' and '.join(holding)} have different problems under the same id: {listed}. Build one of them again "
            "from a source of another name, or with ids of its own."
        )


def _with_ids(rejection: Rejection) -> Rejection:
    """Return a rejection with the ids of the rows in place of their names."""
    id, kept_id = unqualified_id(rejection.id), unqualified_id(rejection.kept_id or "")
    detail = f"cluster={kept_id} kept={kept_id} jaccard={rejection.similarity:.3f}"
    return replace(rejection, id=id, source=_source(id), kept_id=kept_id, detail=detail)


def _source(id: str) -> str:
    return id.partition("/")[0]


def _section(rejections: Sequence[Rejection], threshold: float, load: Callable[[str], Problem]) -> DuplicateSection:
    """Return the section of the report. Its sources are those of the problems, which their ids begin with."""
    in_sources = [replace(rejection, source=_source(rejection.id)) for rejection in rejections]
    return build_duplicate_section(in_sources, threshold=threshold, load=load)
