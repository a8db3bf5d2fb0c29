"""Contests by their numbers."""

import re

from curate.errors import CurateError

# The contests whose 408 problems DeepCoder's Codeforces rating was measured on: May to November 2024.
DEEPCODER_CONTESTS = (
    *range(1971, 2009),
    *(2013, 2014),
    *range(2018, 2031),
    *(2032, 2033),
    *(2035, 2036),
)
DEEPCODER = "deepcoder"  # the name of these contests
_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
_MOST = 10_000  # contests in a range


def parse_contest_ids(text: str) -> tuple[int, ...]:
    """Return the numbers in a text such as 1971,1980-1990, or those of DeepCoder's contests for its name.

    Raises CurateError if the text has another form.
    """
    if text == DEEPCODER:
        return DEEPCODER_CONTESTS
    numbers: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _MOST:
            raise CurateError(f"{part!r} is not the number of a contest, such as 1971, or a range, such as 1971-1980.")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))
