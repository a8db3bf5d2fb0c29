"""What a model is evaluated on: the problems of a dataset that curate wrote, of LiveCodeBench or of HumanEval."""

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from curate.dataset.reader import Stored, readable
from curate.decontamination.evaluation_sets import unpacked
from curate.difficulty.prompt import chat
from curate.errors import CurateError
from curate.problem import Problem, Rejection
from curate.reading.tables import Table, Unreadable, locate, read_rows
from curate.reading.values import short
from curate.sources.livecodebench import read as read_livecodebench
from curate.sources.livecodebench import select as release_of
from sandbox import Case, Limits, Program, Suite
from train.sampling.protocol import Chat

log = logging.getLogger(__name__)

_HUMANEVAL = ("task_id", "prompt", "entry_point", "test")
_CHECKS = "every_check_passes"  # a function put behind an answer to HumanEval
_HUMANEVAL_SECONDS = 3.0  # as in OpenAI's harness
_FUTURE = re.compile(r"^from __future__ import .*\n?", re.MULTILINE)  # must stand before everything else


@dataclass(frozen=True, slots=True)
class Exercise:
    """A problem as a model sees it, and as its answer is judged: `before`, what the model wrote, `after`."""

    id: str
    chat: Chat
    suite: Suite
    before: str = ""
    after: str = ""

    def program(self, source: str) -> Program:
        if not (self.before or self.after):
            return Program(source)
        future = "".join(line.rstrip("\n") + "\n" for line in _FUTURE.findall(source))
        return Program(f"{future}{self.before}\n{_FUTURE.sub('', source)}\n{self.after}")

    @property
    def name(self) -> str:
        """Names everything that an answer and its verdict depend on, but for the model and its sampling."""
        content = [self.id, self.chat, self.suite.to_json(), self.before, self.after]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def exercises(location: str, window: str = "", most: int = 0) -> tuple[Exercise, ...]:
    """Read a set: the folder of a dataset, or a file, folder or Hub id of LiveCodeBench's or HumanEval's own rows.

    window: FROM..TO, the first and the last day of contests, both included. most: so many problems, always the same
    ones of a set; 0: all. All tests are held in memory. Raises CurateError.
    """
    bounds = _bounds(window)
    folder = Path(location).expanduser()
    if any((folder / "data").glob("*.parquet")):
        with readable(folder):
            found = list(_of_dataset(Stored(folder), bounds))
    else:
        found = list(_of_table(locate(location), bounds))
    if not found:
        raise CurateError(f"{location}: no problem in it{f' from {window}' if window else ''}.")
    chosen = {
        exercise.id for exercise in sorted(found, key=lambda one: hashlib.sha256(one.id.encode()).digest())[:most]
    }
    return tuple(exercise for exercise in found if not most or exercise.id in chosen)


def _bounds(window: str) -> tuple[str, str] | None:
    if not window:
        return None
    first, _, last = window.partition("..")
    try:
        bounds = date.fromisoformat(first).isoformat(), date.fromisoformat(last).isoformat()
    except ValueError:
        raise CurateError(f"{window!r} is not FROM..TO, such as 2024-08-01..2025-02-01.") from None
    if bounds[0] > bounds[1]:
        raise CurateError(f"{window}: {bounds[0]} is after {bounds[1]}; no contest lies between them.")
    return bounds


def _of_dataset(stored: Stored, bounds: tuple[str, str] | None) -> Iterator[Exercise]:
    undated = 0
    for row in stored.columns("id", "statement", "starter_code", "tests", "date"):
        undated += not row["date"]
        if bounds is None or bounds[0] <= row["date"] <= bounds[1]:
            suite = Suite.from_json(row["tests"])
            yield Exercise(row["id"], chat(row["statement"], row["starter_code"], suite.entry_point), suite)
    if bounds is not None and undated:
        raise CurateError(f"{undated} problems of the dataset have no date, so the window cannot be applied. Leave it.")


def _of_table(table: Table, bounds: tuple[str, str] | None) -> Iterator[Exercise]:
    with unpacked(table) as readable:
        columns = ("question_content", *_HUMANEVAL)
        first = next(read_rows(readable, (), columns), None)
        row = {} if first is None or isinstance(first, Unreadable) else first
        if row.get("question_content"):
            yield from _of_livecodebench(readable, bounds)
        elif all(row.get(name) for name in _HUMANEVAL):
            if bounds is not None:
                raise CurateError(f"{table.location}: HumanEval has no dates. Leave the window out.")
            yield from (_of_humaneval(table.location, row) for row in read_rows(readable, _HUMANEVAL, ()))
        else:
            raise CurateError(
                f"{table.location}: neither a dataset of ours nor rows of LiveCodeBench or HumanEval. "
                "Make a dataset of it: curate build-dataset"
            )


def _of_livecodebench(table: Table, bounds: tuple[str, str] | None) -> Iterator[Exercise]:
    if bounds is not None:
        table = replace(table, options={**table.options, "from": bounds[0], "to": bounds[1]})
    unreadable: list[Rejection] = []
    for found in read_livecodebench(release_of(table)):
        if isinstance(found, Problem):
            messages = chat(found.statement, found.starter_code, found.tests.entry_point)
            yield Exercise(found.id, messages, found.tests)
        else:
            unreadable.append(found)
    _warn(table, unreadable)


def _warn(table: Table, unreadable: Iterable[Rejection]) -> None:
    """LiveCodeBench has some: expected values that are error messages."""
    for found in unreadable:
        log.warning("%s: left out, %s cannot be read: %s", table.location, found.id, found.detail)


def _of_humaneval(location: str, row: dict[str, Any] | Unreadable) -> Exercise:
    """The prompt stands before the answer, as in OpenAI's harness: its imports and helpers are there, and the function
    that waits for its body is defined again by the answer. A call that comes back says that all assertions held. Also
    as there, answer and assertions are one process: who wants to cheat can, so it is no reward to train with."""
    if isinstance(row, Unreadable):
        raise CurateError(f"{location}: {row.place}: {row.detail}. Fetch it again.")
    try:
        id, prompt, name, test = (str(row[column]) for column in _HUMANEVAL)
        compile(f"{prompt}\n{test}", location, "exec")
    except (SyntaxError, ValueError) as error:
        raise CurateError(f"{location}: {row['task_id']} is no Python ({short(error)}). Fetch it again.") from None
    return Exercise(
        id,
        chat("Complete the function below so that it does what its docstring says.", prompt, name),
        Suite(
            [Case("[]", "true")], entry_point=_CHECKS, limits=Limits(wall_seconds=_HUMANEVAL_SECONDS, memory_mb=1024)
        ),
        before=prompt,
        after=f"{test}\n\ndef {_CHECKS}():\n    check({name})\n    return True\n",
    )
