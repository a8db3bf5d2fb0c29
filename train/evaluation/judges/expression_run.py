"""Evaluate an expression of an answer in the sandbox, and read the value that it claims to have."""

from sandbox import Sandbox
from train.evaluation.judges.call_run import CallResults, run_calls
from train.evaluation.judges.reference_outputs import Reference

SECONDS = 3.0  # CPU time; CRUXEval's own limit is 3 seconds of wall time
MAX_EXPRESSION_CHARS = 64 * 1024  # characters of an expression
_NO_ARGUMENTS = "[]"
_NAME = "value_of_expression"


def run_expression(expression: str, sandbox: Sandbox, *, preamble: str = "") -> CallResults:
    """Evaluate an expression, with no more than SECONDS of CPU time. Raises SandboxError.

    preamble   code that runs before, whose names the expression can use
    """
    program = f"def {_NAME}():\n    return eval({expression!r}, globals())\n"
    return run_calls([preamble, program], _NAME, [_NO_ARGUMENTS], [SECONDS], sandbox)


def literal_reference(literal: str) -> Reference:
    """Return the reference whose only output is the value of a literal of a data set, which is trusted."""
    return Reference(f"def {_NAME}():\n    return (\n{literal}\n)\n", _NAME, (_NO_ARGUMENTS,))
