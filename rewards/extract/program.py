"""The program in a model's answer.

What the model only thought is ignored (see thought.py). Of the fenced blocks in the answer (see fences.py), the program
is the last one that is named Python or, if there is none, the last one without a language. Two kinds of blocks are
passed over if there is another one, so that an example below a program does not hide it: interactive sessions, whose
first line begins with `>>>`, `In [1]:` or `$`, and samples of input or output, which define nothing and call nothing.

The choice does not depend on what the programs do. If an answer contains several programs, the last one is judged, as a
reader would take it, even if it is wrong or does not compile. An unclosed block is the beginning of a program, not a
program.
"""

import re

from rewards.extract.fences import PYTHON, blocks
from rewards.extract.thought import without_thoughts

__all__ = ["program_in"]

_SESSION = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\n)*+[ \t]*+(?:>>>|\$[ \t]|In[ ]\[\d++\]:)")
_DEFINES_OR_CALLS = re.compile(r"\b(?:def|class|lambda|import)\b|\w[ \t]*+\(")


def program_in(answer: str) -> str | None:
    """Return the source of the program in an answer, or None if there is no program. Takes linear time on any text."""
    text = without_thoughts(answer, lambda text: any(_is_program(source) for source in _candidates(text)))
    if text is None:
        return None
    candidates = _candidates(text)
    return next((source for source in candidates if _is_program(source)), candidates[0] if candidates else None)


def _candidates(text: str) -> list[str]:
    """Return the blocks that may be Python: those named Python, then those without a name, each from last to first."""
    candidates = [block for block in reversed(blocks(text)) if not block.language or block.language in PYTHON]
    return [block.source for block in sorted(candidates, key=lambda block: not block.language)]


def _is_program(source: str) -> bool:
    return _DEFINES_OR_CALLS.search(source) is not None and _SESSION.match(source) is None
