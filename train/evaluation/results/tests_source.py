"""Where the tests of an evaluation come from, if its problems say it."""

from collections.abc import Iterable

from train.evaluation.statistics.outcomes import ProblemOutcomes


def tests_source(outcomes: Iterable[ProblemOutcomes]) -> str:
    """Return the sources, such as "examples" or "official, official+generated"; "" if no problem says it."""
    return ", ".join(sorted({problem.metadata.tests_source for problem in outcomes if problem.metadata.tests_source}))
