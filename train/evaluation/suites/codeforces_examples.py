"""Codeforces problems with the examples of their statements as tests: DeepCoder's rows and CodeElo's.

A program that is right on the examples need not be right, so a rating that is measured with them bounds a real one from
above. Interactive problems are among DeepCoder's 408 rows, and no program passes their examples as tests.

DeepCoder  columns problem (the statement with tags and limits, without examples) and tests ([{"input", "output"}])
CodeElo    columns problem_id, title, rating, time_limit_ms, memory_limit_mb, description, input, output, interaction,
           examples, note
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from curate.reading.tables import Row, TableFiles
from curate.reading.values import ParseError, distinct_cases, join_lines, optional_text, parse_json_or_literal
from sandbox import Case
from train.evaluation.codeforces.contests import problem_key
from train.evaluation.codeforces.deepcoder_problems import UnmatchedProblems
from train.evaluation.suites.codeforces_problem import EXAMPLES, CodeforcesProblem, format_examples, format_sections
from train.evaluation.suites.suite import unreadable, valid_rows

DEEPCODER = ("problem", "tests")
CODEELO = ("problem_id", "description", "examples")
_CODEELO_MORE = ("title", "rating", "time_limit_ms", "memory_limit_mb", "input", "output", "interaction", "note")
_LIMITS = re.compile(r"\nTime Limit: (\d+) ms\nMemory Limit: (\d+) MB\s*$")


def is_deepcoder(row: Row) -> bool:
    """Tell whether a row is one of DeepCoder's Codeforces problems; its other problems state no limits."""
    return bool(row["tests"]) and _LIMITS.search(optional_text(row["problem"])) is not None


def is_codeelo(row: Row) -> bool:
    return all(row[name] for name in CODEELO)


def read_deepcoder_problems(table: TableFiles) -> Iterator[CodeforcesProblem]:
    """Yield the problems of DeepCoder's rows. Those that are not among its 408 problems have no key."""
    unnamed = UnmatchedProblems()
    for position, row in enumerate(valid_rows(table, DEEPCODER, ())):
        name, text = f"row-{position}", str(row["problem"])
        id, limits = unnamed.pop_id(text), _LIMITS.search(text)
        try:
            yield CodeforcesProblem(
                keys=(problem_key(id),) if id else (),
                name=name,
                statement=text,
                cases=_cases(row["tests"]),
                tests_source=EXAMPLES,
                wall_seconds=int(limits[1]) / 1000 if limits else 0.0,
                memory_mb=int(limits[2]) if limits else 0.0,
            )
        except ParseError as error:
            raise unreadable(table, id or name, error) from None


def read_codeelo_problems(table: TableFiles) -> Iterator[CodeforcesProblem]:
    """Yield the problems of CodeElo's rows."""
    for row in valid_rows(table, CODEELO, _CODEELO_MORE):
        id, rating = str(row["problem_id"]), row["rating"]
        try:
            cases = _cases(row["examples"])
            yield CodeforcesProblem(
                keys=(problem_key(id),),
                name=id,
                statement=_statement(row, cases),
                cases=cases,
                tests_source=EXAMPLES,
                wall_seconds=float(row["time_limit_ms"] or 0) / 1000,
                memory_mb=float(row["memory_limit_mb"] or 0),
                rating=int(rating) if rating else None,
            )
        except (ParseError, ValueError) as error:
            raise unreadable(table, id, error) from None


def _statement(row: Row, examples: tuple[Case, ...]) -> str:
    return format_sections(
        ("", optional_text(row["title"])),
        ("", optional_text(row["description"])),
        ("Input", optional_text(row["input"])),
        ("Output", optional_text(row["output"])),
        ("Interaction", optional_text(row["interaction"])),
        ("Examples", format_examples(examples)),
        ("Note", optional_text(row["note"])),
    )


def _cases(encoded: object) -> tuple[Case, ...]:
    """Return tests that are pairs, or have input and output; as a list or as JSON text."""
    tests = parse_json_or_literal(encoded, "tests") if isinstance(encoded, str) else encoded
    if not isinstance(tests, list) or not tests:
        raise ParseError("it has no tests")
    return distinct_cases(
        [
            Case(join_lines(given, "an input"), join_lines(expected, "an output"))
            for given, expected in map(_pair, tests)
        ]
    )


def _pair(test: Any) -> tuple[object, object]:
    if isinstance(test, Mapping) and {"input", "output"} <= test.keys():
        return test["input"], test["output"]
    if isinstance(test, list | tuple) and len(test) == 2:
        return test[0], test[1]
    raise ParseError("a test has no input and output")
