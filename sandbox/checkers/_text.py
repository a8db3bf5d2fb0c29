"""Splitting of printed text into lines and tokens, for all checkers that preserve the line structure.

CRLF counts as LF. Blank lines and blanks at both ends of the text are ignored; blank lines inside are not. A blank is a
space, tab, vertical tab or form feed. A no-break space, a lone CR or a NUL is part of a token.

Outputs may be hostile, so all functions take linear time and do not split output much longer than expected. They split
a text block by block, since the tokens of a whole text would take thirty times its memory.
"""

import re
from collections.abc import Callable, Iterator
from itertools import zip_longest

BLANKS = " \t\v\f"
_BLANK = re.compile(rf"[{BLANKS}]")
_TOKEN = re.compile(rf"[^{BLANKS}]+")
_BLOCK_CHARS = 1 << 20  # approximate length of the blocks that are compared one by one
# An honest program adds fewer digits and blanks to the expected output.
_LENGTH_FACTOR, _LENGTH_SLACK = 64, 1 << 20


def is_much_longer(printed: str | bytes, expected: str) -> bool:
    """Return whether the stripped text has over 64 * len(expected) + 2**20 characters, which no checker accepts."""
    max_chars = _LENGTH_SLACK + _LENGTH_FACTOR * len(expected)
    return len(printed) > max_chars and len(printed.strip()) > max_chars


def split_lines(text: str) -> Iterator[str]:
    """Yield the items of text.split("\n"), with only one block of them in memory."""
    begin = 0
    while (end := text.find("\n", begin + _BLOCK_CHARS)) >= 0:
        yield from text[begin:end].split("\n")
        begin = end + 1
    yield from text[begin:].split("\n")


def normalize_text(text: str) -> str:
    """Replace each CRLF by LF, and remove blank lines and blanks at both ends."""
    return text.replace("\r\n", "\n").strip(BLANKS + "\n")


def same_tokens(printed: str, expected: str, same_token: Callable[[str, str], bool]) -> bool:
    """Return whether both texts have equally many lines, and the same tokens on each line."""
    if printed == expected:
        return True
    if is_much_longer(printed, expected):
        return False
    printed, expected = normalize_text(printed), normalize_text(expected)
    return printed.count("\n") == expected.count("\n") and all(
        line.strip(BLANKS) == other.strip(BLANKS) or same_line(line, other, same_token, _TOKEN.findall, _BLANK)
        for line, other in zip(split_lines(printed), split_lines(expected), strict=True)
    )


def same_line(
    printed: str,
    expected: str,
    same_token: Callable[[str, str], bool],
    split: Callable[[str], list[str]],
    blank: re.Pattern[str],
) -> bool:
    """Return whether both lines have equally many tokens, and each pair of tokens is the same.

    same_token   compares a printed token with the expected one
    split        splits a text into tokens
    blank        matches a blank between tokens
    """
    if len(printed) <= _BLOCK_CHARS and len(expected) <= _BLOCK_CHARS:
        tokens, expected_tokens = split(printed), split(expected)
        return len(tokens) == len(expected_tokens) and all(map(same_token, tokens, expected_tokens))
    pairs = zip_longest(_split_tokens(printed, split, blank), _split_tokens(expected, split, blank))
    return all(token is not None and other is not None and same_token(token, other) for token, other in pairs)


def _split_tokens(text: str, split: Callable[[str], list[str]], blank: re.Pattern[str]) -> Iterator[str]:
    begin = 0
    while (boundary := blank.search(text, begin + _BLOCK_CHARS)) is not None:
        yield from split(text[begin : boundary.start()])
        begin = boundary.end()
    yield from split(text[begin:])
