"""The calls with literal arguments of an assertion suite, as values."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from curate.reading.assertions.literals import evaluate, to_literal
from curate.reading.values import allow_long_integers


@dataclass(frozen=True, slots=True)
class LiteralCall:
    """A call: what is called, such as `f` or `Solution().f`, and the arguments by their place or their name."""

    function: str
    arguments: Mapping[int | str, Any]

    @property
    def text(self) -> str:
        """Return the call as the sandbox reads it."""
        arguments = (
            to_literal(value) if isinstance(place, int) else f"{place}={to_literal(value)}"
            for place, value in self.arguments.items()
        )
        return f"{self.function}({', '.join(arguments)})"


def parse_call(source: str) -> LiteralCall:
    """Parse a call with literal arguments, as examples.call_text writes it. Raises NotLiteral for other arguments."""
    with allow_long_integers():
        node = ast.parse(source, mode="eval").body
    assert isinstance(node, ast.Call)
    arguments: dict[int | str, Any] = {place: evaluate(value, {}) for place, value in enumerate(node.args)}
    arguments |= {str(keyword.arg): evaluate(keyword.value, {}) for keyword in node.keywords}
    return LiteralCall(ast.unparse(node.func), arguments)
