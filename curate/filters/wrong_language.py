"""Drop a problem whose solutions are all in languages that were not chosen or that the sandbox cannot run."""

from collections.abc import Sequence

from curate.problem import Problem
from curate.reading.solutions import candidate_solutions


def wrong_language(problem: Problem, *, languages: Sequence[str] = ("python",)) -> str | None:
    """Return "wrong_language" if there are solutions, but none can be run that is in one of the `languages`.

    A solution in C++ cannot be run if the tests call a function.
    """
    return "wrong_language" if problem.solutions and not candidate_solutions(problem, languages) else None
