"""Models by suites: pass@1 of each, which is the best, and which are not significantly worse than the best.

The models of a suite can be compared only if they were asked the same problems with the same tests. Where they were
not, a suite has several columns.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from train.evaluation.results.labels import model_names
from train.evaluation.results.reader import Result
from train.evaluation.statistics.ranking import best_model, compare_with_reference
from train.evaluation.statistics.summary import Summary, summarize


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a model on a suite.

    is_best      whether it has the highest pass@1 of the suite
    p_corrected  of its difference from the best, after Holm's correction; None for the best
    is_close     whether it is not the best, but not significantly worse
    """

    result: Result
    summary: Summary
    is_best: bool
    p_corrected: float | None
    is_close: bool


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The cells by the names of models and of suites. A model without a result on a suite has no cell there."""

    models: tuple[str, ...]
    suites: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]


def leaderboard(results: Sequence[Result]) -> Leaderboard:
    """Return the table of these results. Raises CurateError if results on one suite cannot be compared."""
    columns: dict[str, dict[str, Result]] = {}
    suites = _suites(results)
    rows: list[str] = []
    for name, suite, result in zip(model_names(results), suites, results, strict=True):
        of_suite = columns.setdefault(suite, {})
        row = name if name not in of_suite else f"{name} ({result.path.stem})"
        while row in of_suite:
            row += "'"
        of_suite[row] = result
        if row not in rows:
            rows.append(row)
    cells = {(row, suite): cell for suite, of_suite in columns.items() for row, cell in _ranked(of_suite).items()}
    return Leaderboard(tuple(rows), tuple(columns), cells)


def _ranked(results: dict[str, Result]) -> dict[str, Cell]:
    models = {name: result.outcomes for name, result in results.items()}
    first = best_model(models)
    known = {name: outcomes for name, outcomes in models.items() if any(problem.n for problem in outcomes)}
    contenders = compare_with_reference(first, known) if len(known) > 1 else {}
    cells = {}
    for name, result in results.items():
        contender = contenders.get(name)
        cells[name] = Cell(
            result,
            summarize(result.outcomes),
            is_best=name == first,
            p_corrected=None if contender is None else contender.p_corrected,
            is_close=contender is not None and not contender.differs,
        )
    return cells


def _suites(results: Sequence[Result]) -> list[str]:
    """Return the name of each result's suite, with a number where a name stands for different problems or tests."""
    contents: dict[str, list[str]] = {}
    names = []
    for result in results:
        known = contents.setdefault(result.suite, [])
        content = _content(result)
        if content not in known:
            known.append(content)
        number = known.index(content) + 1
        names.append(result.suite if number == 1 else f"{result.suite} ({number})")
    return names


def _content(result: Result) -> str:
    tests = sorted((problem.id, problem.tests_digest) for problem in result.outcomes)
    return hashlib.sha256(json.dumps(tests).encode()).hexdigest()
