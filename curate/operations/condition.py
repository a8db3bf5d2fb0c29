"""Conditions on the rows of a dataset, for `curate filter --where`, such as `verified and n_tests >= 8`.

A condition is a Boolean expression of SQL. Conditions may come from untrusted recipes, so DuckDB only parses their
text. It executes SQL that this module generates from an allow-list of syntax tree nodes: no subqueries, no other
functions and no statements. As in SQL, an unknown value is null, and a comparison with null is null. A row fulfils a
condition only if the condition is true.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from curate.dataset.query import connect, stream_query
from curate.dataset.writer import get_schema
from curate.errors import CurateError
from curate.problem import COLUMNS
from sandbox import Suite

if TYPE_CHECKING:
    import pyarrow as pa

SampleCounts = Mapping[tuple[str, str], tuple[int, int]]  # (judged samples, correct samples) by problem and model
Node = dict[str, Any]


class ValueType(Enum):
    """The type of a value, as named in error messages."""

    NUMBER = "a number"
    TEXT = "a string"
    TRUTH = "true or false"
    TEXTS = "a list of strings"
    NUMBERS = "a list of numbers"


_NUMBER, _TEXT, _BOOL, _TEXTS, _NUMBERS = ValueType
_TYPES = {
    "string": _TEXT,
    "int32": _NUMBER,
    "float64": _NUMBER,
    "bool": _BOOL,
    "list<string>": _TEXTS,
    "list<int32>": _NUMBERS,
}
# Columns that are empty if unknown. Empty values become null; otherwise an empty date would compare as an early one.
_EMPTY_IS_NULL = frozenset({"date", "difficulty", "language", "platform", "title", "url"})
# Values computed from the column `tests`.
SUITE_VALUES = {"kind": _TEXT, "checker": _TEXT, "wall_seconds": _NUMBER, "memory_mb": _NUMBER}
NAMES = sorted([*COLUMNS, *SUITE_VALUES])

# Words are separated by whitespace, including Unicode whitespace.
_WORDS = r"regexp_extract_all({}, '[^\t-\r\x1c-\x20\x{{85}}\p{{Z}}]+')"


@dataclass(frozen=True, slots=True)
class _Operation:
    """An allowed operation: an SQL template with a placeholder for each argument.

    types: allowed types of the arguments, which must all have the same type
    """

    types: tuple[ValueType, ...]
    n_arguments: int
    result: ValueType
    sql: str


_FUNCTIONS = {
    "len": _Operation((_TEXT, _TEXTS, _NUMBERS), 1, _NUMBER, "len({})::DOUBLE"),
    "lower": _Operation((_TEXT,), 1, _TEXT, "lower({})"),
    "matches": _Operation((_TEXT,), 2, _BOOL, "regexp_matches({}, {})"),
    "words": _Operation((_TEXT,), 1, _NUMBER, f"len({_WORDS})::DOUBLE"),
}
# Functions that take the name of a model.
_MODEL_FUNCTIONS = {"samples": '"samples {}"', "solve_rate": '("correct {0}" / nullif("samples {0}", 0))'}
_FUNCTION_NAMES = [*_FUNCTIONS, *_MODEL_FUNCTIONS]
_ARITHMETIC = {
    "+": "({} + {})",
    "-": "({} - {})",
    "*": "({} * {})",
    "/": "({} / nullif({}, 0))",
    "//": "floor({} / nullif({}, 0))",
    "%": "({0} - {1} * floor({0} / nullif({1}, 0)))",
}
_ORDER = {"LESSTHAN": "<", "LESSTHANOREQUALTO": "<=", "GREATERTHAN": ">", "GREATERTHANOREQUALTO": ">="}
# Operations by the type of a syntax tree node or, for arithmetic, by the sign and the number of arguments.
_OPERATIONS: dict[str | tuple[str, int], _Operation] = {
    **{(sign, 2): _Operation((_NUMBER,), 2, _NUMBER, sql) for sign, sql in _ARITHMETIC.items()},
    ("-", 1): _Operation((_NUMBER,), 1, _NUMBER, "(- {})"),
    "OPERATOR_NOT": _Operation((_BOOL,), 1, _BOOL, "(NOT {})"),
    "OPERATOR_IS_NULL": _Operation(tuple(ValueType), 1, _BOOL, "({} IS NULL)"),
    "OPERATOR_IS_NOT_NULL": _Operation(tuple(ValueType), 1, _BOOL, "({} IS NOT NULL)"),
    "COMPARE_BETWEEN": _Operation((_NUMBER, _TEXT), 3, _BOOL, "({} BETWEEN {} AND {})"),
    "COMPARE_EQUAL": _Operation((_NUMBER, _TEXT, _BOOL), 2, _BOOL, "({} = {})"),
    "COMPARE_NOTEQUAL": _Operation((_NUMBER, _TEXT, _BOOL), 2, _BOOL, "({} <> {})"),
    **{f"COMPARE_{n}": _Operation((_NUMBER, _TEXT), 2, _BOOL, f"({{}} {sign} {{}})") for n, sign in _ORDER.items()},
}
_SYNTAX = (
    "a condition may contain names, numbers, strings, functions, comparisons, arithmetic, "
    "in, between, is null, and, or, not"
)
_NO_METHODS = f"values have no methods. The functions are {', '.join(_FUNCTION_NAMES)}"
_LISTS = ("list_value", "row")  # function names of [...] and (...) in the syntax tree
_NULL = "a comparison with null is never true. Write `is null` or `is not null`"
_HINTS = {
    'near "None"': ". Write `is null` or `is not null`",
    'near "#"': ". Begin a comment with --",
    'near "{"': ". Write a list as [1, 2]",
    'near ","': ". Write a list as [1, 2]",
    "Chained comparisons": ". Instead of `1 <= n_tests <= 5`, write `n_tests between 1 and 5`, or "
    "`1 <= n_tests and n_tests <= 5`",
    'near ""': ". Write a string with a prefix in single quotes: r'\\d+'",
    "unterminated": ". In a string, write '' for a single quote",
}
_PREFIX = "SELECT ("
_MAX_BATCH_SECONDS = 60.0
_MAX_MEMORY = "2GB"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a row.

    text    the condition as written
    sql     the generated expression for DuckDB
    names   names of columns and suite values in the condition
    models  models whose solve rates the condition uses
    """

    text: str
    sql: str
    names: frozenset[str]
    models: frozenset[str]

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the dataset that the condition needs."""
        tests = {"tests"} if self.names & SUITE_VALUES.keys() else set()
        return frozenset({"id", "source"}) | self.names & COLUMNS.keys() | tests


def parse(text: str, models: Sequence[str] = ()) -> Condition:
    """Parse a condition. Raises CurateError with the position of an error.

    models: names of the models sampled on the dataset
    """
    if not text.strip():
        raise CurateError("the condition is empty. Pass one such as: verified and n_tests >= 8")
    try:
        node = _parse_condition(text)
        translator = _Translator(text, models)
        sql = translator.translate(node, _BOOL)
    except _InvalidExpressionError as error:
        position = _describe_position(text, error.offset)
        raise CurateError(f"condition {text.strip()[:200]}: {position}: {error}.") from None
    except (ValueError, RecursionError):
        raise CurateError(f"condition {text[:200]}: cannot be parsed. Simplify it.") from None
    return Condition(text, sql, frozenset(translator.names), frozenset(translator.models))


def evaluate(
    conditions: Sequence[Condition], rows: "Iterable[pa.RecordBatch]", counts: SampleCounts
) -> Iterator[tuple[Any, ...]]:
    """Yield the id, the source and the results of all conditions for each row, in order. A result is None if unknown.

    rows    batches with the columns of all conditions
    counts  numbers of judged and of correct samples

    Raises CurateError if a batch is unreadable, or takes more than a minute.
    """
    import pyarrow as pa

    names = sorted({"id", "source"}.union(*(condition.names for condition in conditions)))
    models = sorted({model for condition in conditions for model in condition.models})
    read = get_schema({name: COLUMNS[name] for name in names if name in COLUMNS})
    of_suites = [name for name in names if name in SUITE_VALUES]
    computed = {name: pa.string() if SUITE_VALUES[name] is _TEXT else pa.float64() for name in of_suites}
    computed |= {f"{what} {model}": pa.float64() for model in models for what in ("samples", "correct")}
    schema = pa.schema([*read, *computed.items()])

    def add_computed_columns() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            columns: dict[str, Any] = {}
            if of_suites:
                suites = [_compute_suite_values(Suite.from_json(text)) for text in batch.column("tests").to_pylist()]
                columns = {name: [values[name] for values in suites] for name in of_suites}
            for model in models:
                solved = [counts.get((id, model), (0, 0)) for id in batch.column("id").to_pylist()]
                columns |= {f"samples {model}": [n for n, _ in solved], f"correct {model}": [n for _, n in solved]}
            arrays = [batch.column(field.name).cast(field.type) for field in read]
            arrays += [pa.array(columns[name], kind) for name, kind in computed.items()]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    outputs = "".join(f", {condition.sql} AS condition_{number}" for number, condition in enumerate(conditions))
    reader = pa.RecordBatchReader.from_batches(schema, add_computed_columns())
    with connect(threads="1", memory_limit=_MAX_MEMORY) as connection:  # a single thread keeps the order of the rows
        results = stream_query(
            connection, f"SELECT id, source{outputs} FROM rows", {"rows": reader}, max_batch_seconds=_MAX_BATCH_SECONDS
        )
        yield from (tuple(result.values()) for result in results)


def _compute_suite_values(suite: Suite) -> dict[str, Any]:
    kind = "assertions" if suite.assertions is not None else "stdin" if suite.entry_point is None else "function"
    limits = {"wall_seconds": suite.limits.wall_seconds, "memory_mb": suite.limits.memory_mb}
    return {"kind": kind, "checker": suite.checker, **limits}


class _InvalidExpressionError(Exception):
    """An error in a condition. offset: byte offset of the error in the statement"""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


def _parse_condition(text: str) -> Node:
    """Parse a condition with DuckDB. Raises _InvalidExpressionError for anything but one expression."""
    # The closing parenthesis is on a new line, so a comment in the text cannot hide it.
    statement = _parse_sql(f"{_PREFIX}{text}\n)")
    selected: list[Node] = statement["node"].pop("select_list", [])
    frame = _parse_sql(f"{_PREFIX}TRUE\n)")
    del frame["node"]["select_list"]
    if len(selected) != 1 or statement != frame:
        raise _InvalidExpressionError(len(_PREFIX), f"not a single expression: {_SYNTAX}")
    return selected[0]


def _parse_sql(sql: str) -> Any:
    if "\0" in sql:
        raise ValueError("a NUL byte")
    ((answer,),) = _connect_parser().execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed = json.loads(answer)
    if parsed["error"]:
        message = parsed["error_message"].partition(". ")[0]
        hint = next((hint for part, hint in _HINTS.items() if part in message), "")
        raise _InvalidExpressionError(int(parsed.get("position", len(_PREFIX))), f"not an expression ({message}){hint}")
    if len(parsed["statements"]) != 1:
        raise _InvalidExpressionError(len(_PREFIX), f"not a single expression: {_SYNTAX}")
    return parsed["statements"][0]


@cache
def _connect_parser() -> Any:
    return connect(threads="1", memory_limit="200MB")


def _describe_position(text: str, offset: int) -> str:
    before = text.encode()[: max(offset - len(_PREFIX), 0)].decode(errors="ignore").split("\n")
    n_lines = len(text.strip().splitlines())
    line, column = min(len(before), n_lines), len(before[-1]) + 1
    return f"column {column}" if n_lines == 1 else f"line {line}, column {column}"


class _Translator:
    """A translator of a condition's syntax tree to SQL. Collects the names and models in the condition."""

    def __init__(self, text: str, models: Sequence[str]) -> None:
        self._source, self._sampled = f"{_PREFIX}{text}".encode(), tuple(models)
        self.names: set[str] = set()
        self.models: set[str] = set()

    def translate(self, node: Node, *types: ValueType) -> str:
        """Return the SQL of a node. Raises _InvalidExpressionError unless the node has one of these types."""
        return self._translate_typed(node, *types)[1]

    def _translate_typed(self, node: Node, *types: ValueType) -> tuple[ValueType, str]:
        found, sql = self._translate_any(node)
        if found not in types:
            wanted = " or ".join(one.value for one in types)
            raise _build_error(node, f"expected {wanted}, not {found.value}")
        return found, sql

    def _translate_any(self, node: Node) -> tuple[ValueType, str]:
        """Return the type and the SQL of a node of any allowed type."""
        if (text := self._read_text(node)) is not None:
            return _TEXT, _quote(text)
        kind = node["type"]
        if kind == "VALUE_CONSTANT":
            return _translate_constant(node)
        if kind == "COLUMN_REF":
            return self._translate_column(node)
        if kind == "FUNCTION":
            return self._translate_function(node)
        if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
            parts = [self.translate(part, _BOOL) for part in node["children"]]
            return _BOOL, f"({f' {kind[12:]} '.join(parts)})"
        if kind == "COMPARE_IN":
            item, *others = node["children"]
            if len(others) == 1:
                raise _build_error(others[0], "(value) is not a list. Write `in [value]`, or remove the parentheses")
            return self._translate_in_list(item, others)
        if kind in ("COMPARE_NOT_DISTINCT_FROM", "COMPARE_DISTINCT_FROM"):
            raise _build_error(node, "only null can follow `is`")
        if kind not in _OPERATIONS:
            raise _build_error(node, _SYNTAX)
        sides = [node[side] for side in ("left", "right", "input", "lower", "upper") if side in node]
        return self._translate_operation(_OPERATIONS[kind], sides or node["children"])

    def _translate_operation(self, operation: _Operation, arguments: Sequence[Node]) -> tuple[ValueType, str]:
        for argument in arguments:
            self._reject_null(argument)
        found, first = self._translate_typed(arguments[0], *operation.types)
        others = [self.translate(argument, found) for argument in arguments[1:]]
        return operation.result, operation.sql.format(first, *others)

    def _read_text(self, node: Node) -> str | None:
        """Return the value of a string literal: '...', "...", r'...' or e'...' with escapes; None for other nodes."""
        begin = self._source[node.get("query_location", 0) :][:1].lower()
        if node["type"] == "OPERATOR_CAST" and node["type_expr"].get("type_name") == "r" and begin in (b"r", b"'"):
            return self._read_literal(node["child"])
        if node["type"] == "COLUMN_REF" and begin == b'"':
            text: str | None = node["column_names"][-1]
        else:
            text = self._read_literal(node)
        if text is not None and "\\" in text and begin != b"e":
            raise _build_error(
                node, "a string has a backslash. Write r'...' for a literal backslash, e'...' for an escape sequence"
            )
        return text

    @staticmethod
    def _read_literal(node: Node) -> str | None:
        if node["type"] == "VALUE_CONSTANT" and node["literal"]["kind"] == "STRING":
            text: str = node["literal"]["text"]
            return text
        return None

    def _translate_column(self, node: Node) -> tuple[ValueType, str]:
        self._reject_null(node)
        if len(node["column_names"]) > 1:
            raise _build_error(node, _NO_METHODS)
        name = node["column_names"][0]
        if name in _FUNCTION_NAMES:
            raise _build_error(node, f"{name} is a function. Write {name}(...)")
        if name not in NAMES:
            raise _build_error(node, _describe_unknown_name("name", name, NAMES))
        self.names.add(name)
        if name in SUITE_VALUES:
            return SUITE_VALUES[name], f'"{name}"'
        value_type = _TYPES[COLUMNS[name][0].rstrip("?")]
        casts = {_NUMBER: "::DOUBLE", _NUMBERS: "::DOUBLE[]"}
        sql = f'"{name}"{casts.get(value_type, "")}'
        return value_type, f"nullif({sql}, '')" if name in _EMPTY_IS_NULL else sql

    def _translate_function(self, node: Node) -> tuple[ValueType, str]:
        name, arguments = node["function_name"], [argument["expression"] for argument in node["arguments"]]
        begin = node["query_location"]
        if self._source[:begin].endswith(b".") or len(node["qualified_name"]["path"]) > 1:
            raise _build_error(node, _NO_METHODS)
        if node["is_operator"] and (name, len(arguments)) in _OPERATIONS:
            return self._translate_operation(_OPERATIONS[name, len(arguments)], arguments)
        is_written = self._source[begin:].lower().startswith(name.encode())
        if name == "contains" and not is_written:  # it is `in`
            return self._translate_in(*arguments)
        if name not in _FUNCTION_NAMES or node["is_operator"]:
            if not is_written or node["is_operator"]:
                raise _build_error(node, "a list can only follow `in`" if name in _LISTS else _SYNTAX)
            raise _build_error(node, _describe_unknown_name("function", name, _FUNCTION_NAMES))
        is_plain = not (node["distinct"] or node["filter"] or node["order_bys"]["orders"] or node["export_state"])
        if not is_plain or any(argument["name"] for argument in node["arguments"]):
            raise _build_error(node, f"{name} takes only positional arguments, without DISTINCT, FILTER or ORDER BY")
        if name in _MODEL_FUNCTIONS:
            return _NUMBER, _MODEL_FUNCTIONS[name].format(self._read_model(node, arguments).replace('"', '""'))
        n = _FUNCTIONS[name].n_arguments
        if len(arguments) != n:
            raise _build_error(node, f"{name} takes {n} argument{'s' * (n > 1)}, not {len(arguments)}")
        if name == "matches":
            self._check_pattern(arguments[1])
        return self._translate_operation(_FUNCTIONS[name], arguments)

    def _check_pattern(self, node: Node) -> None:
        import duckdb

        pattern = self._read_text(node)
        if pattern is None:
            raise _build_error(node, "the pattern must be a quoted string")
        try:
            _connect_parser().execute("SELECT regexp_matches('', ?)", [pattern])
        except duckdb.Error as error:
            reason = str(error).partition(": ")[2].splitlines()[0]
            raise _build_error(node, f"not a valid RE2 regular expression ({reason})") from None

    def _read_model(self, node: Node, arguments: Sequence[Node]) -> str:
        sampled = ", ".join(self._sampled) or "no model"
        model = self._read_text(arguments[0]) if len(arguments) == 1 else None
        if not arguments and len(self._sampled) == 1:
            model = self._sampled[0]
        if model is None:
            see = "" if self._sampled else ", see `curate difficulty`"
            raise _build_error(node, f"pass the model's name in quotes. Sampled: {sampled}{see}")
        if model not in self._sampled:
            raise _build_error(node, f"{model} was not sampled on this dataset. Sampled: {sampled}")
        self.models.add(model)
        return model

    def _translate_in(self, whole: Node, item: Node) -> tuple[ValueType, str]:
        if whole["type"] == "FUNCTION" and whole["function_name"] in _LISTS:
            return self._translate_in_list(item, [argument["expression"] for argument in whole["arguments"]])
        item_type, item_sql = self._translate_typed(item, _TEXT, _NUMBER)
        found, sql = self._translate_typed(whole, _TEXTS, _NUMBERS, _TEXT)
        wanted = _NUMBER if found is _NUMBERS else _TEXT
        if item_type is not wanted:
            raise _build_error(item, f"expected {wanted.value}, not {item_type.value}")
        if found is _TEXT:
            return _BOOL, f"contains({sql}, {item_sql})"
        return _BOOL, f"if({item_sql} IS NULL, NULL, list_contains({sql}, {item_sql}))"

    def _translate_in_list(self, item: Node, others: Sequence[Node]) -> tuple[ValueType, str]:
        for node in others:
            self._reject_null(node)
        kind, sql = self._translate_typed(item, _TEXT, _NUMBER)
        values = ", ".join(self.translate(node, kind) for node in others)
        return _BOOL, f"({sql} IN ({values}))" if values else "FALSE"

    @staticmethod
    def _reject_null(node: Node) -> None:
        is_null = node["type"] == "VALUE_CONSTANT" and node["literal"]["kind"] == "NULL_LITERAL"
        if is_null or (node["type"] == "COLUMN_REF" and node["column_names"] == ["None"]):
            raise _build_error(node, _NULL)


def _translate_constant(node: Node) -> tuple[ValueType, str]:
    literal = node["literal"]
    match literal["kind"]:
        case "INTEGER" | "NUMERIC":
            return _NUMBER, f"'{float(literal['text'])!r}'::DOUBLE"
        case "BOOLEAN":
            return _BOOL, literal["text"].upper()
        case "NULL_LITERAL":
            raise _build_error(node, _NULL)
    raise _build_error(node, "not a number, string, true or false")


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _build_error(node: Node, reason: str) -> _InvalidExpressionError:
    offset = node.get("query_location", len(_PREFIX))
    return _InvalidExpressionError(offset if offset < 2**63 else len(_PREFIX), reason)


def _describe_unknown_name(kind: str, name: str, valid_names: list[str]) -> str:
    close = get_close_matches(name, valid_names, 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"unknown {kind} {name}.{hint} Choose one of {', '.join(valid_names)}"
