"""AIME 2024 and 2025: the 30 problems of a year, whose answers are whole numbers from 0 to 999."""

from collections.abc import Iterator
from functools import partial

from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import optional_text
from train.evaluation.exercise import Exercise
from train.evaluation.judges.math_judge import MathJudge, parse_integer
from train.evaluation.protocols.protocol import Statement
from train.evaluation.suites.mathematics import chat, check_installed
from train.evaluation.suites.suite import RowSuite, SuiteOptions, parse_metadata, unreadable, valid_rows

_COLUMNS = ("problem", "answer")
_OPTIONAL = ("year", "url", "unique_id", "id", "aime_number", "problem_number", "difficulty")


def _recognises(year: int, row: Row) -> bool:
    """A row of another year, or of MATH-500, is refused. Some files do not name the year."""
    named = optional_text(row["year"]) or optional_text(row["url"])
    return all(row[name] for name in _COLUMNS) and not row["unique_id"] and (not named or str(year) in named)


def _read(year: int, table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, ())
    check_installed()
    for place, row in enumerate(valid_rows(table, _COLUMNS, _OPTIONAL)):
        id = f"aime{year}/{_number(row, place)}"
        answer = optional_text(row["answer"])
        if parse_integer(answer) is None:
            raise unreadable(table, id, f"its answer {answer[:80]!r} is not a whole number")
        problem = str(row["problem"])
        judge = MathJudge(answer, expects_integer=True)
        yield asked.make_exercise(
            id, Statement(problem), chat(asked.prompt, problem), judge, parse_metadata(row["difficulty"])
        )


def _number(row: Row, place: int) -> str:
    """Return a name of a problem among those of its year."""
    parts = [optional_text(row["aime_number"]), optional_text(row["problem_number"])]
    return "-".join(parts) if all(parts) else optional_text(row["id"]) or str(place)


def _suite(year: int, hub_id: str) -> RowSuite:
    return RowSuite(
        f"aime{year % 100}",
        f"AIME {year}",
        hub_id,
        (*_COLUMNS, *_OPTIONAL),
        partial(_recognises, year),
        partial(_read, year),
    )


AIME24 = _suite(2024, "HuggingFaceH4/aime_2024")
AIME25 = _suite(2025, "math-ai/aime25")
