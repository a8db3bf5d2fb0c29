"""BAAI/TACO and TACO-verified: all columns are text; solutions and tests are JSON in such text.

Rows have no id, so a problem is named after its zero-based position: `taco/17`.
"""

import re
from collections.abc import Iterator

from curate.problem import Problem, Rejection
from curate.reading.dialects import inputs_outputs
from curate.reading.solutions import parse_solution
from curate.reading.stated_limits import limits
from curate.reading.tables import Row, TableFiles, read_rows
from curate.reading.values import ParseError, optional_text, parse_json_or_literal, parse_text_list
from curate.sources import read_problems

TITLE = "TACO"
HUB_ID = "BAAI/TACO"
LICENCE = "apache-2.0"
SIZE_DESCRIPTION = "25,443 training and 1,000 test problems"
DEFECTS = "solutions missing, wrong, in Python 2 or C++; tests empty or torn; pictures gone; several right answers"
COLUMNS = ("question", "solutions", "input_output")
OPTIONAL = "starter_code difficulty name source tags url time_limit date picture_num memory_limit".split()


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table."""
    return read_problems(
        "taco", read_rows(table, COLUMNS, OPTIONAL), _problem, by_position=True, first=table.begin.position
    )


def _problem(id: str, row: Row) -> Problem:
    tests = inputs_outputs.read(row["input_output"])
    pictures = optional_text(row["picture_num"])
    return Problem(
        id=id,
        source="taco",
        statement=optional_text(row["question"]),
        starter_code=optional_text(row["starter_code"]),
        tests=tests.suite(limits(row["time_limit"], row["memory_limit"])),
        n_tests_read=len(tests.cases),
        wrapping=tests.wrapping,
        solutions=tuple(map(parse_solution, parse_text_list(row["solutions"], "solutions"))),
        n_pictures=int(pictures) if pictures.isdecimal() else 0,
        platform=optional_text(row["source"]),
        title=optional_text(row["name"]) or _last_part(optional_text(row["url"])),
        url=optional_text(row["url"]),
        date=optional_text(row["date"]),
        difficulty=optional_text(row["difficulty"]),
        tags=_tags(row["tags"]),
        licence=LICENCE,
    )


def _tags(encoded: object) -> tuple[str, ...]:
    try:
        tags = parse_json_or_literal(encoded, "tags")
    except ParseError:
        return ()  # topics are not essential, so a problem is not lost because of them
    return tuple(map(str, tags)) if isinstance(tags, list) else ()


def _last_part(url: str) -> str:
    return re.sub(r"[?#].*", "", url).rstrip("/").rpartition("/")[2]
