"""Codeforces problems with Codeforces' own tests: the rows of open-r1/codeforces.

Codeforces shows tests only up to a length. Where `official_tests_complete` is true, the official tests are all there
are. Elsewhere those that open-r1 generated are needed as well. They are in files apart, generated_tests/
test_cases_CONTEST.parquet, which the option `generated` names the folder of. Problems whose tests are not complete are
left out, and so are those that no program in this sandbox can be judged on: interactive ones, and those that read or
write files.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.reading.tables import Row, TableFiles
from curate.reading.values import ParseError, distinct_cases, join_lines, optional_text, shorten
from sandbox import Case
from train.evaluation.codeforces.contests import problem_key
from train.evaluation.suites.codeforces_problem import (
    GENERATED,
    OFFICIAL,
    CodeforcesProblem,
    ProblemFilter,
    format_examples,
    format_sections,
)
from train.evaluation.suites.suite import unreadable, valid_rows

COLUMNS = ("id", "description", "official_tests", "official_tests_complete")
Keys = tuple[tuple[int, str], ...]  # contests with the indices that a problem has in them
_MORE = (
    "aliases", "title", "contest_start", "time_limit", "memory_limit", "input_format", "output_format",
    "interaction_format", "note", "examples", "rating", "input_mode", "generated_checker", "executable",
    "generated_tests",
)  # fmt: skip


def is_open_r1(row: Row) -> bool:
    return bool(row["description"]) and row["official_tests_complete"] is not None


def read(table: TableFiles, problem_filter: ProblemFilter, left_out: Counter[str]) -> Iterator[CodeforcesProblem]:
    """Yield the wanted problems that can be judged, by contests, and count the reasons why the others cannot.

    Raises CurateError if the folder of generated tests is not there.
    """
    folder = _folder(table)
    wanted: list[tuple[Keys, date | None, Row]] = []
    for row in valid_rows(table, COLUMNS, _MORE):
        keys, day = _keys(row), _day(row)
        if not problem_filter.matches(keys, day):
            continue
        reason = _objection(row, folder)
        if reason:
            left_out[reason] += 1
        else:
            wanted.append((keys, day, row))
    for keys, day, row in sorted(wanted, key=lambda one: one[0]):
        try:
            yield _problem(row, keys, day, folder)
        except (ParseError, ValueError, KeyError, TypeError) as error:
            raise unreadable(table, str(row["id"]), error) from None


def _folder(table: TableFiles) -> Path | None:
    """Return the folder of the files of generated tests, if one is named."""
    if "generated" not in table.options:
        return None
    folder = Path(str(table.options["generated"])).expanduser()
    inside = folder / "generated_tests"
    folder = inside if inside.is_dir() else folder
    if not any(folder.glob("test_cases_*.parquet")):
        raise CurateError(
            f"{folder} has no test_cases_*.parquet. Download them: hf download open-r1/codeforces --repo-type dataset "
            f"--include 'generated_tests/*.parquet' --local-dir {folder}"
        )
    return folder


def _objection(row: Row, folder: Path | None) -> str:
    """Return why a problem is left out; empty: it is not."""
    if optional_text(row["interaction_format"]).strip():
        return "are interactive"
    if optional_text(row["input_mode"]) == "file":
        return "read or write files"
    if row["executable"] is False:
        return "are not executable, as open-r1 says"
    if row["official_tests_complete"]:
        return "" if row["official_tests"] else "have no tests"
    if folder is None:
        return "lack the generated tests, which ?generated=FOLDER names"
    return "" if row["generated_tests"] and _file(row, folder).is_file() else "have no generated tests"


def _keys(row: Row) -> Keys:
    return tuple(dict.fromkeys(map(problem_key, (str(row["id"]), *(row["aliases"] or ())))))


def _day(row: Row) -> date | None:
    start = row["contest_start"]
    return datetime.fromtimestamp(start, UTC).date() if start else None


def _problem(row: Row, keys: Keys, day: date | None, folder: Path | None) -> CodeforcesProblem:
    is_complete = bool(row["official_tests_complete"])
    tests = _cases(row["official_tests"] or [])
    if not is_complete and folder is not None:
        tests += _generated(_file(row, folder), str(row["id"]))
    return CodeforcesProblem(
        keys=keys,
        name=str(row["id"]),
        statement=_statement(row),
        cases=distinct_cases(tests),
        tests_source=OFFICIAL if is_complete else GENERATED,
        checker=optional_text(row["generated_checker"]),
        wall_seconds=float(row["time_limit"] or 0),
        memory_mb=float(row["memory_limit"] or 0),
        rating=int(row["rating"]) if row["rating"] else None,
        day=day,
    )


def _statement(row: Row) -> str:
    return format_sections(
        ("", optional_text(row["title"])),
        ("", optional_text(row["description"])),
        ("Input", optional_text(row["input_format"])),
        ("Output", optional_text(row["output_format"])),
        ("Examples", format_examples(_cases(row["examples"] or []))),
        ("Note", optional_text(row["note"])),
    )


def _cases(tests: list[Any]) -> tuple[Case, ...]:
    return tuple(Case(join_lines(test["input"], "an input"), join_lines(test["output"], "an output")) for test in tests)


def _file(row: Row, folder: Path) -> Path:
    return folder / f"test_cases_{problem_key(str(row['id']))[0]:04d}.parquet"


def _generated(path: Path, id: str) -> tuple[Case, ...]:
    return _cases(_of_contest(path).get(id, []))


@lru_cache(maxsize=1)  # the problems of a contest follow each other
def _of_contest(path: Path) -> dict[str, list[Row]]:
    """Return the rows of the generated tests, by the ids of the problems."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        by_problem: dict[str, list[Row]] = {}
        for row in pq.read_table(path, columns=["problem_id", "input", "output"]).to_pylist():
            by_problem.setdefault(str(row["problem_id"]), []).append(row)
        return by_problem
    except (OSError, pa.ArrowException) as error:
        raise CurateError(f"{path} cannot be read as generated tests ({shorten(error)}). Download it again.") from None
