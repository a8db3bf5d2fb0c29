"""Any JSON, JSONL, CSV, Arrow or Parquet file, with a TOML file that maps its columns: `--source NAME=mapping.toml`

    location = "problems.parquet"        # a file, a folder or a Hub id; a relative path is relative to the mapping
    licence = "cc-by-4.0"

    [fields]
    id = "task_id"                       # default: the position in the table
    statement = "prompt.0.content"       # a path into objects, lists and JSON text, with dots between the steps
    tests = "reward_model.ground_truth"  # or inputs and outputs, two lists
    public_tests = "examples"            # tests in the statement, unless `tests` has them
    solutions = "canonical_solution"     # default: the source publishes none
    expected_answer = "answer"           # of a math problem, which has no tests

Tests may have any format of curate/reading/dialects. As in all sources, a stated time limit counts as the limit for
C++. A mapping with solutions need not name tests, but rows without tests cannot be verified.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from curate.errors import CurateError
from curate.problem import Problem, Rejection
from curate.reading.dialects import ParsedTests, detection, join_tests, json_tests, parse_function_name
from curate.reading.solutions import parse_solution, strip_code_fence
from curate.reading.stated_limits import derive_limits
from curate.reading.tables import Row, TableFiles, read_rows, validate_options
from curate.reading.values import (
    ParseError,
    deduplicate_cases,
    join_lines,
    optional_text,
    parse_json,
    parse_json_or_literal,
    shorten,
)
from curate.sources import make_problem, make_question, name_problems
from sandbox import Program, checkers

TITLE = "Your own data"
HUB_ID = ""
LICENCE = "as the mapping states"
SIZE_DESCRIPTION = "any number of problems"
DEFECTS = "unknown; see the reasons of the rejected rows"

FIELDS = (
    "id statement starter_code tests public_tests inputs outputs fn_name given setup solutions language time_limit"
    " memory_limit title platform url date difficulty tags expected_answer"
).split()
_TESTS = {"tests", "inputs", "outputs"}
_TEXTS = ("statement", "platform", "title", "url", "date", "difficulty")  # fields copied as text
_CODE_FIELDS = frozenset(FIELDS) - {*_TEXTS, "id", "tags", "expected_answer"}  # fields of programming problems only
OPTIONS = ("fields", "licence", "language", "checker", "time_unit", "memory_unit")
# Columns of tasks that change a repository, as in SWE-bench and SWE-Gym; all such tasks have the first two.
_REPOSITORY = ("repo", "patch", "base_commit", "test_patch", "FAIL_TO_PASS")
_SECONDS = {"s": 1.0, "ms": 0.001}
_MEGABYTES = {"mb": 1.0, "kb": 1 / 1024, "bytes": 2.0**-20}


class FieldsWithoutValues(CurateError):
    """An error for fields of a mapping that have no value in any of the rows."""

    def __init__(self, table: TableFiles, names: frozenset[str]) -> None:
        listed = ", ".join(f'{field} = "{path}"' for field, path in table.options["fields"].items() if field in names)
        message = f"no row has a value for {listed}. Correct the path, or remove the line"
        super().__init__(str(_make_error(table, message)))
        self.names = names


def select_files(table: TableFiles) -> TableFiles:
    """Return the table unchanged. Raises CurateError if its options are not a mapping."""
    options = validate_options(table, OPTIONS)
    fields = options.get("fields")
    if not isinstance(fields, Mapping) or not all(isinstance(path, str) and path for path in fields.values()):
        raise _make_error(table, 'no [fields]. Give a TOML file with lines such as statement = "prompt" under [fields]')
    if unknown := [name for name in fields if name not in FIELDS]:
        raise _make_error(table, f"unknown field {', '.join(unknown)}. Fields are {', '.join(FIELDS)}")
    test_fields = fields.keys() & _TESTS
    if "statement" not in fields or test_fields not in ({"tests"}, {"inputs", "outputs"}, set()):
        raise _make_error(table, "[fields] needs statement, and either tests or both inputs and outputs")
    if "public_tests" in fields and "tests" not in fields:
        raise _make_error(
            table,
            "[fields] needs tests in addition to public_tests. If there are no others, rename it to tests",
        )
    if "expected_answer" in fields and (wrong := sorted(fields.keys() & _CODE_FIELDS)):
        raise _make_error(table, f"[fields] has expected_answer, and math problems have no {', '.join(wrong)}")
    if not test_fields and not fields.keys() & {"solutions", "expected_answer"}:
        raise _make_error(table, "[fields] needs tests, both inputs and outputs, solutions, or expected_answer")
    for name, known in (("time_unit", _SECONDS), ("memory_unit", _MEGABYTES), ("checker", checkers.list_names())):
        if name in options and options[name] not in list(known):
            raise _make_error(table, f"unknown {name} {options[name]}. Choose one of {', '.join(known)}")
    for name in ("licence", "language"):
        if not isinstance(options.get(name, ""), str):
            raise _make_error(table, f"{name} must be a string")
    return table


def _make_error(table: TableFiles, message: str) -> CurateError:
    return CurateError(f"mapping of {table.location}: {message}.")


def read(table: TableFiles, name: str = "generic") -> Iterator[Problem | Rejection]:
    """Yield problems of the source `name`, in the order of the table.

    Raises FieldsWithoutValues at the end if a field had no value in any row.
    """
    fields: Mapping[str, str] = table.options["fields"]
    columns = {field: path.partition(".")[0] for field, path in fields.items()}
    required = {columns[field] for field in ("statement", "tests", "inputs", "outputs") if field in fields}
    missing = set(fields)
    has_rows = False

    def get_own_name(row: Row, default_name: str) -> str:
        return (optional_text(_get_value(row, fields["id"])) if "id" in fields else "") or default_name

    def parse(id: str, row: Row) -> Problem:
        nonlocal has_rows
        if row["repo"] and row["patch"] and any(row[column] for column in _REPOSITORY[2:]):
            detail = f"a task in the repository {shorten(row['repo'])}; curate judges programs, not repositories"
            raise ParseError(detail, "repository_task")
        values = {field: _get_value(row, path) for field, path in fields.items()}
        has_rows = True
        missing.difference_update(field for field, value in values.items() if value is not None)
        return _make_problem(id, values, table.options)

    rows = read_rows(table, sorted(required), sorted({*columns.values(), *_REPOSITORY}))
    yield from name_problems(name, rows, parse, get_own_name, table.begin.position, plain_number=True)
    if missing and has_rows:
        raise FieldsWithoutValues(table, frozenset(missing))


def _get_value(row: Row, path: str) -> Any:
    """Return the value at a path; None if there is none.

    Parses texts along the path as JSON or Python literals. A name after a list selects this field of each item.
    """
    value: Any = row
    for step in path.split("."):
        if isinstance(value, str):
            value = parse_json_or_literal(value, path)
        if isinstance(value, list) and step.isdecimal():
            value = value[int(step)] if int(step) < len(value) else None
        elif isinstance(value, list):
            column = [item.get(step) if isinstance(item, Mapping) else None for item in value]
            value = column if any(item is not None for item in column) else None
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _make_problem(id: str, values: Mapping[str, Any], options: Mapping[str, Any]) -> Problem:
    if isinstance(values["statement"], list | Mapping):
        raise ParseError("statement is not a text. Name one of its elements, such as prompt.0.content")
    licence = options.get("licence", "unknown")
    texts: dict[str, Any] = {name: values.get(name) for name in _TEXTS}
    if "expected_answer" in options["fields"]:
        answer = optional_text(values["expected_answer"])
        return make_question(id, answer, licence, tags=values.get("tags"), **texts)
    starter_code, _ = strip_code_fence(optional_text(values.get("starter_code")))
    time_limit = _append_unit(values.get("time_limit"), _SECONDS[options.get("time_unit", "s")], "s")
    memory_limit = _append_unit(values.get("memory_limit"), _MEGABYTES[options.get("memory_unit", "mb")], "MB")
    solutions = None
    if "solutions" in options["fields"]:
        path = options["fields"]["solutions"]
        solutions = _parse_solutions(values["solutions"], values.get("language") or options.get("language", ""), path)
    tests, n_public_tests = _parse_tests(
        values, parse_function_name(values.get("fn_name"), "fn_name"), starter_code, solutions or ()
    )
    return make_problem(
        id,
        tests,
        solutions,
        licence,
        limits=derive_limits(time_limit, memory_limit),
        checker=options.get("checker", ""),
        n_public_tests=n_public_tests,
        starter_code=starter_code,
        tags=values.get("tags"),
        **texts,
    )


def _parse_tests(
    values: Mapping[str, Any], entry_point: str | None, starter_code: str, solutions: Sequence[Program]
) -> tuple[ParsedTests, int]:
    """Return the tests, the public ones first, and the number of public ones."""

    def read(tests: object) -> ParsedTests:
        return detection.read(
            tests,
            entry_point,
            starter_code,
            preamble=_join_code(values.get("given"), "given"),
            setup=_join_code(values.get("setup"), "setup"),
            solution=next((solution.source for solution in solutions), ""),
        )

    if "tests" in values:
        if not values.get("public_tests"):
            return read(values["tests"]), 0
        public = read(values["public_tests"])
        return join_tests(public, read(values["tests"]) if values["tests"] else ParsedTests(())), len(
            deduplicate_cases(public.cases)
        )
    if "inputs" not in values:
        return ParsedTests(()), 0
    content = {
        name: parse_json_or_literal(values[name], name) if isinstance(values[name], str) else values[name]
        for name in ("inputs", "outputs")
    }
    if entry_point and not json_tests.are_named_arguments(content["inputs"]):
        content = {name: _decode_column(column, name) for name, column in content.items()}
    return json_tests.read_named_columns(content, entry_point, starter_code), 0


def _decode_column(column: Any, name: str) -> Any:
    """Decode a column of arguments or results of calls from JSON if all of its items are texts."""
    if isinstance(column, list) and all(isinstance(item, str) for item in column):
        return [parse_json(item, name) for item in column]
    return column


def _join_code(value: object, name: str) -> str:
    return "" if value is None else join_lines(value, name)


def _parse_solutions(value: object, language: object, path: str) -> tuple[Program, ...]:
    """Return the programs in a text, a list of texts, or the JSON of such a list. Raises ParseError.

    language  language of all programs, or a list with the language of each
    path      path of the field, for error messages
    """
    if isinstance(value, str):
        value = parse_json(value, "solutions") if value.lstrip().startswith("[") else [value]
    programs = value or []
    first = programs[0] if isinstance(programs, list) and programs else programs
    if isinstance(first, Mapping):
        names = ", ".join(map(str, first))
        raise ParseError(
            f"solutions are objects with {shorten(names)}. Name one of these, such as "
            f"{path}.{next(iter(first), 'code')}"
        )
    if not isinstance(programs, list) or not all(isinstance(text, str) for text in programs):
        raise ParseError("solutions are neither a text nor a list of texts")
    languages = language if isinstance(language, list) else [language] * len(programs)
    if len(languages) != len(programs):
        raise ParseError(f"{len(programs)} solutions in {len(languages)} languages")
    return tuple(parse_solution(text, optional_text(stated)) for text, stated in zip(programs, languages, strict=True))


def _append_unit(value: object, factor: float, unit: str) -> object:
    """Return a number, or its text, times the factor and with the unit. Returns other values unchanged."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}(\.\d{1,15})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return f"{value * factor:f} {unit}" if abs(value) < 10**15 else None
