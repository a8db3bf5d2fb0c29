"""Drop a problem that needs a picture, often that of a formula, because a text model cannot see it."""

import re

from curate.problem import Problem

_PLACEHOLDER = re.compile(r"<image>|\[Image\]|!\[|\\includegraphics|<img\b", re.IGNORECASE)


def image(problem: Problem) -> str | None:
    """Return "image" if the source says that there are pictures, or the statement shows where one was."""
    return "image" if problem.n_pictures or _PLACEHOLDER.search(problem.statement) else None
