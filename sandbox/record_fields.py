"""The fields that a record may have. A mistyped one would otherwise be ignored without a word."""

import difflib
from collections.abc import Iterable, Mapping
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
IGNORED = ("starter_code", "metadata", "prompt", "system_prompt", "statement", "source", "url", "licence")
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


def check_fields(record: Mapping[str, Any]) -> None:
    """Raise ValueError for the first field of a record, its tests or its referee that does not exist."""
    _check(record, (*_REQUIRED, *_OPTIONAL), ignored=IGNORED, where="")
    tests = record.get("tests")
    for test in tests if isinstance(tests, list) else ():
        if isinstance(test, dict):
            _check(test, _TEST, where=" of a test")
    if isinstance(referee := record.get("referee"), dict):
        _check(referee, _REFEREE, where=" of a referee")


def _check(fields: Iterable[Any], known: tuple[str, ...], *, ignored: tuple[str, ...] = (), where: str) -> None:
    name = next((name for name in fields if name not in known and name not in ignored), None)
    if name is None:
        return
    nearest = [_SYNONYMS[name]] if _SYNONYMS.get(name) in known else difflib.get_close_matches(name[:80], known, n=1)
    question = f"Did you mean {nearest[0]!r}? " if nearest else ""
    own = " Put fields of your own under 'metadata', which is ignored." if ignored else ""
    raise ValueError(f"unknown field {name[:80]!r}{where}. {question}The fields are {', '.join(known)}.{own}")
