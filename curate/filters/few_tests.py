"""Drop a problem with too few tests, because a program that has memorised their answers would pass."""

from curate.problem import Problem


def few_tests(problem: Problem, *, at_least: int = 5) -> str | None:
    """Return "few_tests" if there are too few distinct tests. Readers have already removed repetitions."""
    return "few_tests" if len(problem.tests.cases) < at_least else None
