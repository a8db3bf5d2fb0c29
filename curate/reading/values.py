"""Parsers of plain values in untrusted text, without executing it.

They raise ParseError for invalid text, which the sources turn into a rejection.
"""

import ast
import json
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sandbox import Case

# Maximum digits of an integer. Some tests exceed Python's default of 4,300, which limits the quadratic time of the
# conversion. This many digits take well under a second.
MAX_DIGITS = 200_000
_ADDRESS = re.compile(r" object at 0x[0-9a-f]+(?=>)")


class ParseError(ValueError):
    """An error for a row that must be rejected. Its message is the detail of the rejection."""

    def __init__(self, detail: str, reason: str = "unparsable") -> None:
        super().__init__(detail)
        self.reason = reason


@contextmanager
def allow_long_integers() -> Iterator[None]:
    """Allow conversions of integers of up to MAX_DIGITS digits within this context."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(MAX_DIGITS)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(before)


def parse_json(text: object, name: str) -> Any:
    """Parse JSON. name: name of the text, for error messages. Raises ParseError."""
    if not isinstance(text, str):
        raise ParseError(f"{name} is {type(text).__name__}, not text")
    try:
        with allow_long_integers():
            return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{name} is not JSON ({shorten(error)}): {shorten(text)[:60]!r}") from None


def parse_json_or_literal(text: object, name: str) -> Any:
    """Parse JSON or a Python literal. name: name of the text, for error messages. Raises ParseError."""
    try:
        return parse_json(text, name)
    except ParseError:
        if not isinstance(text, str):
            raise
    try:
        # Python warns about literals such as "\d".
        with allow_long_integers(), warnings.catch_warnings(action="ignore"):
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ParseError(f"{name} is neither JSON nor a Python literal: {shorten(error)}") from None


def dump_json(value: object, name: str) -> str:
    """Serialize a value to JSON, with tuples as lists. Raises ParseError for a value that JSON would alter."""
    try:
        _check_json_value(value)
        with allow_long_integers():
            return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParseError(f"{name} has no JSON form: {shorten(error)}") from None


def _check_json_value(value: object) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            # json.dumps would silently turn 1 into "1".
            if not isinstance(key, str):
                raise TypeError(f"a key is {type(key).__name__}, not text")
            _check_json_value(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_json_value(item)


def join_lines(value: object, name: str) -> str:
    """Return standard input or output as text. value: the text, or a list of its lines. Raises ParseError."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    raise ParseError(f"{name} is neither text nor a list of lines")


def parse_text_list(value: object, name: str) -> list[str]:
    """Return a list of texts. value: the list, its JSON, or None for an empty list. Raises ParseError."""
    content = parse_json(value, name) if value and isinstance(value, str) else value or []
    if not isinstance(content, list) or not all(isinstance(text, str) for text in content):
        raise ParseError(f"{name} is not a list of texts")
    return content


def optional_text(value: object) -> str:
    """Convert a value to text; None to an empty text."""
    return "" if value is None else str(value)


def deduplicate_cases(cases: Sequence[Case]) -> tuple[Case, ...]:
    return tuple(dict.fromkeys(cases))


def escape_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by escapes such as \\udc80."""
    return text.encode("utf-8", "backslashreplace").decode()


def shorten(error: object) -> str:
    """Format an error, or any text, as one line of at most 120 characters, without memory addresses."""
    text = _ADDRESS.sub("", str(error)[:1000])
    message = escape_surrogates(" ".join(text.split()) or type(error).__name__)
    return message if len(message) <= 120 else message[:117] + "..."
