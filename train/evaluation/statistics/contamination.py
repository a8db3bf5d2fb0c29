"""How pass@1 changes if only recent problems count.

A model may know problems that were published before it was released. So a curve that falls at its release, from left
to right, is a sign of contamination. LiveCodeBench's leaderboard shows the same curve by a slider. The curve can fall
for another reason: recent problems may be harder. The curve of a model that was released earlier shows whether they
are.
"""

from collections.abc import Iterable
from datetime import date

from train.evaluation.statistics.outcomes import ProblemOutcomes
from train.evaluation.statistics.summary import Summary, summarize


def published_since(outcomes: Iterable[ProblemOutcomes], day: date) -> tuple[ProblemOutcomes, ...]:
    """Return the problems that were published on this day or later. Problems without a date are left out."""
    return tuple(problem for problem in outcomes if problem.metadata.date is not None and problem.metadata.date >= day)


def contamination_curve(outcomes: Iterable[ProblemOutcomes]) -> dict[str, Summary]:
    """Return, for each month in which a problem was published, the summary of the problems of this month and later.

    The keys are months such as "2024-08", in their order. Problems without a date are left out.
    """
    dated = sorted(
        ((problem.metadata.date, problem) for problem in outcomes if problem.metadata.date is not None),
        key=lambda pair: pair[0],
    )
    first_days = {f"{day:%Y-%m}": day.replace(day=1) for day, _ in dated}
    problems = [problem for _, problem in dated]
    return {month: summarize(published_since(problems, day)) for month, day in first_days.items()}
