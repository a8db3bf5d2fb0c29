"""Rated contests, in memory and in a Parquet file, and the ids of their problems.

A contest has its problems, and its participants' scores and previous ratings, without handles.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Self

from curate.errors import CurateError
from train.evaluation.statistics.outcomes import ProblemMetadata

# The contests of DeepCoder's Codeforces rating, May to November 2024, with 408 problems.
DEEPCODER_CONTESTS = (*range(1971, 2009), *(2013, 2014), *range(2018, 2031), *(2032, 2033), *(2035, 2036))
DEEPCODER = "deepcoder"  # value of --contests for DEEPCODER_CONTESTS
_DEEPCODER_PROBLEMS = Path(__file__).with_name("deepcoder_problems.json")
_NOT_IN_DIGESTS = re.compile(r"[\W_]")  # characters that vary between copies of a statement
_TAGS = "\nTags:\n"  # heading after a statement
_PROBLEM = re.compile(r"(?:CF|codeforces)?[ _/-]*(\d+)[ _/-]*([A-Z]\d*)", re.IGNORECASE)
_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")
_MAX_CONTESTS = 10_000  # maximum number of contests in a range


@dataclass(frozen=True, slots=True)
class ContestProblem:
    """A problem of a contest.

    index   letter in the contest, such as "A" or "D2"
    points  points for an accepted first attempt; None: the contest counts solved problems and penalties
    rating  Codeforces' difficulty rating; None if unknown
    """

    index: str
    points: float | None = None
    rating: int | None = None


@dataclass(frozen=True, slots=True)
class Contest:
    """A rated contest.

    type         Codeforces' name of the rules: "CF", "ICPC" or "IOI"
    start        first day of the contest
    scores       points and penalty of each rated participant, the best first
    old_ratings  participants' ratings before the contest, in descending order; 0 for newcomers
    """

    id: int
    name: str
    type: str
    start: date
    problems: tuple[ContestProblem, ...]
    scores: tuple[tuple[float, float], ...]
    old_ratings: tuple[int, ...]

    @classmethod
    def create(
        cls,
        id: int,
        name: str,
        type: str,
        start: date,
        problems: Sequence[ContestProblem],
        scores: Sequence[tuple[float, float]],
        old_ratings: Sequence[int],
    ) -> Self:
        """Build a contest from unsorted scores and ratings. Raises CurateError if their numbers differ."""
        if len(scores) != len(old_ratings):
            raise CurateError(
                f"Contest {id} has {len(scores)} scores but {len(old_ratings)} ratings. Fetch the contest again."
            )
        best_first = sorted(scores, key=lambda score: (-score[0], score[1]))
        return cls(id, name, type, start, tuple(problems), tuple(best_first), tuple(sorted(old_ratings, reverse=True)))


def format_problem_id(keys: Sequence[tuple[int, str]]) -> str:
    """Format a problem's (contest, index) keys as an id such as codeforces/2018/A,2019/C; "" without keys."""
    return "codeforces/" + ",".join(f"{contest}/{index}" for contest, index in keys) if keys else ""


def parse_problem_key(id: str) -> tuple[int, str]:
    """Parse the contest and index of a problem's id such as 1971A, 1971/A, 1971_d2 or CF1971A.

    Raises CurateError if the id has another form.
    """
    match = _PROBLEM.fullmatch(id.strip())
    if match is None:
        raise CurateError(f"{id!r} is not the id of a Codeforces problem, such as 1971A or 1971/A.")
    return int(match[1]), match[2].upper()


def parse_problem_keys(id: str) -> list[tuple[int, str]]:
    """Parse all (contest, index) keys of a problem, the primary key first; empty for an id of another form."""
    try:
        return [parse_problem_key(part) for part in id.split(",")]
    except CurateError:
        return []


