"""The program in a model's answer."""

import re

_FENCE = re.compile(r"^```[ \t]*(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_PYTHON = ("python", "python3", "py")


def program(completion: str) -> str | None:
    """The last fenced block of Python, else the last one without a language; None where there is none.

    What stands before the end of a model's thinking is not its answer.
    """
    answer = completion.rpartition("</think>")[2]
    blocks: list[tuple[str, str]] = [(language.lower(), source) for language, source in _FENCE.findall(answer)]
    for wanted in (_PYTHON, ("",)):
        found = [source for language, source in blocks if language in wanted]
        if found:
            return found[-1]
    return None
