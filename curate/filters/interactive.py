"""Drop an interactive problem, because a fixed input cannot answer a program."""

import re

from curate.problem import Problem

_SIGNS = re.compile(
    r"\bthis is an interactive\b|\binteractive problem\b|\binteract with (?:the )?(?:judge|grader|interactor)"
    r"|^\W*(?:\\(?:sub)?section\*?\{)?interaction(?: protocol)?\W*$",
    re.IGNORECASE | re.MULTILINE,
)


def interactive(problem: Problem) -> str | None:
    """Return "interactive" if the statement says that it is, or has a section called Interaction."""
    if "nteract" not in problem.statement.lower():  # part of each sign; the search would take 50 times as long
        return None
    return "interactive" if _SIGNS.search(problem.statement) else None
