"""Drop a problem without solutions, because tests that no solution has been seen to pass may be wrong."""

from curate.problem import Problem


def no_reference(problem: Problem, *, keep_unpublished: bool = True) -> str | None:
    """Return "no_reference" if the row has no solutions.

    With keep_unpublished, a problem is kept if its source publishes no solutions for any problem.
    """
    if problem.solutions is None:
        return None if keep_unpublished else "no_reference"
    return None if any(solution.source.strip() for solution in problem.solutions) else "no_reference"
