"""Training rows, in the form in which evaluation sets are compared with them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from curate.decontamination.problem_keys import derive_keys
from curate.problem import Problem, Rejection
from curate.progress import Progress, with_progress
from curate.reading.prompt_templates import strip_prompt_template


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A training row, in the form in which evaluation sets are compared with it.

    text: the problem without its prompt template
    keys: names under which the problem is known (problem_keys.py)
    contests: source and date of the row, and of other rows with the same problem
    """

    id: str
    source: str
    text: str
    keys: frozenset[str] = frozenset()
    contests: frozenset[tuple[str, str]] = frozenset()


# Returns rows with their positions: all rows, or those at the given positions, always in the same order.
RowReader = Callable[[Collection[int] | None], Iterator[tuple[int, TrainingRow]]]


def to_training_row(problem: Problem, duplicates: Iterable[Problem] = ()) -> TrainingRow:
    """Return a problem as a row to compare.

    duplicates: its removed duplicates, whose names and dates count as its own
    """
    same = [problem, *duplicates]
    known_keys = [derive_keys(url=p.url, platform=p.platform, names=(p.id.rpartition("/")[2], p.title)) for p in same]
    return TrainingRow(
        id=problem.id,
        source=problem.source,
        text=strip_prompt_template(problem.statement),
        keys=frozenset[str]().union(*known_keys),
        contests=frozenset((p.source, p.date) for p in same),
    )


def training_row_reader(
    ids: Sequence[str], load: Callable[[str], Problem], duplicates: Iterable[Rejection]
) -> RowReader:
    """Return the problems of these ids as rows to compare.

    duplicates: rows that were removed in favour of some of these problems; their names and dates count as well, since
    the date of a contest is often known only for the row that was removed
    """
    twins: dict[str, list[str]] = defaultdict(list)
    for removed in duplicates:
        if removed.kept_id is not None:
            twins[removed.kept_id].append(removed.id)

    def rows(wanted: Collection[int] | None) -> Iterator[tuple[int, TrainingRow]]:
        for position, id in enumerate(ids):
            if wanted is None or position in wanted:
                yield position, to_training_row(load(id), map(load, twins.get(id, ())))

    return rows


def with_progress_reports(rows: RowReader, progress: Progress) -> RowReader:
    """Return the same rows, which now report progress while they are read."""

    def rows_with_progress(wanted: Collection[int] | None) -> Iterator[tuple[int, TrainingRow]]:
        stage, total = ("compare", None) if wanted is None else ("look again", len(wanted))
        yield from with_progress(rows(wanted), stage, progress, total=total)

    return rows_with_progress
