"""Samples from other tools, in the file formats of EvalPlus and LiveCodeBench, for `curate evaluate --samples`.

    {"task_id": "HumanEval/0", "solution": "..."}      a program: EvalPlus
    {"task_id": "HumanEval/0", "completion": "..."}    the rest of a program that begins with the prompt: HumanEval
    HumanEval_0/0.py                                   a program in a folder: EvalPlus
    {"question_id": "abc301_a", "code_list": ["..."], "output_list": ["..."]}
                                                       programs and their completions: LiveCodeBench

A file has a JSON object on each line, or one JSON list of them. As in the official evaluators, a problem without
samples is an error, and unknown tasks are skipped with a warning. Several lines of a task are several samples, but two
entries with a list are an error. pass@j is known up to the smallest number of samples of a problem. An empty program is
a wrong sample.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from curate.errors import CurateError
from curate.prompt import PromptFormat
from curate.reading.text_files import open_text
from curate.reading.values import shorten
from train.evaluation.exercises import format_ids
from train.evaluation.judges.call_judge import CallJudge
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.protocols.forms import COMPLETION_FORMS
from train.evaluation.protocols.settings import CHAT, COMPLETE, EvaluationSettings, resolve_settings
from train.evaluation.suites.suite import Exercise

log = logging.getLogger(__name__)

_WHOLE = "whole"  # extraction rule for programs
_SOLUTION, _COMPLETION, _CODE, _OUTPUTS = "solution", "completion", "code_list", "output_list"
_FIELDS = (_SOLUTION, _COMPLETION, _CODE, _OUTPUTS)  # if an object has several, the first one counts
_ADVICE = (
    'An entry is {"task_id": ..., "solution": PROGRAM}, or {"question_id": ..., "code_list": [PROGRAM, ...]} for '
    "LiveCodeBench."
)
_JUDGE_SETTINGS = ("form", "mode", "extraction", "window", "test_seconds")  # settings that affect verdicts


class _Entry(Struct):
    """An object of a file."""

    task_id: str | int | None = None
    question_id: str | int | None = None
    solution: str | None = None
    completion: str | None = None
    code_list: list[str] | None = None
    output_list: list[str] | None = None


@dataclass(frozen=True, slots=True)
class SampleFile:
    """The samples in a file or folder.

    field   field that has the samples: one of _FIELDS
    texts   samples by task name, in the order of the file
    places  first occurrence of each task, such as "line 3"
    """

    path: Path
    field: str
    texts: Mapping[str, tuple[str, ...]]
    places: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the name of the file without extensions, the default name of the model."""
        return self.path.name.partition(".json")[0]

    def as_table(self) -> dict[str, Any]:
        """Return the section of a result about its samples, as JSON values."""
        table = {"file": str(self.path), "field": self.field}
        if self.path.is_file():
            with self.path.open("rb") as file:
                table["file_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
        return table

    def settings(self, protocol: str | None, suite: str, overrides: Mapping[str, Any]) -> EvaluationSettings:
        """Return the settings for judging the samples.

        protocol   supplies the window and time limit; None: all contests, and the suite's own limits
        suite      name of the suite; empty with --data
        overrides  the user's overrides: window, k and extraction

        Raises CurateError if the protocol does not cover the suite, or if its programs do not begin with a prompt.
        """
        is_completion = self.field == _COMPLETION
        suites = [name for form in COMPLETION_FORMS if form.begins_program for name in form.suites]
        if is_completion and suite not in suites:
            raise CurateError(
                f"{self.path} has completions, which continue the prompts of {', '.join(suites)}, not of "
                f"{suite or 'a suite without a name'}. Name the suite with --suite, or give whole programs as "
                f'"{_SOLUTION}".'
            )
        official = resolve_settings(protocol, suite, overrides, PromptFormat()).suite_settings
        rule = overrides.get("extraction") or (official.extraction if self.field == _OUTPUTS else _WHOLE)
        judged = {"window": official.window, "extraction": rule, "mode": COMPLETE if is_completion else CHAT}
        used = resolve_settings(None, suite, judged, PromptFormat()).suite_settings
        used = replace(used, test_seconds=official.test_seconds)
        table = used.as_table()
        return EvaluationSettings(used, {"name": protocol, **{name: table[name] for name in _JUDGE_SETTINGS}})

    def assign(self, exercises: Sequence[Exercise], k: int | None = None) -> dict[str, tuple[str, ...]]:
        """Return the samples of each exercise by id, and warn about the rest.

        k: samples of each; None: all

        Raises CurateError if an exercise has none or fewer than k, or its judge does not judge programs.
        """
        for exercise in exercises:
            if not isinstance(exercise.judge, SuiteJudge | CallJudge):
                raise CurateError(f"{self.path} has programs, and {exercise.id} asks for something else.")
        ids = _map_names_to_ids(exercises)
        found: dict[str, tuple[str, ...]] = {}
        for name, texts in self.texts.items():
            if name in ids:
                found[ids[name]] = found.get(ids[name], ()) + texts
        unknown = [f"{name} ({self.places[name]})" for name in self.texts if name not in ids]
        missing = [exercise.id for exercise in exercises if not found.get(exercise.id)]
        if not found:
            raise CurateError(
                f"{self.path} has no sample of these problems: its tasks are {format_ids(unknown)}, the problems "
                f"{format_ids(missing)}. Name the suite of the samples with --suite."
            )
        if missing:
            raise CurateError(
                f"{self.path} has no sample of {len(missing)} of {len(exercises)} problems: {format_ids(missing)}. "
                "Each problem counts: add what is missing, as an empty program where the model gave none."
            )
        few = [f"{id} ({len(texts)})" for id, texts in found.items() if len(texts) < (k or 1)]
        if few:
            raise CurateError(
                f"{self.path} has fewer than --k {k} samples of {format_ids(few)}. Leave --k out to judge all samples."
            )
        if unknown:
            log.warning("%s: %s are not among the problems and are not judged", self.path, format_ids(unknown))
        found = {id: texts[:k] for id, texts in found.items()}
        numbers = sorted({len(texts) for texts in found.values()})
        if len(numbers) > 1:
            log.warning(
                "%s: there are %d to %d samples of a problem, so pass@j is known up to j = %d",
                self.path, numbers[0], numbers[-1], numbers[0],
            )  # fmt: skip
        return found


def _map_names_to_ids(exercises: Sequence[Exercise]) -> dict[str, str]:
    """Map the exercises' ids and, where unique, their parts after the suite name to the ids."""
    names = {exercise.id: exercise.id.partition("/")[2] for exercise in exercises}
    times = Counter(names.values())
    return {name: id for id, name in names.items() if name and times[name] == 1} | {id: id for id in names}


def read_sample_file(path: Path, extraction: str | None = None) -> SampleFile:
    """Read the samples in a file or in EvalPlus's folder.

    extraction: rule that will extract programs; unless it takes whole texts, LiveCodeBench's files are read for their
    completions instead of their programs

    Raises CurateError, with the place, if a sample is invalid, and if there are none.
    """
    fields = (_OUTPUTS, *_FIELDS) if extraction not in (None, _WHOLE) else _FIELDS
    texts: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    field = ""
    for place, value in _read_folder(path) if path.is_dir() else _read_values(path):
        try:
            entry = msgspec.convert(value, _Entry)
        except msgspec.ValidationError as error:
            raise CurateError(f"{path}, {place}: {error}. {_ADVICE}") from None
        name = str(entry.question_id if entry.task_id is None else entry.task_id)
        here = next((each for each in fields if getattr(entry, each) is not None), None)
        if here is None or (entry.task_id is None and entry.question_id is None):
            raise CurateError(f"{path}, {place}: it names no task, or has no samples. {_ADVICE}")
        if field not in ("", here):
            raise CurateError(
                f"{path}, {place}: {name} has {here}, and the entries before have {field}. Put them into two files."
            )
        field, samples = here, getattr(entry, here)
        if isinstance(samples, list) and name in places:
            raise CurateError(f"{path}, {place}: {name} is in {places[name]} already. Put its samples into one {here}.")
        places.setdefault(name, place)
        texts.setdefault(name, []).extend(samples if isinstance(samples, list) else [samples])
    if not texts:
        raise CurateError(f"{path} has no samples. {_ADVICE}")
    return SampleFile(path, field, {name: tuple(of_task) for name, of_task in texts.items()}, places)


def _read_values(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the objects in a file, with their places."""
    with open_text(path) as file:
        text = file.read()
    if text.lstrip().startswith("["):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CurateError(f"{path} is not a JSON list: {shorten(error)}. {_ADVICE}") from None
        yield from ((f"entry {number}", value) for number, value in enumerate(values, 1))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                raise CurateError(f"{path}, line {number}: not JSON ({shorten(error)}). {_ADVICE}") from None


def _read_folder(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield an object for each program in a folder of EvalPlus, with its place."""
    for folder in sorted(path.iterdir()):
        for file in sorted(folder.glob("*.py"), key=lambda file: (len(file.stem), file.stem)):
            place = f"{folder.name}/{file.name}"
            try:
                yield place, {"task_id": folder.name.replace("_", "/"), _SOLUTION: file.read_text(encoding="utf-8")}
            except UnicodeDecodeError as error:
                raise CurateError(f"{path}, {place}: not UTF-8 ({shorten(error)}).") from None
