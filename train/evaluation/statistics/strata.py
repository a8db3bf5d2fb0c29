"""A summary for each difficulty, platform or month."""

from collections.abc import Callable, Iterable

from train.evaluation.statistics.outcomes import ProblemMetadata, ProblemOutcomes
from train.evaluation.statistics.summary import Summary, summarize

StratumKey = Callable[[ProblemMetadata], str | int | None]

STRATUM_KEYS: dict[str, StratumKey] = {
    "difficulty": lambda facts: facts.difficulty,
    "platform": lambda facts: facts.platform,
    "month": lambda facts: facts.month,
}
UNKNOWN = "unknown"  # the name of the problems for which the fact is not known
_EASIEST_FIRST = ("introductory", "easy", "interview", "medium", "competition", "hard")


def strata(outcomes: Iterable[ProblemOutcomes], fact: StratumKey) -> dict[str, Summary]:
    """Return the summary of the problems for each value of a fact.

    fact: one of FACTS, or another function that groups problems by their facts.
    Difficulties come from easy to hard, other values in their own order, and problems without the fact at the end.
    """
    groups: dict[str | int | None, list[ProblemOutcomes]] = {}
    for problem in outcomes:
        groups.setdefault(fact(problem.metadata), []).append(problem)
    return {
        UNKNOWN if value is None else str(value): summarize(groups[value]) for value in sorted(groups, key=_position)
    }


def _position(value: str | int | None) -> tuple[int, int, str]:
    if value is None:
        return (3, 0, "")
    if isinstance(value, int):
        return (0, value, "")
    if value.lower() in _EASIEST_FIRST:
        return (1, _EASIEST_FIRST.index(value.lower()), value)
    return (2, 0, value)
