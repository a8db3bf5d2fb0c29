"""AIME 2024 and 2025, with 30 problems a year and integer answers from 0 to 999; and MATH-500."""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

from curate.errors import CurateError
from curate.prompt import MATHEMATICS_INSTRUCTION
from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import optional_text
from sandbox.extras import format_install_command
from train.evaluation.judges.math_judge import MathJudge, parse_integer
from train.evaluation.protocols.forms import Statement
from train.evaluation.suites.suite import (
    Exercise,
    RowSuite,
    SuiteOptions,
    make_row_error,
    parse_metadata,
    read_valid_rows,
)

_COLUMNS = ("problem", "answer")
_AIME = ("year", "url", "unique_id", "id", "aime_number", "problem_number", "difficulty")
_MATH500 = ("unique_id", "level", "difficulty", "year", "url")


def _enumerate_rows(table: TableFiles, optional: tuple[str, ...]) -> Iterator[tuple[int, Row]]:
    """Enumerate the rows. Raises CurateError if math-verify, which the judges need, is not installed."""
    validate_options(table, ())
    if find_spec("math_verify") is None:
        raise CurateError(f"answers of mathematics need math-verify; type: {format_install_command('math')}")
    return enumerate(read_valid_rows(table, _COLUMNS, optional))


def _make_exercise(id: str, row: Row, judge: MathJudge, difficulty: object, options: SuiteOptions) -> Exercise:
    problem = str(row["problem"])
    chat = options.make_default_chat(problem, f"{problem.strip()} {MATHEMATICS_INSTRUCTION}")
    return options.make_exercise(id, Statement(problem), chat, judge, parse_metadata(difficulty))


def _recognizes_aime(year: int, row: Row) -> bool:
    """Return whether a row may belong to this year's AIME: not in MATH-500, and not of another year."""
    named = optional_text(row["year"]) or optional_text(row["url"])
    return all(row[name] for name in _COLUMNS) and not row["unique_id"] and (not named or str(year) in named)


def _read_aime(year: int, table: TableFiles, options: SuiteOptions) -> Iterator[Exercise]:
    for index, row in _enumerate_rows(table, _AIME):
        id = f"aime{year}/{_format_problem_number(row, index)}"
        answer = optional_text(row["answer"])
        if parse_integer(answer) is None:
            raise make_row_error(table, id, f"its answer {answer[:80]!r} is not a whole number")
        yield _make_exercise(
            id, row, MathJudge(answer, True, options.settings.form.answer_line), row["difficulty"], options
        )


def _format_problem_number(row: Row, index: int) -> str:
    parts = [optional_text(row["aime_number"]), optional_text(row["problem_number"])]
    return "-".join(parts) if all(parts) else optional_text(row["id"]) or str(index)


def _make_aime_suite(year: int, hub_id: str) -> RowSuite:
    recognizes, read = partial(_recognizes_aime, year), partial(_read_aime, year)
    return RowSuite(f"aime{year % 100}", f"AIME {year}", hub_id, (*_COLUMNS, *_AIME), recognizes, read)


def _recognizes_math500(row: Row) -> bool:
    """Return whether a row may belong to MATH-500: it has neither a year nor a URL."""
    return all(row[name] for name in _COLUMNS) and not row["year"] and not row["url"]


def _read_math500(table: TableFiles, options: SuiteOptions) -> Iterator[Exercise]:
    for index, row in _enumerate_rows(table, _MATH500):
        id = f"math500/{optional_text(row['unique_id']).removesuffix('.json') or index}"
        answer = optional_text(row["answer"])
        if not answer.strip():
            raise make_row_error(table, id, "it has no answer")
        yield _make_exercise(
            id,
            row,
            MathJudge(answer, answer_line=options.settings.form.answer_line),
            row["level"] or row["difficulty"],
            options,
        )


AIME24 = _make_aime_suite(2024, "HuggingFaceH4/aime_2024")
AIME25 = _make_aime_suite(2025, "math-ai/aime25")
MATH500 = RowSuite(
    "math500", "MATH-500", "HuggingFaceH4/MATH-500", (*_COLUMNS, *_MATH500), _recognizes_math500, _read_math500
)
