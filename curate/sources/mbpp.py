"""MBPP: a sentence, a function, and lists of assertions. Its sanitized config and MBPP+ name some columns differently.

MBPP+ has more tests in the column `test`, one program that includes the assertions of `test_list`.
"""

import ast
from functools import partial

from curate.problem import Problem
from curate.reading.dialects import assertions
from curate.reading.dialects.dependencies import find_defined_classes, find_defined_names, parse_definitions
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row
from curate.reading.values import optional_text, parse_text_list
from curate.sources import make_problem, read_problems
from curate.sources.humaneval import get_task_number

TITLE = "MBPP"
HUB_ID = "google-research-datasets/mbpp"
LICENCE = "cc-by-4.0"
SIZE_DESCRIPTION = "974 problems, 427 of them sanitized; MBPP+ has 378"
DEFECTS = "three tests, but a hundred in MBPP+; incomplete statements; it is used as an evaluation set"
COLUMNS = ("task_id", "code", "test_list")
OPTIONAL = ("text", "prompt", "test_setup_code", "test_imports", "challenge_test_list", "test")


def _parse_row(id: str, row: Row) -> Problem:
    code = optional_text(row["code"]).replace("\r\n", "\n")
    setup = [optional_text(row["test_setup_code"]), *parse_text_list(row["test_imports"], "test_imports")]
    listed = [
        *parse_text_list(row["test_list"], "test_list"),
        *parse_text_list(row["challenge_test_list"], "challenge_test_list"),
    ]
    tests = assertions.read(
        optional_text(row["test"]) or listed,
        setup="\n".join(setup),
        defined_names=find_defined_names(code),
        classes=find_defined_classes(code),
    )
    assert tests.assertions is not None
    headers = [
        f"def {node.name}({ast.unparse(node.args)}):\n    ..."
        for node in parse_definitions(code)
        if isinstance(node, ast.FunctionDef) and node.name in tests.assertions.names
    ]
    return make_problem(
        id,
        tests,
        (parse_solution(code, "python"),),
        LICENCE,
        statement=optional_text(row["text"]) or row["prompt"],
        starter_code="\n\n".join(headers),
    )


read = partial(read_problems, "mbpp", COLUMNS, OPTIONAL, _parse_row, name=get_task_number)
