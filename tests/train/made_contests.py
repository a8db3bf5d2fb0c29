"""Small contests for tests."""

from collections.abc import Sequence
from datetime import date

from train.evaluation.codeforces.contests import Contest, ContestProblem

DAY = date(2024, 6, 1)
SCORES = tuple((4000.0 - 10 * place, 0.0) for place in range(400))
OLD_RATINGS = tuple(2795 - 5 * place for place in range(400))


def contest(
    *problems: ContestProblem,
    id: int = 1971,
    scores: Sequence[tuple[float, float]] = SCORES,
    old_ratings: Sequence[int] = OLD_RATINGS,
) -> Contest:
    """Return a contest. Without other scores and ratings it has 400 participants, and the better rated are ahead."""
    return Contest.create(id, f"Round {id}", "CF", DAY, problems, scores, old_ratings)


def with_points(*points: float | None, id: int = 1971) -> Contest:
    """Return a contest whose problems A, B and so on have these points."""
    return contest(*(ContestProblem("ABCDEFGH"[place], value) for place, value in enumerate(points)), id=id)
