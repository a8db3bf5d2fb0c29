"""The fields that a record of `curate judge` may have. A mistyped one would otherwise be ignored without a word."""

import difflib
import json
from collections.abc import Iterable
from typing import Any

_REQUIRED = ("id", "code", "kind", "tests")
_OPTIONAL = (
    "fn_name",
    "time_limit_s",
    "memory_limit_mb",
    "language",
    "checker",
    "referee",
    "names",
    "given",
    "setup",
    "classes",
)
# The last ones are those of `curate export --to jsonl`.
_IGNORED = ("starter_code", "metadata", "prompt", "system_prompt", "statement", "source", "url", "licence")
_TEST = ("input", "output", "trial")
_REFEREE = ("code", "language", "convention")
# What others call the same thing, where the spelling does not show it.
_SYNONYMS = {
    "program": "code",
    "source": "code",
    "solution": "code",
    "completion": "code",
    "entry_point": "fn_name",
    "function": "fn_name",
    "lang": "language",
    "cases": "tests",
    "timeout": "time_limit_s",
    "stdin": "input",
    "expected": "output",
    "stdout": "output",
    "answer": "output",
}


def n_tests_and_fault(line: str) -> tuple[int, str | None]:
    """Return the number of tests of a record, and a sentence about its first unknown field, or None.

    A line that is not a record has no tests and no fault: judging it says what is wrong with it.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return 0, None
    if not isinstance(record, dict):
        return 0, None
    tests = record.get("tests")
    tests = [test for test in tests if isinstance(test, dict)] if isinstance(tests, list) else []
    fault = _unknown(record, (*_REQUIRED, *_OPTIONAL), ignored=_IGNORED, where="")
    for test in tests:
        fault = fault or _unknown(test, _TEST, where=" of a test")
    if isinstance(record.get("referee"), dict):
        fault = fault or _unknown(record["referee"], _REFEREE, where=" of a referee")
    return len(tests), fault


def _unknown(fields: Iterable[Any], known: tuple[str, ...], *, ignored: tuple[str, ...] = (), where: str) -> str | None:
    name = next((name for name in fields if name not in known and name not in ignored), None)
    if name is None:
        return None
    nearest = [_SYNONYMS[name]] if _SYNONYMS.get(name) in known else difflib.get_close_matches(name, known, n=1)
    question = f"Did you mean {nearest[0]!r}? " if nearest else ""
    own = " Put fields of your own under 'metadata', which is ignored." if ignored else ""
    return f"unknown field {name[:80]!r}{where}. {question}The fields are {', '.join(known)}.{own}"
