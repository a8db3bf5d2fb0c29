"""BAAI/TACO and TACO-verified: all columns are text, in JSON for solutions and tests.

Rows have no id, so a problem is named after its zero-based position: `taco/17`.
"""

import re
from functools import partial

from curate.problem import Problem
from curate.reading.dialects import json_tests
from curate.reading.solutions import parse_solution
from curate.reading.stated_limits import derive_limits
from curate.reading.tables import Row
from curate.reading.values import ParseError, optional_text, parse_json_or_literal, parse_text_list
from curate.sources import make_problem, read_problems

TITLE = "TACO"
HUB_ID = "BAAI/TACO"
LICENCE = "apache-2.0"
SIZE_DESCRIPTION = "25,443 training and 1,000 test problems"
DEFECTS = "solutions missing, wrong, in Python 2 or C++; tests missing or truncated; no images; several right answers"
COLUMNS = ("question", "solutions", "input_output")
OPTIONAL = "starter_code difficulty name source tags url time_limit date picture_num memory_limit".split()


def _parse_row(id: str, row: Row) -> Problem:
    tests = json_tests.read_columns(row["input_output"])
    pictures = optional_text(row["picture_num"])
    return make_problem(
        id,
        tests,
        tuple(map(parse_solution, parse_text_list(row["solutions"], "solutions"))),
        LICENCE,
        limits=derive_limits(row["time_limit"], row["memory_limit"]),
        statement=row["question"],
        starter_code=row["starter_code"],
        n_pictures=int(pictures) if pictures.isdecimal() else 0,
        platform=row["source"],
        title=optional_text(row["name"]) or _get_last_part(optional_text(row["url"])),
        url=row["url"],
        date=row["date"],
        difficulty=row["difficulty"],
        tags=_parse_tags(row["tags"]),
    )


def _parse_tags(encoded: object) -> object:
    try:
        return parse_json_or_literal(encoded, "tags")
    except ParseError:
        return ()  # optional


def _get_last_part(url: str) -> str:
    return re.sub(r"[?#].*", "", url).rstrip("/").rpartition("/")[2]


read = partial(read_problems, "taco", COLUMNS, OPTIONAL, _parse_row)
