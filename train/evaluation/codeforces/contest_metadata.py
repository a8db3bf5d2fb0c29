"""What contests tell of their problems: difficulty and day, for rows that do not say it."""

from collections.abc import Iterable
from dataclasses import replace

from curate.errors import CurateError
from train.evaluation.codeforces.contests import Contest, problem_keys
from train.evaluation.statistics.outcomes import ProblemMetadata


class ContestMetadata:
    """The facts of the problems of these contests."""

    def __init__(self, contests: Iterable[Contest]) -> None:
        self._known = {
            (contest.id, problem.index): (problem.rating, contest.start)
            for contest in contests
            for problem in contest.problems
        }

    def fill_missing(self, id: str, facts: ProblemMetadata) -> ProblemMetadata:
        """Return the facts of a problem of the suite, with what the contests know where they say nothing."""
        difficulty, day = next(
            (self._known[key] for key in problem_keys_or_none(id) if key in self._known), (None, None)
        )
        return replace(facts, difficulty=facts.difficulty or difficulty, date=facts.date or day)


def problem_keys_or_none(id: str) -> list[tuple[int, str]]:
    """Return contest and index of a problem, its own first; none if its contest is unknown."""
    try:
        return problem_keys(id)
    except CurateError:
        return []
