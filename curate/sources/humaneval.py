"""HumanEval, and sets in its format, such as HumanEval+: the beginning of a function, and a function `check`.

The prompt ends with the docstring that states the problem. The submission and the tests can use imports and helpers
before the function, because HumanEval prepends the prompt to the completion.
"""

import ast
from functools import partial
from inspect import cleandoc

from curate.problem import Problem
from curate.reading.dialects import assertions
from curate.reading.dialects.dependencies import parse
from curate.reading.solutions import parse_solution
from curate.reading.tables import Row
from curate.reading.values import ParseError, optional_text
from curate.sources import make_problem, read_problems

TITLE = "HumanEval"
HUB_ID = "openai/openai_humaneval"
LICENCE = "mit"
SIZE_DESCRIPTION = "164 problems"
DEFECTS = "an evaluation set; few tests; some tests compare the function with itself or draw random inputs"
COLUMNS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")


def _parse_row(id: str, row: Row) -> Problem:
    prompt, name = optional_text(row["prompt"]), optional_text(row["entry_point"])
    function, lines = _find_function(prompt, name), prompt.splitlines(keepends=True)
    preamble = "".join(lines[: function.lineno - 1])
    for docstring in function.body:
        match docstring:
            case ast.Expr(ast.Constant(str(statement))):
                break
    else:
        raise ParseError(f"the function {name} in the prompt has no docstring")
    tests = assertions.read(row["test"], name, preamble=preamble, classes=())
    return make_problem(
        id,
        tests,
        (parse_solution(prompt + optional_text(row["canonical_solution"]), "python"),),
        LICENCE,
        statement=cleandoc(statement),
        starter_code="".join(lines[: docstring.lineno - 1]),
        title=name,
    )


def extract_preamble(prompt: str, name: str) -> str:
    """Return the code before the function in a prompt. Raises ParseError."""
    return "".join(prompt.splitlines(keepends=True)[: _find_function(prompt, name).lineno - 1])


def _find_function(prompt: str, name: str) -> ast.FunctionDef:
    for node in reversed(parse(prompt, "the prompt")):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise ParseError(f"the prompt has no function {name}")


def get_task_number(row: Row, default_name: str) -> str:
    """Return `17` for the row `HumanEval/17`; `default_name` for a row without a name."""
    return optional_text(row["task_id"]).rpartition("/")[2] or default_name


read = partial(read_problems, "humaneval", COLUMNS, (), _parse_row, name=get_task_number)
