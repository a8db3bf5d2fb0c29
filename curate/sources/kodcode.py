"""KodCode: questions, solutions and tests that models wrote. The tests are pytest modules that import `solution`."""

from functools import partial

from curate.problem import Problem
from curate.reading.dialects import assertions
from curate.reading.dialects.dependencies import find_defined_classes
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row
from curate.reading.values import ParseError, optional_text, parse_json_or_literal
from curate.sources import make_problem, read_problems

TITLE = "KodCode"
HUB_ID = "KodCode/KodCode-V1"
LICENCE = "cc-by-nc-4.0"
SIZE_DESCRIPTION = "some 480,000 problems"
DEFECTS = "one model wrote tests and solutions, so they may share a mistake; many versions of a question"
COLUMNS = ("question", "solution")
OPTIONAL = ("question_id", "test", "test_code", "test_info", "subset", "style", "gpt_difficulty")


def _parse_row(id: str, row: Row) -> Problem:
    code = row["test"] or row["test_code"]  # the name of the column in an earlier revision
    tests = assertions.read(code, classes=find_defined_classes(optional_text(row["solution"])))
    # The question already contains the code to complete.
    starter_code = "" if row["style"] == "complete" else _parse_declarations(row["test_info"])
    return make_problem(
        id,
        tests,
        (parse_solution(optional_text(row["solution"]), "python"),),
        LICENCE,
        statement=row["question"],
        starter_code=starter_code,
        platform=row["subset"],
        difficulty=row["gpt_difficulty"],
    )


def _parse_declarations(encoded: object) -> str:
    try:
        functions = parse_json_or_literal(encoded, "test_info") if isinstance(encoded, str) else encoded
    except ParseError:
        return ""  # optional, because the imports of the tests name the functions
    known = [f for f in functions if isinstance(f, dict)] if isinstance(functions, list) else []
    return "\n\n".join(filter(None, (optional_text(f.get("function_declaration")).rstrip() for f in known)))


read = partial(read_problems, "kodcode", COLUMNS, OPTIONAL, _parse_row, name="question_id")
