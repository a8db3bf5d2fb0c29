"""What an evaluation says about the rating of its model: by contests if their standings are there, and by problem
difficulty if the difficulties of problems are known.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from train.evaluation.codeforces.contest_file import default_path, read_contests
from train.evaluation.codeforces.contest_metadata import ContestMetadata, problem_keys_or_none
from train.evaluation.codeforces.contest_rating import is_rated
from train.evaluation.codeforces.contests import Contest
from train.evaluation.codeforces.difficulty_rating import DifficultyRating, rate_by_difficulty, solved_problems
from train.evaluation.codeforces.model_rating import ModelRating, rate_model
from train.evaluation.codeforces.percentiles import deepcoder_2024
from train.evaluation.results.ratings import BY_CONTESTS, BY_DIFFICULTY
from train.evaluation.results.tests_source import tests_source
from train.evaluation.statistics.outcomes import ProblemOutcomes

log = logging.getLogger(__name__)

_OURS = "codeforces/"  # how the ids of the suite's problems begin
_EXAMPLES = "examples"


@dataclass(frozen=True, slots=True)
class Rating:
    """The rating of a model.

    tests_source    where the tests of the problems come from
    attempts        samples of a problem: with more attempts, a model has a higher rating by contests
    contest_rating  None: no contest of the problems has known standings
    by_difficulty   None: no problem has a known difficulty
    n_difficulties problems whose difficulty is known
    """

    tests_source: str
    attempts: int
    contest_rating: ModelRating | None
    by_difficulty: DifficultyRating | None
    n_difficulties: int

    @property
    def is_upper_bound(self) -> bool:
        """Whether some tests are examples of statements, which wrong programs pass, too."""
        return _EXAMPLES in self.tests_source

    def to_json(self) -> list[dict[str, Any]]:
        """Return the ratings as a result file has them, the one by contests first. An unknown number is null."""
        about = {"suite": "codeforces", "tests": self.tests_source, "is_upper_bound": self.is_upper_bound}
        ratings: list[dict[str, Any]] = []
        if self.contest_rating is not None:
            ratings.append(about | {"by": BY_CONTESTS, "attempts": self.attempts} | asdict(self.contest_rating))
        if self.by_difficulty is not None:
            ratings.append(about | {"by": BY_DIFFICULTY, "problems": self.n_difficulties} | asdict(self.by_difficulty))
        return [{name: _known(value) for name, value in rating.items()} for rating in ratings]


def known_contests(path: Path | None, ids: Iterable[str]) -> list[Contest]:
    """Read the contests with which problems of these ids can be rated; none if the problems are of another suite.

    path: the file of contests; None: the one that was fetched to the usual place, if any was

    Raises CurateError if the named file is not one of contests. If the file in the usual place is not, a warning says
    so: the user did not name it, and it may be needed only when all samples are drawn.
    """
    if not any(id.startswith(_OURS) for id in ids):
        return []
    if path is not None:
        return read_contests(path)
    try:
        return read_contests(default_path()) if default_path().is_file() else []
    except CurateError as error:
        log.warning("there is no rating by contests: %s", error)
        return []


def ratings_as_json(outcomes: Sequence[ProblemOutcomes], *, seed: int = 0) -> list[dict[str, Any]]:
    """Return the ratings of an evaluation for its result file, with the contests in the usual place."""
    rating = rate(outcomes, known_contests(None, (problem.id for problem in outcomes)), seed=seed)
    return [] if rating is None else rating.to_json()


def rate(outcomes: Iterable[ProblemOutcomes], contests: Sequence[Contest], *, seed: int = 0) -> Rating | None:
    """Return the rating of a model; None if none of the problems is of the suite `codeforces`.

    contests  those whose standings are known
    seed      of the intervals' bootstraps
    """
    problems = [problem for problem in outcomes if problem.id.startswith(_OURS)]
    if not problems:
        return None
    ratable = {contest.id for contest in contests if is_rated(contest)}
    posed = [
        replace(problem, id=f"{contest}/{index}")
        for (contest, index), problem in _as_posed(problems).items()
        if contest in ratable
    ]
    known = ContestMetadata(contests)
    solved = solved_problems(
        replace(problem, metadata=known.fill_missing(problem.id, problem.metadata)) for problem in problems
    )
    return Rating(
        tests_source=tests_source(problems) or "unknown",
        attempts=max(len(problem.correct) for problem in problems),
        contest_rating=rate_model(posed, contests, deepcoder_2024(), seed=seed)
        if any(map(_has_verdict, posed))
        else None,
        by_difficulty=rate_by_difficulty(solved, seed=seed) if solved else None,
        n_difficulties=len(solved),
    )


def _as_posed(problems: Sequence[ProblemOutcomes]) -> dict[tuple[int, str], ProblemOutcomes]:
    """Return the problems by contest and index. One that was posed in several contests stands for itself in each."""
    keys = [problem_keys_or_none(problem.id) for problem in problems]
    posed = {own[0]: problem for own, problem in zip(keys, problems, strict=True) if own}
    for others, problem in zip(keys, problems, strict=True):
        for key in others[1:]:
            posed.setdefault(key, problem)
    return posed


def _has_verdict(problem: ProblemOutcomes) -> bool:
    return problem.n > 0


def _known(value: Any) -> Any:
    """Return a value as JSON has it, with null for a number that is unknown."""
    if isinstance(value, dict):
        return {name: _known(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
