"""The program in a model's answer: its last fenced block of Python."""

import re
import textwrap

_OPENS = re.compile(
    r"\s*+(?:<answer>\s*+)?```++[ \t]*+([\w+#.-]*+)[^`]*+\Z"
)  # never goes back: linear time on any line
_NEW_LINE = re.compile(r"\r\n|\r|\n")
_PYTHON = {"python", "python3", "py"}
_THOUGHT_ENDS = "</think>"
_THOUGHT_BEGINS = "<think>"
_ANSWER_ENDS = "</answer>"


def program_in(answer: str) -> str | None:
    """Source of the last block fenced as Python, else of the last one fenced without a language; None: there is none.

    What was thought before the answer (`<think>...</think>`, whose beginning often stands in the prompt) is not
    looked at, and neither is a block that nobody closed: it is the beginning of a program, not a program. Takes
    linear time on any text.
    """
    said = behind_thought(answer)
    if said is None:
        return None
    blocks = _fenced(said)
    named = [source for language, source in blocks if language in _PYTHON]
    unnamed = [source for language, source in blocks if not language]
    return next(reversed(named or unnamed), None)


def behind_thought(answer: str) -> str | None:
    """The answer without what was thought before it; None: the thought has no end."""
    _, ended, said = answer.rpartition(_THOUGHT_ENDS)
    return None if not ended and _THOUGHT_BEGINS in said else said


def _fenced(text: str) -> list[tuple[str, str]]:
    """(language, source) of each closed block, in order."""
    blocks = []
    language: str | None = None
    lines: list[str] = []
    for line in _NEW_LINE.split(text):  # as Python has them: splitlines() knows others, which may stand in literals
        opens = _OPENS.match(line)
        if language is None or (opens and opens[1]):  # a language inside a block: the block before was never closed
            if opens:
                language, lines = opens[1].lower(), []
        elif (last := line.rstrip().removesuffix(_ANSWER_ENDS).rstrip()).endswith("```"):
            lines.append(last.rstrip("`"))  # some write the fence behind the last line of the program
            blocks.append((language, textwrap.dedent("\n".join(lines)).strip("\n") + "\n"))
            language = None
        else:
            lines.append(line)
    return [(name, source) for name, source in blocks if source.strip()]
