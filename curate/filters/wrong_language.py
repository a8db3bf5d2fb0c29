"""References are executed; those in a language that was not chosen, or that nobody here can run, are not."""

from collections.abc import Sequence

from curate.problem import Problem
from curate.reading.solutions import candidates


def wrong_language(problem: Problem, *, languages: Sequence[str] = ("python",)) -> str | None:
    """There are solutions, and none of them is in one of the `languages`. Functions of C++ cannot be called."""
    return "wrong_language" if problem.solutions and not candidates(problem, languages) else None
