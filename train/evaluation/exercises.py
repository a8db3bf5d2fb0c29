"""The problems on which a model is evaluated: those of a dataset that curate wrote, LiveCodeBench or HumanEval."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from curate.dataset.integrity import check_trusted
from curate.dataset.locate import pushed_dataset
from curate.dataset.reader import Stored, readable
from curate.errors import CurateError
from curate.problem import Problem, Rejection
from curate.prompt import Chat, Prompt
from curate.reading.dialects import assertions
from curate.reading.tables import Table, Unreadable, locate, read_rows
from curate.reading.values import Unparsable
from curate.sources.humaneval import before_function
from curate.sources.livecodebench import read as read_livecodebench
from curate.sources.livecodebench import select as release_of
from curate.trust import ONLY_TRUSTED, Trust, left_out_lines, left_out_text
from rewards.extract import PYTHON_ONLY, languages_for, submission_in
from sandbox import Limits, Program, Suite

log = logging.getLogger(__name__)

_HUMANEVAL = ("task_id", "prompt", "entry_point", "test")
_HUMANEVAL_TASK = "Complete the function below so that it does what its docstring says."
_HUMANEVAL_SECONDS = 3.0  # as in OpenAI's harness
_USUAL = Prompt()


@dataclass(frozen=True, slots=True)
class Exercise:
    """A problem as a model sees it.

    languages: the languages that an answer may be written in; see rewards.extract
    """

    id: str
    chat: Chat
    suite: Suite
    languages: tuple[str, ...] = PYTHON_ONLY

    def submission(self, answer: str) -> Program | None:
        """Return the program that is judged for an answer; None if the answer has no program."""
        return submission_in(answer, languages_for(self.suite, self.languages))

    @property
    def name(self) -> str:
        """Return a digest of everything that an answer and its verdict depend on, except the model and its sampling."""
        # The empty texts keep digests as they have been.
        content: list[Any] = [self.id, self.chat, self.suite.to_json(), "", ""]
        if self.languages != PYTHON_ONLY:
            content.append(self.languages)
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def exercises(
    location: str,
    window: str = "",
    most: int = 0,
    *,
    trust: Trust = ONLY_TRUSTED,
    prompt: Prompt = _USUAL,
    languages: tuple[str, ...] = PYTHON_ONLY,
) -> tuple[Exercise, ...]:
    """Read a set of problems. All of their tests are held in memory.

    location   the folder or the Hub id of a dataset that curate built, or a file, folder or Hub id of LiveCodeBench's
               or HumanEval's own rows
    window     FROM..TO, the first and the last day of contests, both included; empty: all
    most       the maximum number of problems, which are chosen the same way each time; 0: all
    trust      the rows of a dataset to use; the others are left out, and a warning says how many
    prompt     the form in which the model is asked
    languages  the languages that answers may be written in

    Raises CurateError if there is no such set, if the dataset was altered, or if no problem is left.
    """
    bounds = _bounds(window)
    folder = pushed_dataset(location) or Path(location).expanduser()
    left_out: Counter[str] = Counter()
    if any((folder / "data").glob("*.parquet")):
        check_trusted(folder, trust)
        with readable(folder):
            read = list(_of_dataset(Stored(folder), bounds, prompt, trust, left_out))
    else:
        read = list(_of_table(locate(location), bounds, prompt))
    problems = [replace(exercise, languages=languages) for exercise in read]
    if not problems:
        why = f" ({'; '.join(left_out_lines(left_out))})" if left_out else ""
        raise CurateError(f"{location} has no problem{f' from {window}' if window else ''}{why}.")
    if left_out:
        log.warning("%s", left_out_text(location, left_out))
    if not most:
        return tuple(problems)
    by_digest = sorted(problems, key=lambda exercise: hashlib.sha256(exercise.id.encode()).digest())
    chosen = {exercise.id for exercise in by_digest[:most]}
    return tuple(exercise for exercise in problems if exercise.id in chosen)


def _bounds(window: str) -> tuple[str, str] | None:
    if not window:
        return None
    first, _, last = window.partition("..")
    try:
        bounds = date.fromisoformat(first).isoformat(), date.fromisoformat(last).isoformat()
    except ValueError:
        raise CurateError(f"{window!r} is not FROM..TO, such as 2024-08-01..2025-02-01.") from None
    if bounds[0] > bounds[1]:
        raise CurateError(f"{window}: {bounds[0]} is after {bounds[1]}, so there is no contest between them.")
    return bounds


def _of_dataset(
    stored: Stored, bounds: tuple[str, str] | None, prompt: Prompt, trust: Trust, left_out: Counter[str]
) -> Iterator[Exercise]:
    """Yield the trusted problems within the bounds, and count the others in `left_out`, by the words of curate.trust.

    Raises CurateError if there are bounds and a problem has no date.
    """
    undated = 0
    for row in stored.columns("id", "statement", "starter_code", "tests", "date", "verified", "multi_answer_suspect"):
        undated += not row["date"]
        if bounds is not None and not bounds[0] <= row["date"] <= bounds[1]:
            continue
        suite = Suite.from_json(row["tests"])
        objection = trust.objection(
            verified=row["verified"], suspect=row["multi_answer_suspect"], checker=suite.checker
        )
        if objection is not None:
            left_out[objection] += 1
        else:
            yield Exercise(row["id"], prompt.chat(row["statement"], row["starter_code"], suite), suite)
    if bounds is not None and undated:
        raise CurateError(f"{undated} problems of the dataset have no date. Leave the window out.")


def _of_table(table: Table, bounds: tuple[str, str] | None, prompt: Prompt) -> Iterator[Exercise]:
    columns = ("question_content", *_HUMANEVAL)
    first = next(read_rows(table, (), columns), None)
    row = {} if first is None or isinstance(first, Unreadable) else first
    if row.get("question_content"):
        yield from _of_livecodebench(table, bounds, prompt)
    elif all(row.get(name) for name in _HUMANEVAL):
        if bounds is not None:
            raise CurateError(f"{table.location}: HumanEval has no dates. Leave the window out.")
        yield from (_of_humaneval(table.location, row, prompt) for row in read_rows(table, _HUMANEVAL, ()))
    else:
        raise CurateError(
            f"{table.location} is neither a dataset that curate built nor rows of LiveCodeBench or HumanEval. "
            "Build a dataset from it: curate build-dataset"
        )


def _of_livecodebench(table: Table, bounds: tuple[str, str] | None, prompt: Prompt) -> Iterator[Exercise]:
    if bounds is not None:
        table = replace(table, options={**table.options, "from": bounds[0], "to": bounds[1]})
    unreadable: list[Rejection] = []
    for row in read_livecodebench(release_of(table)):
        if isinstance(row, Problem):
            yield Exercise(row.id, prompt.chat(row.statement, row.starter_code, row.tests), row.tests)
        else:
            unreadable.append(row)
    _warn(table, unreadable)


def _warn(table: Table, unreadable: Iterable[Rejection]) -> None:
    """Warn about problems that are left out. Some problems of LiveCodeBench have error messages as expected values."""
    for row in unreadable:
        log.warning("%s: %s is left out, it cannot be read: %s", table.location, row.id, row.detail)


def _of_humaneval(location: str, row: dict[str, Any] | Unreadable, prompt: Prompt) -> Exercise:
    """Return a problem of HumanEval, which is judged by its own assertions in a place that no answer can reach.

    The answer and the tests can both use the imports and helpers that stand before the function in the prompt. In
    OpenAI's harness, all of these share a process, and an answer can patch the tests or end them early.
    """
    if isinstance(row, Unreadable):
        raise CurateError(f"{location}: {row.place}: {row.detail}. Download the file again.")
    id, start, name, test = (str(row[column]) for column in _HUMANEVAL)
    try:
        tests = assertions.read(test, name, given=before_function(start, name))
    except Unparsable as error:
        raise CurateError(f"{location}: {id} cannot be read ({error}). Download the file again.") from None
    return Exercise(
        id,
        prompt.chat(_HUMANEVAL_TASK, start, Suite([], entry_point=name)),
        tests.suite(Limits(wall_seconds=_HUMANEVAL_SECONDS, memory_mb=1024)),
    )
