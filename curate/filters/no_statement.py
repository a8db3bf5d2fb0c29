"""Drop a problem whose statement has next to no words, because nobody can tell what to solve."""

from itertools import islice

from curate.problem import Problem


def no_statement(problem: Problem) -> str | None:
    """Return "no_statement" if there are fewer than 20 letters and digits, which cannot describe a problem."""
    alphanumeric = filter(str.isalnum, problem.statement)
    return "no_statement" if sum(1 for _ in islice(alphanumeric, 20)) < 20 else None
