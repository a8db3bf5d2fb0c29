"""Recognise the function `assertion(out, exp, atol)` in the tests of EvalPlus (MBPP+).

It compares with `==`, except for decimal numbers, which it compares with a tolerance. So the expected value can be
taken out unless it is such a number.
"""

import ast
import hashlib
from collections.abc import Sequence
from typing import Any

from curate.reading.assertions.dependencies import unparse

NAME = "assertion"
_DIGEST = "b16f1887bdc9e6ccfbf73bdd9a532219e4b9958328e8a17c84344b7598f49e6e"  # of the function and the one it calls


def is_defined(nodes: Sequence[ast.stmt]) -> bool:
    """Say whether the statements define EvalPlus's function, word for word."""
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name in (NAME, "is_floats")]
    return hashlib.sha256(unparse(functions).encode()).hexdigest() == _DIGEST


def compares_exactly(expected: Any) -> bool:
    """Say whether the function compares results with this value by `==` alone."""
    items = expected if isinstance(expected, list | tuple) else [expected]
    return not all(isinstance(item, float) for item in items)
