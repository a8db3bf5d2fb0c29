"""MATH-500: 500 problems of competitions, with answers of many forms."""

from collections.abc import Iterator

from curate.reading.tables import Row, TableFiles, validate_options
from curate.reading.values import optional_text
from train.evaluation.exercise import Exercise
from train.evaluation.judges.math_judge import MathJudge
from train.evaluation.protocols.protocol import Statement
from train.evaluation.suites.mathematics import chat, check_installed
from train.evaluation.suites.suite import RowSuite, SuiteOptions, parse_metadata, unreadable, valid_rows

_COLUMNS = ("problem", "answer")
_OPTIONAL = ("unique_id", "level", "difficulty", "year", "url")


def _recognises(row: Row) -> bool:
    """A row with the year or the address of a contest is of another set."""
    return all(row[name] for name in _COLUMNS) and not row["year"] and not row["url"]


def _read(table: TableFiles, asked: SuiteOptions) -> Iterator[Exercise]:
    validate_options(table, ())
    check_installed()
    for place, row in enumerate(valid_rows(table, _COLUMNS, _OPTIONAL)):
        id = f"math500/{optional_text(row['unique_id']).removesuffix('.json') or place}"
        answer = optional_text(row["answer"])
        if not answer.strip():
            raise unreadable(table, id, "it has no answer")
        problem, known = str(row["problem"]), parse_metadata(row["level"] or row["difficulty"])
        yield asked.make_exercise(id, Statement(problem), chat(asked.prompt, problem), MathJudge(answer), known)


SUITE = RowSuite("math500", "MATH-500", "HuggingFaceH4/MATH-500", (*_COLUMNS, *_OPTIONAL), _recognises, _read)
