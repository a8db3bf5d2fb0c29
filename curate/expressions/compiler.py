"""Turn the syntax tree of a condition into functions of a row, and check its types before any row is read."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from curate.expressions import functions, row_values
from curate.expressions.functions import FUNCTIONS, MATCHES, SAMPLES, SOLVE_RATE, SPECIAL_FUNCTIONS, Counts
from curate.expressions.row_values import Row, TypedExpression, ValueType

_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_EQUALITY: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ITEMS = {
    ValueType.TEXTS: ValueType.TEXT,
    ValueType.NUMBERS: ValueType.NUMBER,
    ValueType.TEXT: ValueType.TEXT,
}  # what `in` looks for in each


class InvalidExpression(Exception):
    """A part of a condition that cannot be used, and the reason."""

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.node = node


class ConditionCompiler:
    """Compiles one condition. `used` collects the names and `models` the models that it uses.

    models: the models that were sampled on the dataset
    counts: how often each of them solved each problem
    """

    def __init__(self, models: tuple[str, ...], counts: Counts) -> None:
        self._models, self._counts = models, counts
        self.used: set[str] = set()
        self.models: set[str] = set()

    def condition(self, node: ast.expr) -> TypedExpression:
        """Compile a part that must be true or false."""
        return self._of_kind(node, ValueType.TRUTH)

    def _of_kind(self, node: ast.expr, *kinds: ValueType) -> TypedExpression:
        term = self._term(node)
        if term.value_type not in kinds:
            wanted = " or ".join(kind.value for kind in kinds)
            raise InvalidExpression(node, f"expected {wanted}, not {term.value_type.value}")
        return term

    def _term(self, node: ast.expr) -> TypedExpression:
        match node:
            case ast.Constant():
                return _constant(node)
            case ast.Name():
                return self._name(node)
            case ast.Call():
                return self._call(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.BoolOp():
                terms = [self.condition(part) for part in node.values]
                return _conjunction(terms) if isinstance(node.op, ast.And) else _disjunction(terms)
            case ast.UnaryOp(op=ast.Not()):
                return _lifted(ValueType.TRUTH, operator.not_, self.condition(node.operand))
            case ast.UnaryOp(op=ast.USub()):
                return _lifted(ValueType.NUMBER, operator.neg, self._of_kind(node.operand, ValueType.NUMBER))
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                sides = [self._of_kind(side, ValueType.NUMBER) for side in (node.left, node.right)]
                return _lifted(ValueType.NUMBER, _ARITHMETIC[type(node.op)], *sides)
            case ast.Attribute():
                raise InvalidExpression(node, f"values have no methods. Functions are {', '.join(functions.names())}")
            case ast.Tuple() | ast.List() | ast.Set():
                raise InvalidExpression(node, "a list can only stand after `in`")
        raise InvalidExpression(
            node,
            "a condition has names, numbers, texts, functions, comparisons, arithmetic, in, is None, and, or, not",
        )

    def _name(self, node: ast.Name) -> TypedExpression:
        if node.id in (*FUNCTIONS, *SPECIAL_FUNCTIONS):
            raise InvalidExpression(node, f"{node.id} is a function. Write {node.id}(...)")
        try:
            term = row_values.lookup(node.id)
        except KeyError:
            raise InvalidExpression(node, _unknown("name", node.id, row_values.names())) from None
        self.used.add(node.id)
        return term

    def _call(self, node: ast.Call) -> TypedExpression:
        if not isinstance(node.func, ast.Name):
            return self._term(node.func)  # which refuses it
        name, arguments = node.func.id, node.args
        if name not in (*FUNCTIONS, *SPECIAL_FUNCTIONS):
            raise InvalidExpression(node, _unknown("function", name, functions.names()))
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in arguments):
            raise InvalidExpression(node, f"{name} takes plain arguments")
        if name in (SOLVE_RATE, SAMPLES):
            model = self._model(node)
            self.models.add(model)
            term = functions.compile_solve_rate if name == SOLVE_RATE else functions.compile_sample_count
            return term(model, self._counts)
        n_wanted = 2 if name == MATCHES else 1
        if len(arguments) != n_wanted:
            raise InvalidExpression(
                node, f"{name} takes {n_wanted} argument{'s' * (n_wanted > 1)}, not {len(arguments)}"
            )
        if name == MATCHES:
            return functions.compile_matches(self._of_kind(arguments[0], ValueType.TEXT), _pattern(arguments[1]))
        function = FUNCTIONS[name]
        return functions.apply_function(function, self._of_kind(arguments[0], *function.argument_types[0]))

    def _model(self, node: ast.Call) -> str:
        sampled = ", ".join(self._models)
        match node.args:
            case [ast.Constant(value=str(model))]:
                if model not in self._models:
                    raise InvalidExpression(
                        node, f"{model} was not sampled on this dataset. Sampled: {sampled or 'no model'}"
                    )
                return model
            case [] if len(self._models) == 1:
                return self._models[0]
        raise InvalidExpression(
            node, f"name the model in quotes. Sampled: {sampled or 'no model, see `curate difficulty`'}"
        )

    def _comparison(self, node: ast.Compare) -> TypedExpression:
        sides = [node.left, *node.comparators]
        pairs = zip(pairwise(sides), node.ops, strict=True)
        return _conjunction([self._pair(left, operation, right) for (left, right), operation in pairs])

    def _pair(self, left: ast.expr, operation: ast.cmpop, right: ast.expr) -> TypedExpression:
        if isinstance(operation, ast.Is | ast.IsNot):
            if not _is_none(right):
                raise InvalidExpression(right, "only None can stand after `is`")
            term, expected = self._term(left), isinstance(operation, ast.Is)
            return TypedExpression(ValueType.TRUTH, lambda row: (term.evaluate(row) is None) == expected)
        _refuse_none(left, right)
        if isinstance(operation, ast.In | ast.NotIn):
            inside = self._membership(left, right)
            return inside if isinstance(operation, ast.In) else _lifted(ValueType.TRUTH, operator.not_, inside)
        kinds = (ValueType.NUMBER, ValueType.TEXT, *([ValueType.TRUTH] if type(operation) in _EQUALITY else []))
        first = self._of_kind(left, *kinds)
        second = self._of_kind(right, first.value_type)
        compare = _EQUALITY.get(type(operation)) or _ORDER[type(operation)]
        return _lifted(ValueType.TRUTH, compare, first, second)

    def _membership(self, left: ast.expr, right: ast.expr) -> TypedExpression:
        item = self._of_kind(left, ValueType.TEXT, ValueType.NUMBER)
        if isinstance(right, ast.Tuple | ast.List | ast.Set):
            _refuse_none(*right.elts)
            equal = [
                _lifted(ValueType.TRUTH, operator.eq, item, self._of_kind(part, item.value_type)) for part in right.elts
            ]
            return _disjunction(equal)
        whole = self._of_kind(right, *_ITEMS)
        if item.value_type is not _ITEMS[whole.value_type]:
            raise InvalidExpression(left, f"expected {_ITEMS[whole.value_type].value}, not {item.value_type.value}")
        return _lifted(ValueType.TRUTH, lambda part, parts: part in parts, item, whole)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _refuse_none(*nodes: ast.expr) -> None:
    for node in nodes:
        if _is_none(node):
            raise InvalidExpression(node, "nothing equals null. Write `is None` or `is not None`")


def _constant(node: ast.Constant) -> TypedExpression:
    value = node.value
    if isinstance(value, bool):
        return TypedExpression(ValueType.TRUTH, lambda row: value)
    if isinstance(value, int | float):
        return TypedExpression(ValueType.NUMBER, lambda row: value)
    if isinstance(value, str):
        return TypedExpression(ValueType.TEXT, lambda row: value)
    raise InvalidExpression(
        node, "None can only stand after `is`" if value is None else "not a number, text, True or False"
    )


def _pattern(node: ast.expr) -> re.Pattern[str]:
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        raise InvalidExpression(node, "the pattern must be a text in quotes")
    try:
        return re.compile(node.value)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidExpression(node, f"not a regular expression ({error})") from None


def _lifted(kind: ValueType, function: Callable[..., Any], *terms: TypedExpression) -> TypedExpression:
    """Return a term that applies the function. It is null if an argument is, or if the result is not defined."""

    def value(row: Row) -> Any:
        arguments = [term.evaluate(row) for term in terms]
        if None in arguments:
            return None
        try:
            return function(*arguments)
        except ArithmeticError:  # a division by zero, or a number too large
            return None

    return TypedExpression(kind, value)


def _conjunction(terms: list[TypedExpression]) -> TypedExpression:
    return terms[0] if len(terms) == 1 else _decided_by(False, terms)


def _disjunction(terms: list[TypedExpression]) -> TypedExpression:
    return _decided_by(True, terms)


def _decided_by(decisive: bool, terms: list[TypedExpression]) -> TypedExpression:
    """Return a term that has the decisive value if a part has it, is otherwise null if a part is, or else the other."""

    def value(row: Row) -> bool | None:
        is_known = True
        for term in terms:
            part: bool | None = term.evaluate(row)
            if part is decisive:
                return decisive
            is_known = is_known and part is not None
        return not decisive if is_known else None

    return TypedExpression(ValueType.TRUTH, value)


def _unknown(what: str, name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"unknown {what} {name}.{f' Did you mean {close[0]}?' if close else ''} There are {', '.join(known)}"
