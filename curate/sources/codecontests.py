"""DeepMind CodeContests as Parquet: tests and solutions are structs of lists, languages and sites are numbers.

Names are unique only within a site, so ids contain both: `codecontests/codeforces/76_B. Mice`.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from curate.problem import Problem
from curate.reading.dialects import ParsedTests
from curate.reading.stated_limits import derive_limits
from curate.reading.tables import Row
from curate.reading.values import ParseError, deduplicate_cases, join_lines, optional_text, shorten
from curate.sources import make_problem, read_problems
from sandbox import Case, Program

TITLE = "CodeContests"
HUB_ID = "deepmind/code_contests"
LICENCE = "cc-by-4.0"
SIZE_DESCRIPTION = "13,328 training, 117 validation and 165 test problems"
DEFECTS = "images and formulas missing; several right answers; generated tests outside the stated bounds; file input"
COLUMNS = ("name", "description", "public_tests", "private_tests", "generated_tests", "solutions")
OPTIONAL = (
    "source difficulty cf_contest_id cf_index cf_rating cf_tags time_limit memory_limit_bytes input_file output_file"
).split()

_SITES = {1: "codechef", 2: "codeforces", 3: "hackerearth", 4: "codejam", 5: "atcoder", 6: "aizu", 7: "aizu"}
_LANGUAGES = {1: "python2", 2: "cpp", 3: "python", 4: "java"}
_DIFFICULTIES = dict(enumerate("EASY MEDIUM HARD HARDER HARDEST EXTERNAL A B C D E F G H I J K".split(), start=1))


def _get_site(row: Row) -> str:
    return _look_up(_SITES, row["source"]) or "unknown"


def _get_name(row: Row, default_name: str) -> str:
    return f"{_get_site(row)}/{optional_text(row['name']) or default_name}"


def _parse_row(id: str, row: Row) -> Problem:
    if files := [name for name in map(optional_text, (row["input_file"], row["output_file"])) if name]:
        raise ParseError(f"reads or writes files: {shorten(', '.join(files))}", "file_io")
    site = _get_site(row)
    public = _parse_cases(row["public_tests"], "public_tests")
    others = _parse_cases(row["private_tests"], "private_tests") + _parse_cases(
        row["generated_tests"], "generated_tests"
    )
    contest, index, rating = row["cf_contest_id"], optional_text(row["cf_index"]), row["cf_rating"]
    on_codeforces = site == "codeforces" and contest and index
    rated = isinstance(rating, int) and rating > 0
    return make_problem(
        id,
        ParsedTests(tuple(public + others)),
        _parse_solutions(row["solutions"]),
        LICENCE,
        limits=derive_limits(_format_seconds(row["time_limit"]), _format_megabytes(row["memory_limit_bytes"])),
        n_public_tests=len(deduplicate_cases(public)),
        statement=row["description"],
        platform=site,
        title=row["name"],
        url=f"https://codeforces.com/problemset/problem/{contest}/{index}" if on_codeforces else "",
        # The scale of `difficulty` depends on the site, so a Codeforces rating takes precedence.
        difficulty=rating if rated else _look_up(_DIFFICULTIES, row["difficulty"]),
        tags=row["cf_tags"],
    )


def _look_up(names: dict[int, str], number: object) -> str:
    return names.get(number, "") if isinstance(number, int) else ""


def _iter_pairs(struct: object, names: tuple[str, str], name: str) -> Iterator[tuple[Any, Any]]:
    first, second = (struct.get(key) for key in names) if isinstance(struct, dict) else (None, None)
    if not isinstance(first, list) or not isinstance(second, list) or len(first) != len(second):
        raise ParseError(f"{name} has no {names[0]} and {names[1]} of one length")
    return zip(first, second, strict=True)


def _parse_cases(struct: object, name: str) -> list[Case]:
    if struct is None:
        return []
    pairs = _iter_pairs(struct, ("input", "output"), name)
    return [Case(join_lines(stdin, "an input"), join_lines(stdout, "an output")) for stdin, stdout in pairs]


def _parse_solutions(struct: object) -> tuple[Program, ...]:
    """Return the solutions in their stated languages, which are reliable because the sites ran them."""
    if struct is None:
        return ()
    pairs = _iter_pairs(struct, ("language", "solution"), "solutions")
    return tuple(Program(optional_text(source), _look_up(_LANGUAGES, number) or "unknown") for number, source in pairs)


def _format_seconds(limit: object) -> str:
    """Return a time limit such as {"seconds": 2, "nanos": 500000000} as text. Either value may be missing."""
    if not isinstance(limit, dict):
        return ""
    parts = [limit.get(name) or 0 for name in ("seconds", "nanos")]
    if not all(isinstance(part, int) and 0 <= part < 10**12 for part in parts):
        return ""
    return f"{parts[0] + parts[1] / 1e9:f} seconds"


def _format_megabytes(limit: object) -> str:
    return f"{limit // 2**20} MB" if isinstance(limit, int) and limit > 0 else ""


read = partial(read_problems, "codecontests", COLUMNS, OPTIONAL, _parse_row, name=_get_name)
