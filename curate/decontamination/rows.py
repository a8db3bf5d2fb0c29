"""What is looked at of a training row when it is compared with evaluation sets."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from curate.decontamination.problem_keys import keys
from curate.dedup.duplicates import kept_instead
from curate.problem import Problem, Rejection
from curate.reading.prompt_templates import without_template


@dataclass(frozen=True, slots=True)
class Row:
    """contests: source and date of the row, and of others that hold the same problem."""

    id: str
    source: str
    text: str
    keys: frozenset[str] = frozenset()
    contests: frozenset[tuple[str, str]] = frozenset()


# The rows with their positions: all of them, or those at the given positions, always in the same order.
Rows = Callable[[Collection[int] | None], Iterator[tuple[int, Row]]]


def row_of(problem: Problem, twins: Iterable[Problem] = ()) -> Row:
    """A problem as it is looked at. twins: its removed duplicates, whose names and dates are its own, too."""
    same = [problem, *twins]
    found = [keys(url=p.url, platform=p.platform, names=(p.id.rpartition("/")[2], p.title)) for p in same]
    return Row(
        id=problem.id,
        source=problem.source,
        text=without_template(problem.statement),
        keys=frozenset[str]().union(*found),
        contests=frozenset((p.source, p.date) for p in same),
    )


def rows_of(ids: Sequence[str], load: Callable[[str], Problem], duplicates: Iterable[Rejection]) -> Rows:
    """The problems of these ids, each known by those that were removed as its duplicates as well: a contest's date is
    often known of the one that goes and not of the one that stays."""
    twins: dict[str, list[str]] = defaultdict(list)
    for removed in duplicates:
        twins[kept_instead(removed)].append(removed.id)

    def rows(wanted: Collection[int] | None) -> Iterator[tuple[int, Row]]:
        for position, id in enumerate(ids):
            if wanted is None or position in wanted:
                yield position, row_of(load(id), map(load, twins.get(id, ())))

    return rows


def reported(rows: Rows, report: Callable[[str, int, int | None], None]) -> Rows:
    """The same rows, counted as they pass."""

    def passing(wanted: Collection[int] | None) -> Iterator[tuple[int, Row]]:
        stage, total = ("compare", None) if wanted is None else ("look again", len(wanted))
        for done, row in enumerate(rows(wanted), start=1):
            yield row
            report(stage, done, total)

    return passing
