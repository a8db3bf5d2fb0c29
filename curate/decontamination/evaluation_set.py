"""Evaluation sets: items and windows of dates that a training set must not contain, since models are tested on them."""

from collections.abc import Iterable
from dataclasses import dataclass

from curate.manifest import EvaluationSource, InputFile


@dataclass(frozen=True, slots=True)
class EvaluationItem:
    """A problem of an evaluation set.

    texts: wordings of the problem; a training row that contains one of them contains the problem
    keys: names under which the problem is known (problem_keys.py)
    date: the ISO date of the problem's contest, if it is known
    """

    id: str
    texts: tuple[str, ...]
    keys: frozenset[str] = frozenset()
    date: str = ""


@dataclass(frozen=True, slots=True)
class DateWindow:
    """The contests from the first to the last day, both included, as ISO dates.

    sources: the sources whose rows come from these contests
    """

    first: str
    last: str
    sources: tuple[str, ...]

    def contains(self, day: str) -> bool:
        """Tell whether a date, with or without a time, lies in the window."""
        return self.first <= day[:10] <= self.last

    def earliest_date(self, contests: Iterable[tuple[str, str]]) -> str | None:
        """Return the earliest date of these contests that lies in the window, or None if no date does.

        contests: source and ISO date of each contest; only contests of the window's sources count
        """
        return min((day for source, day in contests if source in self.sources and self.contains(day)), default=None)

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A named evaluation set, which has items, a window, or both. files: the files that the items were read from."""

    name: str
    items: tuple[EvaluationItem, ...] = ()
    window: DateWindow | None = None
    files: tuple[InputFile, ...] = ()

    @property
    def plan(self) -> EvaluationSource:
        """A description for the manifest of what the set was read from."""
        return EvaluationSource(self.name, str(self.window) if self.window else None, self.files)
