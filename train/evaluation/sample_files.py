"""Samples from other tools, in the file formats of EvalPlus and LiveCodeBench, for `curate evaluate --samples`.

    {"task_id": "HumanEval/0", "solution": "..."}      a program: EvalPlus
    {"task_id": "HumanEval/0", "completion": "..."}    the rest of a program that begins with the prompt: HumanEval
    HumanEval_0/0.py                                   a program in a folder: EvalPlus
    {"question_id": "abc301_a", "code_list": ["..."], "output_list": ["..."]}
                                                       programs and their completions: LiveCodeBench

A file has a JSON object on each line, or one JSON list of objects. As in the official evaluators, a problem without
samples is an error, and unknown tasks are skipped with a warning. Several lines of a task are several samples, but two
lists of one task are an error.
"""

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
from curate.reading.tables import hash_path
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
_FIELDS = (_SOLUTION, _COMPLETION, _CODE, _OUTPUTS)  # in order of precedence, for objects with several fields
_ADVICE = (
    'An entry is {"task_id": ..., "solution": PROGRAM}, or {"question_id": ..., "code_list": [PROGRAM, ...]} for '
    "LiveCodeBench."
)
_JUDGE_SETTINGS = ("form", "mode", "extraction", "window", "test_seconds")  # settings on which verdicts depend


class _Entry(Struct):
    task_id: str | int | None = None
    question_id: str | int | None = None
    solution: str | None = None
    completion: str | None = None
    code_list: list[str] | None = None
    output_list: list[str] | None = None


@dataclass(frozen=True, slots=True)
class SampleFile:
    """The samples in a file or folder.

    field      field with the samples: one of _FIELDS
    texts      samples by task name, in the order of the file
    locations  location of the first entry of each task, such as "line 3"
    """

    path: Path
    field: str
    texts: Mapping[str, tuple[str, ...]]
    locations: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the name of the file without extensions, which is the model's default name."""
        return self.path.name.partition(".json")[0]

    def as_table(self) -> dict[str, Any]:
        table = {"file": str(self.path), "field": self.field}
        if self.path.is_file():
            table["file_sha256"] = hash_path(self.path)
        return table

    def resolve_settings(self, protocol: str | None, suite: str, overrides: Mapping[str, Any]) -> EvaluationSettings:
        """Resolve the settings for judging the samples.

        protocol   protocol with the window and time limit; None: all contests, and the suite's own limits
        overrides  the user's values of window, k and extraction

        Raises CurateError if the protocol does not cover the suite, or if the file has completions but the suite's
        prompts do not begin a program.
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
        """Return the samples of each exercise by id, and warn about unknown tasks.

        k: samples of each exercise; None: all

        Raises CurateError if an exercise has no sample or fewer than k, or its judge takes no programs.
        """
        for exercise in exercises:
            if not isinstance(exercise.judge, SuiteJudge | CallJudge):
                raise CurateError(
                    f"{self.path} has programs, but {exercise.id} is not judged by a program. Choose another --suite."
                )
        ids = _map_names_to_ids(exercises)
        found: dict[str, tuple[str, ...]] = {}
        for name, texts in self.texts.items():
            if name in ids:
                found[ids[name]] = found.get(ids[name], ()) + texts
        unknown = [f"{name} ({self.locations[name]})" for name in self.texts if name not in ids]
        missing = [exercise.id for exercise in exercises if not found.get(exercise.id)]
        if not found:
            raise CurateError(
                f"{self.path} has no samples for these problems. The file has tasks {format_ids(unknown)}; the "
                f"problems are {format_ids(missing)}. Name the suite of the samples with --suite."
            )
        if missing:
            raise CurateError(
                f"{self.path} has no samples for {len(missing)} of {len(exercises)} problems: {format_ids(missing)}. "
                "Each problem counts: add its samples, with an empty program if the model gave none."
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
                "%s: the number of samples of a problem is %d to %d, so pass@j is known only up to j = %d",
                self.path, numbers[0], numbers[-1], numbers[0],
            )  # fmt: skip
        return found


def _map_names_to_ids(exercises: Sequence[Exercise]) -> dict[str, str]:
    """Map the names of exercises to ids: the id itself and, if unique, the id without the suite name."""
    names = {exercise.id: exercise.id.partition("/")[2] for exercise in exercises}
    counts = Counter(names.values())
    return {name: id for id, name in names.items() if name and counts[name] == 1} | {id: id for id in names}


def read_sample_file(path: Path, extraction: str | None = None) -> SampleFile:
    """Read the samples in a file or in EvalPlus's folder.

    extraction: the user's extraction rule; None: no choice. In LiveCodeBench's files, a rule other than `whole` selects
    the completions instead of the programs

    Raises CurateError for an invalid sample, with its location, and for a file without samples.
    """
    fields = (_OUTPUTS, *_FIELDS) if extraction not in (None, _WHOLE) else _FIELDS
    texts: dict[str, list[str]] = {}
    locations: dict[str, str] = {}
    field = ""
    for location, value in _read_folder(path) if path.is_dir() else _read_values(path):
        try:
            entry = msgspec.convert(value, _Entry)
        except msgspec.ValidationError as error:
            raise CurateError(f"{path}, {location}: {error}. {_ADVICE}") from None
        name = str(entry.question_id if entry.task_id is None else entry.task_id)
        entry_field = next((each for each in fields if getattr(entry, each) is not None), None)
        if entry_field is None or (entry.task_id is None and entry.question_id is None):
            raise CurateError(f"{path}, {location}: it names no task, or has no samples. {_ADVICE}")
        if field not in ("", entry_field):
            raise CurateError(
                f"{path}, {location}: {name} has {entry_field}, but earlier entries have {field}. Use two files."
            )
        field, samples = entry_field, getattr(entry, entry_field)
        if isinstance(samples, list) and name in locations:
            raise CurateError(
                f"{path}, {location}: {name} is in {locations[name]} already. Put its samples into one {entry_field}."
            )
        locations.setdefault(name, location)
        texts.setdefault(name, []).extend(samples if isinstance(samples, list) else [samples])
    if not texts:
        raise CurateError(f"{path} has no samples. {_ADVICE}")
    return SampleFile(path, field, {name: tuple(of_task) for name, of_task in texts.items()}, locations)


def _read_values(path: Path) -> Iterator[tuple[str, Any]]:
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
    """Yield (location, object) for each program in a folder of EvalPlus's layout."""
    for folder in sorted(path.iterdir()):
        for file in sorted(folder.glob("*.py"), key=lambda file: (len(file.stem), file.stem)):
            location = f"{folder.name}/{file.name}"
            try:
                yield location, {"task_id": folder.name.replace("_", "/"), _SOLUTION: file.read_text(encoding="utf-8")}
            except UnicodeDecodeError as error:
                raise CurateError(f"{path}, {location}: not UTF-8 ({shorten(error)}).") from None
