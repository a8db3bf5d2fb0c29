"""Read the forms in which models write the whole number that an AIME problem asks for.

033, 33.0, 33^\\circ, \\text{33}, n = 33 and 1{,}033 are whole numbers. "33, 34" and "33 or 34" are two, and are not.
"""

import re

_LONGEST = 100  # characters; no such answer is longer
_IGNORED = re.compile(r"\\[,;:! ]|\\(?:text|mathrm|mathbf|textbf|boxed)\b|\^\\circ|\^\{\\circ\}|\\degree|°|[${}\s]")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s+(?=\d)")
_NAMED = re.compile(r"(?:\\?[A-Za-z]+(?:[+\-][A-Za-z]+)*=)?(.*)", re.DOTALL)
_NUMBER = re.compile(r"([+-]?)(\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?", re.ASCII)


def parse_integer(latex: str) -> int | None:
    """Return the one whole number that an answer is; None for everything else."""
    if len(latex) > _LONGEST:
        return None
    named = _NAMED.fullmatch(_IGNORED.sub("", _BETWEEN_DIGITS.sub(";", latex)))
    number = named and _NUMBER.fullmatch(named[1])
    return int(number[1] + number[2].replace(",", "")) if number else None
