"""Tests that no solution was ever seen to pass may be wrong."""

from curate.problem import Problem


def no_reference(problem: Problem, *, keep_unpublished: bool = True) -> str | None:
    """Policy decides where a source publishes no solutions at all, not where only this row has none."""
    if problem.solutions is None:
        return None if keep_unpublished else "no_reference"
    return None if any(solution.source.strip() for solution in problem.solutions) else "no_reference"