class UnmatchedProblems:
    """DeepCoder's 408 problems, without those already matched to a row of its test set.

    Rows have no ids; digests of statements identify them (deepcoder_problems.json). Problems shared by two divisions
    have the same digest, and match in the order of the file.
    """

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = {}
        for id, digest in _load_deepcoder_problems():
            self._ids.setdefault(digest, []).append(id)

    def pop_matching_id(self, text: str) -> str:
        """Remove and return the id, such as 1971A, of the problem with this text; "" without a match."""
        statement = text.partition(_TAGS)[0]
        ids = self._ids.get(hashlib.sha256(_NOT_IN_DIGESTS.sub("", statement).encode()).hexdigest()[:10])
        return ids.pop(0) if ids else ""


@cache
def _load_deepcoder_problems() -> list[tuple[str, str]]:
    return [(id, digest) for id, digest in json.loads(_DEEPCODER_PROBLEMS.read_text())]


def parse_contest_ids(text: str) -> tuple[int, ...]:
    """Parse contest numbers such as 1971,1980-1990, or "deepcoder" for DeepCoder's contests.

    Raises CurateError if the text has another form.
    """
    if text == DEEPCODER:
        return DEEPCODER_CONTESTS
    numbers: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _MAX_CONTESTS:
            raise CurateError(f"{part!r} is not the number of a contest, such as 1971, or a range, such as 1971-1980.")
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


class ContestMetadata:
    """The difficulties and dates of contest problems, for rows that lack this metadata."""

    def __init__(self, contests: Iterable[Contest]) -> None:
        self._known = {
            (contest.id, problem.index): (problem.rating, contest.start)
            for contest in contests
            for problem in contest.problems
        }

    def fill_missing(self, id: str, metadata: ProblemMetadata) -> ProblemMetadata:
        known = (self._known[key] for key in parse_problem_keys(id) if key in self._known)
        difficulty, day = next(known, (None, None))
        return replace(metadata, difficulty=metadata.difficulty or difficulty, date=metadata.date or day)


def get_default_contests_path() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "curate" / "codeforces-contests.parquet"


def write_contests(path: Path, contests: Iterable[Contest]) -> None:
    """Write the contests atomically, sorted by number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "contest": contest.id,
            "name": contest.name,
            "type": contest.type,
            "start": contest.start,
            "problems": list(map(asdict, contest.problems)),
            "points": [points for points, _ in contest.scores],
            "penalty": [penalty for _, penalty in contest.scores],
            "old_ratings": contest.old_ratings,
        }
        for contest in sorted(contests, key=lambda contest: contest.id)
    ]
    unfinished = path.with_name(path.name + ".unfinished")
    pq.write_table(pa.Table.from_pylist(rows, schema=_build_schema()), unfinished, compression="zstd")
    unfinished.replace(path)


def read_contests(path: Path) -> list[Contest]:
    """Read the contests. Raises CurateError if the file is missing or is no contests file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise CurateError(f"{path} cannot be read as a file of contests ({error}). Fetch the contests again.") from None
    if not table.schema.equals(_build_schema()):
        raise CurateError(f"{path} is not a file of contests. Fetch the contests again.")
    return [
        Contest.create(
            row["contest"],
            row["name"],
            row["type"],
            row["start"],
            [ContestProblem(**problem) for problem in row["problems"]],
            list(zip(row["points"], row["penalty"], strict=True)),
            row["old_ratings"],
        )
        for row in table.to_pylist()
    ]


def _build_schema() -> Any:
    import pyarrow as pa

    problem = pa.struct([("index", pa.string()), ("points", pa.float64()), ("rating", pa.int16())])
    return pa.schema(
        [
            ("contest", pa.int32()),
            ("name", pa.string()),
            ("type", pa.string()),
            ("start", pa.date32()),
            ("problems", pa.list_(problem)),
            ("points", pa.list_(pa.float64())),  # points of each rated participant, the best first
            ("penalty", pa.list_(pa.float64())),  # penalties, in the order of `points`
            ("old_ratings", pa.list_(pa.int16())),  # ratings in descending order, not in the order of `points`
        ]
    )
