"""References are executed as Python 3; others cannot be verified here."""

from curate.problem import Problem
from curate.solutions import candidates


def wrong_language(problem: Problem) -> str | None:
    """There are solutions, and none of them is Python 3."""
    return "wrong_language" if problem.solutions and not candidates(problem) else None
