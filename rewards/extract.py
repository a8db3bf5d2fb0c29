"""The program in a model's answer.

Thoughts are not looked at; thought.py says what they are. fences.py says what a fenced block is. Of the blocks in the
answer, the program is the last one that is named Python, else the last one without a language. Two kinds of blocks are
passed over if there is another one: sessions, whose first line begins with `>>>`, `In [1]:` or `$`, and samples of
input or output, which define nothing and call nothing. So an example below a program does not hide it.

The choice does not depend on what the programs do. One that is wrong or does not compile still hides those before it,
so an answer with several programs is judged by the last of them, which a reader would take. An unclosed block is the
beginning of a program, not a program.
"""

import re

from rewards.fences import PYTHON, blocks
from rewards.thought import behind_thought

_SESSION = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\n)*+[ \t]*+(?:>>>|\$[ \t]|In[ ]\[\d++\]:)")
_DOES = re.compile(r"\b(?:def|class|lambda|import)\b|\w[ \t]*+\(")


def program_in(answer: str) -> str | None:
    """Source of the program; None: there is none. Takes linear time on any text."""
    said = behind_thought(answer, lambda text: any(_is_program(source) for source in _sources(text)))
    if said is None:
        return None
    sources = _sources(said)
    return next((source for source in sources if _is_program(source)), sources[0] if sources else None)


def _sources(text: str) -> list[str]:
    """The blocks that may be Python, from the last to the first; those that are named Python come before all others."""
    found = [block for block in reversed(blocks(text)) if not block.language or block.language in PYTHON]
    return [block.source for block in sorted(found, key=lambda block: not block.language)]


def _is_program(source: str) -> bool:
    return _DOES.search(source) is not None and _SESSION.match(source) is None
