"""Printed text as lines and tokens: shared by the checkers that keep the line structure.

CRLF is LF; blank lines and blanks at both ends of the text do not count; blank lines inside do. A blank is a
space, tab, vertical tab or form feed: a no-break space, a lone CR or a NUL is part of a token.

The printed text is the cheat's to choose, up to the output limit. So time is linear in the texts, and printed
text is taken apart only into as many pieces as the expected text has.
"""

import re
from collections.abc import Callable

BLANKS = " \t\v\f"
_BLANK_RUN = re.compile(rf"[{BLANKS}]+")


def lines(printed: str, expected: str) -> tuple[list[str], list[str]] | None:
    """Both texts as lines; None where there are not equally many, before a flood of lines is taken apart."""
    printed, expected = _trimmed(printed), _trimmed(expected)
    if printed.count("\n") != expected.count("\n"):
        return None
    return printed.split("\n"), expected.split("\n")


def same_tokens(printed: str, expected: str, same_token: Callable[[str, str], bool]) -> bool:
    """Equally many lines, on each line equally many tokens, and each pair of tokens the same."""
    if printed == expected:
        return True
    pair = lines(printed, expected)
    return pair is not None and all(
        ours == theirs or _same_line(ours, theirs, same_token) for ours, theirs in zip(*pair, strict=True)
    )


def _same_line(printed: str, expected: str, same_token: Callable[[str, str], bool]) -> bool:
    theirs = _BLANK_RUN.split(expected.strip(BLANKS))
    # One split more than expected shows that there are too many; a flood of tokens never becomes a list.
    ours = _BLANK_RUN.split(printed.strip(BLANKS), maxsplit=len(theirs))
    return len(ours) == len(theirs) and all(map(same_token, ours, theirs))


def _trimmed(text: str) -> str:
    return text.replace("\r\n", "\n").strip(BLANKS + "\n")
