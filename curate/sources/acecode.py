"""AceCode: questions and lists of assertions that models wrote. There are no solutions that its authors vouch for."""

from collections.abc import Iterator

from curate.problem import Problem, Rejection
from curate.reading.dialects import assertions
from curate.reading.tables import Row, TableFiles, read_rows
from curate.reading.values import optional_text, parse_text_list
from curate.sources import read_problems

TITLE = "AceCode"
HUB_ID = "TIGER-Lab/AceCode-87K"
LICENCE = "mit"
SIZE_DESCRIPTION = "87,149 problems"
DEFECTS = "no solutions, so nothing is verified; tests by a model, of which those that another one failed were removed"
COLUMNS = ("question", "test_cases")
OPTIONAL = ("id", "source")


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table."""
    rows = read_rows(table, COLUMNS, OPTIONAL)
    return read_problems(
        "acecode", rows, _problem, lambda row, unnamed: optional_text(row["id"]) or unnamed, first=table.begin.position
    )


def _problem(id: str, row: Row) -> Problem:
    tests = assertions.read(parse_text_list(row["test_cases"], "test_cases"))
    return Problem(
        id=id,
        source="acecode",
        statement=optional_text(row["question"]),
        tests=tests.suite(),
        n_tests_read=len(tests.cases),
        solutions=None,
        platform=optional_text(row["source"]),
        licence=LICENCE,
    )
