"""BAAI/TACO and TACO-verified: every column is text; solutions and tests are JSON inside it.

Rows have no id, so a problem is called after its zero-based position: `taco/17`.
"""

import re
from collections.abc import Iterator
from typing import Any

from curate.limits import limits
from curate.parsing import Unparsable, distinct, json_text, json_value, lines, optional_text, python_value, short
from curate.problem import Problem, Rejection, Wrapping
from curate.solutions import unfence
from curate.tables import Table, Unreadable, read_rows
from sandbox import Case, Suite

TITLE = "TACO"
HUB_ID = "BAAI/TACO"
LICENCE = "apache-2.0"
COLUMNS = ("question", "solutions", "input_output")
OPTIONAL = [
    "starter_code",
    "difficulty",
    "name",
    "source",
    "tags",
    "url",
    "time_limit",
    "date",
    "picture_num",
    "memory_limit",
]


def read(table: Table) -> Iterator[Problem | Rejection]:
    """Problems in the order of the table."""
    for position, row in enumerate(read_rows(table, COLUMNS, OPTIONAL)):
        id = f"taco/{position}"
        if isinstance(row, Unreadable):
            yield Rejection(id, "taco", "parse", "unparsable", f"{row.place}: {row.detail}")
            continue
        try:
            yield _problem(id, row)
        except Unparsable as error:
            yield Rejection(id, "taco", "parse", "unparsable", str(error))


def _problem(id: str, row: dict[str, Any]) -> Problem:
    cases, entry_point, wrapping = _tests(row["input_output"])
    pictures = optional_text(row["picture_num"])
    return Problem(
        id=id,
        source="taco",
        statement=optional_text(row["question"]),
        starter_code=optional_text(row["starter_code"]),
        tests=Suite(
            distinct(cases),
            entry_point=entry_point,
            checker="exact" if entry_point else "lcb",
            limits=limits(row["time_limit"], row["memory_limit"]),
        ),
        n_tests_read=len(cases),
        wrapping=wrapping,
        solutions=tuple(unfence(solution) for solution in _solutions(row["solutions"])),
        n_pictures=int(pictures) if pictures.isdecimal() else 0,
        platform=optional_text(row["source"]),
        title=optional_text(row["name"]) or _last_part(optional_text(row["url"])),
        url=optional_text(row["url"]),
        date=optional_text(row["date"]),
        difficulty=optional_text(row["difficulty"]),
        tags=_tags(row["tags"]),
        licence=LICENCE,
    )


def _tests(encoded: object) -> tuple[list[Case], str | None, Wrapping]:
    content = encoded if isinstance(encoded, dict) else json_value(encoded, "input_output")
    if not isinstance(content, dict) or not {"inputs", "outputs"} <= content.keys():
        raise Unparsable("input_output has no inputs and outputs")
    inputs, outputs, entry_point = content["inputs"], content["outputs"], content.get("fn_name") or None
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise Unparsable("inputs and outputs are not lists of one length")  # padding them would invent tests
    if entry_point is None:
        pairs = zip(inputs, outputs, strict=True)
        return [Case(lines(i, "an input"), lines(o, "an output")) for i, o in pairs], None, Wrapping.NONE
    if not isinstance(entry_point, str) or not entry_point.isidentifier():
        raise Unparsable(f"fn_name is no name of a function: {short(entry_point)}")
    if not all(isinstance(arguments, list) for arguments in inputs):
        raise Unparsable("the input of a call is not a list of arguments")
    cases = [Case(json_text(i, "an input"), json_text(o, "an output")) for i, o in zip(inputs, outputs, strict=True)]
    # codewars' rows wrap each expected value in a list, leetcode's do not; no column says which.
    wrapped = bool(outputs) and all(isinstance(output, list) and len(output) == 1 for output in outputs)
    return cases, entry_point, Wrapping.UNDECIDED if wrapped else Wrapping.NONE


def _solutions(encoded: object) -> list[str]:
    content = json_value(encoded, "solutions") if encoded and isinstance(encoded, str) else encoded or []
    if not isinstance(content, list) or not all(isinstance(solution, str) for solution in content):
        raise Unparsable("solutions is not a list of texts")
    return content


def _tags(encoded: object) -> tuple[str, ...]:
    try:
        tags = python_value(encoded, "tags")
    except Unparsable:
        return ()  # topics are decoration: no reason to lose a problem
    return tuple(map(str, tags)) if isinstance(tags, list) else ()


def _last_part(url: str) -> str:
    return re.sub(r"[?#].*", "", url).rstrip("/").rpartition("/")[2]
