"""An interactive problem answers back; a fixed input cannot."""

import re

from curate.problem import Problem

_SIGNS = re.compile(
    r"\bthis is an interactive\b|\binteractive problem\b|\binteract with (?:the )?(?:judge|grader|interactor)"
    r"|^\W*(?:\\(?:sub)?section\*?\{)?interaction(?: protocol)?\W*$",
    re.IGNORECASE | re.MULTILINE,
)


def interactive(problem: Problem) -> str | None:
    """The statement says so, or has a section called Interaction."""
    return "interactive" if _SIGNS.search(problem.statement) else None
