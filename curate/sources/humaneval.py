"""HumanEval, and sets in its form, such as HumanEval+: the beginning of a function, and a check of it.

The prompt ends with the docstring that states the problem. What stands before the function, imports and helpers, is
there for the submission and for the tests; upstream, the prompt is put before what a model writes.
"""

import ast
from collections.abc import Iterator
from inspect import cleandoc

from curate.problem import Problem, Rejection
from curate.reading.dialects import assertions
from curate.reading.dialects.dependencies import parse
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row, TableFiles, read_rows
from curate.reading.values import ParseError, optional_text
from curate.sources import read_problems

TITLE = "HumanEval"
HUB_ID = "openai/openai_humaneval"
LICENCE = "mit"
SIZE_DESCRIPTION = "164 problems"
DEFECTS = "an evaluation set; few tests; some tests compare the function with itself or draw random inputs"
COLUMNS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")


def read(table: TableFiles) -> Iterator[Problem | Rejection]:
    """Yield problems in the order of the table."""
    rows = read_rows(table, COLUMNS, ())
    return read_problems(
        "humaneval",
        rows,
        _problem,
        lambda row, unnamed: optional_text(row["task_id"]).rpartition("/")[2] or unnamed,
        first=table.begin.position,
    )


def _problem(id: str, row: Row) -> Problem:
    prompt, name = optional_text(row["prompt"]), optional_text(row["entry_point"])
    given = function_preamble(prompt, name)
    beginning, statement = _beginning_and_docstring(prompt, name)
    tests = assertions.read(row["test"], name, given_code=given, classes=())
    return Problem(
        id=id,
        source="humaneval",
        statement=statement,
        starter_code=given + beginning,
        tests=tests.suite(),
        n_tests_read=len(tests.cases),
        solutions=(parse_solution(prompt + optional_text(row["canonical_solution"]), "python"),),
        title=name,
        licence=LICENCE,
    )


def function_preamble(prompt: str, name: str) -> str:
    """Return what stands before the function in a prompt. Raises ParseError."""
    return "".join(prompt.splitlines(keepends=True)[: _function(prompt, name).lineno - 1])


def _function(prompt: str, name: str) -> ast.FunctionDef:
    for node in reversed(parse(prompt, "the prompt")):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise ParseError(f"the prompt has no function {name}")


def _beginning_and_docstring(prompt: str, name: str) -> tuple[str, str]:
    function = _function(prompt, name)
    for node in function.body:
        match node:
            case ast.Expr(ast.Constant(str(text))):
                lines = prompt.splitlines(keepends=True)[function.lineno - 1 : node.lineno - 1]
                return "".join(lines), cleandoc(text)
    raise ParseError(f"the function {name} in the prompt has no docstring")
