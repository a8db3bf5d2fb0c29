"""MBPP: a sentence, a function, and lists of assertions. Its sanitized config and MBPP+ name some columns differently.

MBPP+ has many more tests, as one program in the column `test`, which contains the assertions of `test_list`.
"""

from collections.abc import Iterator

from curate.problem import Problem, Rejection
from curate.reading.dialects import assertions
from curate.reading.dialects.dependencies import defined_classes, defined_names
from curate.reading.signature import function_headers
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row, TableFiles, read_rows
from curate.reading.values import optional_text, parse_text_list
from curate.sources import read_problems

TITLE = "MBPP"
HUB_ID = "google-research-datasets/mbpp"
LICENCE = "cc-by-4.0"
SIZE_DESCRIPTION = "974 problems, 427 of them sanitized; MBPP+ has 378"
DEFECTS = "three tests, but a hundred in MBPP+; statements that say too little; it is used as an evaluation set"
COLUMNS = ("task_id", "code", "test_list")
OPTIONAL = ("text", "prompt", "test_setup_code", "test_imports", "challenge_test_list", "test")


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table."""
    rows = read_rows(table, COLUMNS, OPTIONAL)
    return read_problems(
        "mbpp",
        rows,
        _problem,
        lambda row, unnamed: optional_text(row["task_id"]).rpartition("/")[2] or unnamed,
        first=table.begin.position,
    )


def _problem(id: str, row: Row) -> Problem:
    code = optional_text(row["code"]).replace("\r\n", "\n")
    setup = [optional_text(row["test_setup_code"]), *parse_text_list(row["test_imports"], "test_imports")]
    listed = [
        *parse_text_list(row["test_list"], "test_list"),
        *parse_text_list(row["challenge_test_list"], "challenge_test_list"),
    ]
    tests = assertions.read(
        optional_text(row["test"]) or listed,
        setup="\n".join(setup),
        defined_names=defined_names(code),
        classes=defined_classes(code),
    )
    assert tests.assertions is not None
    return Problem(
        id=id,
        source="mbpp",
        statement=optional_text(row["text"]) or optional_text(row["prompt"]),
        starter_code=function_headers(code, tests.assertions.names),
        tests=tests.suite(),
        n_tests_read=len(tests.cases),
        solutions=(parse_solution(code, "python"),),
        licence=LICENCE,
    )
