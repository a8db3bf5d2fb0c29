"""Parse a condition, and decide whether a row fulfils it."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from curate.errors import CurateError
from curate.expressions.compiler import ConditionCompiler, InvalidExpression
from curate.expressions.functions import Counts
from curate.expressions.row_values import SUITE, SUITE_VALUES, TypedExpression
from curate.problem import COLUMNS
from sandbox import Suite


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a row.

    text: the condition as it was written
    names: names of the values that it uses
    models: the models whose solve rates it uses
    term: the compiled condition, which is true or false
    """

    text: str
    names: frozenset[str]
    models: frozenset[str]
    expression: TypedExpression

    @property
    def columns(self) -> frozenset[str]:
        """The columns that a row must have to be examined."""
        own = self.names & COLUMNS.keys()
        return own | {"id"} | ({"tests"} if self.names & SUITE_VALUES.keys() else set())

    def evaluate(self, row: Mapping[str, Any]) -> bool | None:
        """Return whether the row, with these columns, fulfils the condition; None if the answer is not known."""
        if self.names & SUITE_VALUES.keys() and SUITE not in row:
            row = {**row, SUITE: Suite.from_json(row["tests"])}
        holds: bool | None = self.expression.evaluate(row)
        return holds


def parse(text: str, models: tuple[str, ...] = (), counts: Counts | None = None) -> Condition:
    """Parse a condition. Raises CurateError, with the position, if it cannot be understood.

    models: the models that were sampled on the dataset
    counts: (judged samples, correct samples) by problem and model
    """
    if not text.strip():
        raise CurateError("the condition is empty. Give one such as: verified and n_tests >= 8")
    compiler = ConditionCompiler(models, counts or {})
    try:
        # In brackets, a condition may have several lines. Positions are counted from the first bracket on.
        tree = ast.parse(f"({text}\n)", mode="eval")
        term = compiler.condition(tree.body)
    except SyntaxError as error:
        line, column = error.lineno or 1, error.offset or 1
        raise _wrong(text, line, column, f"not an expression ({error.msg})") from None
    except InvalidExpression as error:
        line = getattr(error.node, "lineno", 1)
        before = f"({text}\n)".splitlines()[line - 1].encode()[: getattr(error.node, "col_offset", 0)]
        raise _wrong(text, line, len(before.decode(errors="ignore")) + 1, str(error)) from None
    except (ValueError, RecursionError, MemoryError):
        raise CurateError(f"condition {text[:200]}: not an expression that can be read.") from None
    return Condition(text, frozenset(compiler.used), frozenset(compiler.models), term)


def _wrong(text: str, line: int, column: int, reason: str) -> CurateError:
    if line == 1:
        column -= 1  # the bracket that was put in front of the text
    n_lines = max(len(text.splitlines()), 1)
    place = f"column {max(column, 1)}" if n_lines == 1 else f"line {min(line, n_lines)}, column {max(column, 1)}"
    return CurateError(f"condition {text.strip()}: {place}: {reason}.")
