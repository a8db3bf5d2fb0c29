"""Drop a problem whose statement has next to no words, because nobody can tell what to solve."""

from curate.problem import Problem


def no_statement(problem: Problem) -> str | None:
    """Return "no_statement" if there are fewer than 20 letters and digits, which cannot describe a problem."""
    return "no_statement" if sum(map(str.isalnum, problem.statement)) < 20 else None
