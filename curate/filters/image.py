"""A statement that needs a picture cannot be read by a text model; often the picture stood for a formula."""

import re

from curate.problem import Problem

_PLACEHOLDER = re.compile(r"<image>|\[Image\]|!\[|\\includegraphics|<img\b", re.IGNORECASE)


def image(problem: Problem) -> str | None:
    """The source counts pictures, or the statement shows where one stood."""
    return "image" if problem.n_pictures or _PLACEHOLDER.search(problem.statement) else None
