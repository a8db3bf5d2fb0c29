"""Without words there is nothing to solve."""

from curate.problem import Problem


def no_statement(problem: Problem) -> str | None:
    """Letters and digits of any script count; fewer than 20 cannot describe a problem."""
    return "no_statement" if sum(map(str.isalnum, problem.statement)) < 20 else None
