"""KodCode: questions, solutions and tests that models wrote. The tests are pytest modules that import `solution`."""

from collections.abc import Iterator

from curate.problem import Problem, Rejection
from curate.reading.dialects import assertions
from curate.reading.dialects.dependencies import defined_classes
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row, TableFiles, read_rows
from curate.reading.values import ParseError, optional_text, parse_json_or_literal
from curate.sources import read_problems

TITLE = "KodCode"
HUB_ID = "KodCode/KodCode-V1"
LICENCE = "cc-by-nc-4.0"
SIZE_DESCRIPTION = "some 480,000 problems"
DEFECTS = "tests and solutions by one model, so they may share a mistake; many versions of one question"
COLUMNS = ("question", "solution")
OPTIONAL = ("question_id", "test", "test_code", "test_info", "subset", "style", "gpt_difficulty")


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table."""
    rows = read_rows(table, COLUMNS, OPTIONAL)
    return read_problems(
        "kodcode",
        rows,
        _problem,
        lambda row, unnamed: optional_text(row["question_id"]) or unnamed,
        first=table.begin.position,
    )


def _problem(id: str, row: Row) -> Problem:
    code = row["test"] or row["test_code"]  # the name in an earlier revision
    tests = assertions.read(code, classes=defined_classes(optional_text(row["solution"])))
    return Problem(
        id=id,
        source="kodcode",
        statement=optional_text(row["question"]),
        # A question to complete contains the code already.
        starter_code="" if row["style"] == "complete" else _declarations(row["test_info"]),
        tests=tests.suite(),
        n_tests_read=len(tests.cases),
        solutions=(parse_solution(optional_text(row["solution"]), "python"),),
        platform=optional_text(row["subset"]),
        difficulty=optional_text(row["gpt_difficulty"]),
        licence=LICENCE,
    )


def _declarations(encoded: object) -> str:
    try:
        functions = parse_json_or_literal(encoded, "test_info") if isinstance(encoded, str) else encoded
    except ParseError:
        return ""  # the tests name what they import, so a problem is not lost because of this
    known = [f for f in functions if isinstance(f, dict)] if isinstance(functions, list) else []
    return "\n\n".join(filter(None, (optional_text(f.get("function_declaration")).rstrip() for f in known)))
