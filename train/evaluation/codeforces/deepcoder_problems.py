"""Which problem of Codeforces a row of DeepCoder's test set is.

The rows have a statement but no id. deepcoder_problems.json has the id and a digest of the statement of each of the
408 rows, in their order. Problems that two divisions shared are there twice, with the same statement: the first of such
rows is the first problem, and so on.
"""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

_PROBLEMS = Path(__file__).with_name("deepcoder_problems.json")
_NOT_IN_DIGESTS = re.compile(r"[\W_]")  # what copies of a statement differ in
_TAGS = "\nTags:\n"  # what follows a statement


def digest_of(text: str) -> str:
    """Return the digest of the statement in a row."""
    statement = text.partition(_TAGS)[0]
    return hashlib.sha256(_NOT_IN_DIGESTS.sub("", statement).encode()).hexdigest()[:10]


class UnmatchedProblems:
    """The problems of DeepCoder's rows that no row has been yet."""

    def __init__(self) -> None:
        self._ids = {digest: list(ids) for digest, ids in _ids_by_digest().items()}

    def pop_id(self, text: str) -> str:
        """Return the id of a row's problem, such as 1971A; "" if it is none of the 408."""
        left = self._ids.get(digest_of(text))
        return left.pop(0) if left else ""


@cache
def _ids_by_digest() -> dict[str, tuple[str, ...]]:
    ids: dict[str, tuple[str, ...]] = {}
    for id, digest in json.loads(_PROBLEMS.read_text()):
        ids[digest] = (*ids.get(digest, ()), id)
    return ids
