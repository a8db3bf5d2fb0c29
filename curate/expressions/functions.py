"""The functions that a condition can call."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from curate.expressions.row_values import Row, TypedExpression, ValueType

Counts = Mapping[tuple[str, str], tuple[int, int]]  # (judged samples, correct samples) by problem and model


@dataclass(frozen=True, slots=True)
class ConditionFunction:
    """A function of values. kinds: the types that each argument may have; result: the type of the value."""

    meaning: str
    argument_types: Sequence[tuple[ValueType, ...]]
    result_type: ValueType
    implementation: Callable[..., Any]


def _words(text: str) -> int:
    return len(text.split())


FUNCTIONS = {
    "len": ConditionFunction(
        "characters of a text, or number of items of a list",
        [(ValueType.TEXT, ValueType.TEXTS, ValueType.NUMBERS)],
        ValueType.NUMBER,
        len,
    ),
    "words": ConditionFunction("words of a text", [(ValueType.TEXT,)], ValueType.NUMBER, _words),
    "lower": ConditionFunction("the text in lower case", [(ValueType.TEXT,)], ValueType.TEXT, str.lower),
}
# These need more than the values of their arguments, so the compiler knows them by name.
MATCHES, SOLVE_RATE, SAMPLES = "matches", "solve_rate", "samples"
SPECIAL_FUNCTIONS = {
    MATCHES: "whether a regular expression is found in a text: matches(statement, r'\\bgraphs?\\b')",
    SOLVE_RATE: "share of correct samples of a model: solve_rate('MODEL'); without a name if one model was sampled",
    SAMPLES: "number of judged samples of a model, 0 if there is none",
}


def names() -> list[str]:
    """Return the names of all functions."""
    return sorted([*FUNCTIONS, *SPECIAL_FUNCTIONS])


def apply_function(function: ConditionFunction, argument: TypedExpression) -> TypedExpression:
    """Return the value of a function. It is null if its argument is."""

    def value(row: Row) -> Any:
        known = argument.evaluate(row)
        return None if known is None else function.implementation(known)

    return TypedExpression(function.result_type, value)


def compile_matches(text: TypedExpression, pattern: re.Pattern[str]) -> TypedExpression:
    """Return whether the pattern is found in the text."""

    def value(row: Row) -> bool | None:
        known = text.evaluate(row)
        return None if known is None else pattern.search(known) is not None

    return TypedExpression(ValueType.TRUTH, value)


def compile_solve_rate(model: str, counts: Counts) -> TypedExpression:
    """Return the share of the model's judged samples that are correct; it is null if there are none."""

    def value(row: Row) -> float | None:
        n, n_correct = counts.get((row["id"], model), (0, 0))
        return n_correct / n if n else None

    return TypedExpression(ValueType.NUMBER, value)


def compile_sample_count(model: str, counts: Counts) -> TypedExpression:
    """Return the number of the model's judged samples."""
    return TypedExpression(ValueType.NUMBER, lambda row: counts.get((row["id"], model), (0, 0))[0])
