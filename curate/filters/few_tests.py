"""Few tests let a program that memorised them pass."""

from curate.problem import Problem


def few_tests(problem: Problem, *, at_least: int = 5) -> str | None:
    """Distinct (input, expected) pairs count: readers remove repetitions."""
    return "few_tests" if len(problem.tests.cases) < at_least else None
