"""Exports of results to the formats of other evaluators, by their command-line names.

lcb              for LiveCodeBench's custom evaluator: the programs of all samples of each problem
lcb-leaderboard  for LiveCodeBench's leaderboard and its computation of scores: completions with our verdicts
evalplus         for EvalPlus: a line with a program for each sample

LiveCodeBench's own code takes all rows between two dates, so each row needs programs. It compares dates with contest
times: --end_date 2025-01-04 excludes a contest on that day at 15:00, but not at 00:00.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from curate.errors import CurateError
from curate.reading.tables import Row, UnreadableRow, locate, read_rows
from curate.reading.values import optional_text
from curate.sources.livecodebench import select_files
from rewards.extract import PYTHON_ONLY
from sandbox import Verdict
from train.evaluation.exercises import format_ids
from train.evaluation.judges.call_judge import CallJudge
from train.evaluation.judges.judge import SuiteJudge
from train.evaluation.rescore import LoadedResult, list_sample_keys, load_result
from train.evaluation.results.result import Result, read_result, shorten_model_name
from train.evaluation.sample_store import SampleRecord, iterate_samples
from train.evaluation.suites.suite import Exercise

# The suites that each export form supports.
SUITES = {"lcb": ("lcb",), "lcb-leaderboard": ("lcb",), "evalplus": ("humaneval+", "mbpp+")}
N_LEADERBOARD_ROWS = 880  # number of rows in release_v5 and in the leaderboard's files
_PREFIX = "livecodebench/"
_COLUMNS = ("question_id", "question_title", "question_content", "platform", "contest_id", "contest_date")
_OPTIONAL = ("starter_code", "difficulty")
_WITHOUT_PROBLEMS = "Evaluate without --problems; existing samples are reused."


@dataclass(frozen=True, slots=True)
class ExportData:
    """A result with its exercises and completions.

    records: completions of each problem by id, in sampling order
    """

    loaded_result: LoadedResult
    records: Mapping[str, tuple[SampleRecord, ...]]

    @property
    def result(self) -> Result:
        return self.loaded_result.result

    def extract_sources(self, id: str) -> list[str]:
        """Extract the program from each completion of a problem; "" for a completion without one.

        Raises CurateError if the completions are not programs in Python.
        """
        return [_extract_source(self.loaded_result.exercises[id], record.text) for record in self.records[id]]


def load_export_data(path: Path, form: str) -> ExportData:
    """Read a result and its completions for an export.

    form: one of SUITES

    Raises CurateError if the form does not support the result's suite, or if a completion is missing.
    """
    loaded = load_result(read_result(path))
    suites, suite = SUITES[form], loaded.result.suite_option
    if suite not in suites:
        raise CurateError(
            f"{path} is the result on {suite or 'a suite without a name'}, but {form} takes "
            f"results on {' or '.join(suites)}. Evaluate with --suite {suites[0]}=PATH."
        )
    keys = {problem.id: list_sample_keys(problem) for problem in loaded.result.outcomes}
    records = dict(iterate_samples(loaded.samples_path, {key for of_problem in keys.values() for key in of_problem}))
    missing = [id for id, of_problem in keys.items() if not all(key in records for key in of_problem)]
    if missing:
        raise CurateError(
            f"samples of {format_ids(missing)} have no completion, and {form} needs one for each. Run the same `curate "
            "evaluate` again, which samples them."
        )
    return ExportData(loaded, {id: tuple(records[key] for key in of_problem) for id, of_problem in keys.items()})


def _extract_source(exercise: Exercise, completion: str) -> str:
    judge = exercise.judge
    if not isinstance(judge, SuiteJudge | CallJudge):
        raise CurateError(f"the completion of {exercise.id} is not a program, so it cannot be exported.")
    if isinstance(judge, SuiteJudge) and judge.languages != PYTHON_ONLY:
        raise CurateError("the completions may be in several languages, but this export form supports only Python.")
    program = judge.extract_program(exercise.assemble_text(completion))
    preamble = judge.preamble if isinstance(judge, CallJudge) else ""
    if program is None:
        return ""
    return f"{preamble}\n{program.source}" if preamble else program.source


def format_evalplus_samples(data: ExportData) -> str:
    """Format the programs as EvalPlus's samples file. Raises CurateError unless all tasks were evaluated."""
    missing_ids = [id for id in data.loaded_result.exercises if id not in data.records]
    if missing_ids:
        raise CurateError(
            f"{format_ids(missing_ids)} were not evaluated, and EvalPlus takes all tasks or none. {_WITHOUT_PROBLEMS}"
        )
    return "".join(
        json.dumps({"task_id": id, "solution": source}) + "\n"
        for id in data.records
        for source in data.extract_sources(id)
    )


@dataclass(frozen=True, slots=True)
class LiveCodeBenchSelection:
    """The evaluated rows of LiveCodeBench.

    rows        rows between the dates, in LiveCodeBench's order
    dates       values of --start_date and --end_date that select these rows; None: all rows
    unreadable  ids of unreadable rows, exported with empty programs, which count as wrong
    """

    rows: tuple[Row, ...]
    dates: tuple[date, date] | None
    unreadable: tuple[str, ...]

    @property
    def cli_arguments(self) -> str:
        """Return the options of LiveCodeBench's commands that select these rows."""
        return "" if self.dates is None else f" --start_date {self.dates[0]} --end_date {self.dates[1]}"


def select_rows(data: ExportData) -> LiveCodeBenchSelection:
    """Select the evaluated rows by LiveCodeBench's dates.

    Raises CurateError if no dates select exactly these rows. Omitted rows cannot have placeholders: LiveCodeBench drops
    pass@k if one problem has fewer than k samples, and counts an empty program as wrong.
    """
    found = read_rows(select_files(locate(data.result.location)), _COLUMNS, _OPTIONAL)
    rows = [row for row in found if not isinstance(row, UnreadableRow)]
    evaluated = data.records.keys()
    first_day, _, last_day = data.result.window.partition("..")
    not_evaluated = {
        _format_problem_id(row)
        for row in rows
        if _format_problem_id(row) not in evaluated
        and (not first_day or first_day <= _parse_contest_time(row).date().isoformat() <= last_day)
    }
    unreadable = not_evaluated - data.loaded_result.exercises.keys()
    missing_ids = [_format_problem_id(row) for row in rows if _format_problem_id(row) in not_evaluated - unreadable]
    if missing_ids:
        raise CurateError(
            f"{format_ids(missing_ids)} were not evaluated, but LiveCodeBench takes all problems between two dates. "
            f"{_WITHOUT_PROBLEMS}"
        )
    days = [_parse_contest_time(row).date() for row in rows if _format_problem_id(row) in evaluated]
    first, last = min(days), max(days)
    for dates in (None, (first, last), (first, last + timedelta(1))):
        chosen = [
            row
            for row in rows
            if dates is None
            or _convert_to_midnight(dates[0]) <= _parse_contest_time(row) <= _convert_to_midnight(dates[1])
        ]
        ids = {_format_problem_id(row) for row in chosen}
        if evaluated <= ids and ids - evaluated <= unreadable:
            chosen.sort(key=lambda row: str(row["question_id"]))
            return LiveCodeBenchSelection(tuple(chosen), dates, tuple(sorted(ids - evaluated)))
    raise CurateError(
        f"LiveCodeBench's dates end at midnight, so no dates select the contests up to {last} without a contest at "
        f"the following midnight. Evaluate with --window {first}..{last + timedelta(1)}; existing samples are "
        "reused."
    )


def _format_problem_id(row: Row) -> str:
    return _PREFIX + optional_text(row["question_id"])


def _parse_contest_time(row: Row) -> datetime:
    try:
        return datetime.fromisoformat(str(row["contest_date"]))
    except ValueError:
        raise CurateError(
            f"{_format_problem_id(row)}: its contest_date is not a date, and LiveCodeBench needs one."
        ) from None


def _convert_to_midnight(day: date) -> datetime:
    return datetime.combine(day, time())


def _extract_sources(row: Row, data: ExportData) -> list[str]:
    """Return the program of each sample of a row; empty programs for an unreadable row."""
    id = _format_problem_id(row)
    return data.extract_sources(id) if id in data.records else [""] * data.result.k


def format_lcb_samples(data: ExportData, selection: LiveCodeBenchSelection) -> str:
    entries = [{"question_id": row["question_id"], "code_list": _extract_sources(row, data)} for row in selection.rows]
    return json.dumps(entries, indent=1) + "\n"


def build_leaderboard_path(data: ExportData) -> Path:
    """Return the path of the leaderboard's result file, MODEL/FILE, relative to its output folder.

    Raises CurateError if the result has no temperature, such as for `curate evaluate --samples`.
    """
    result = data.result
    if "temperature" not in result.sampling:
        raise CurateError(
            f"{result.path} has no temperature, which is part of the name of the leaderboard's file. Export with "
            "--to lcb, which needs none."
        )
    name = f"Scenario.codegeneration_{result.k}_{float(result.sampling['temperature'])}_eval_all.json"
    return Path(shorten_model_name(result.model)) / name


def format_leaderboard(data: ExportData, selection: LiveCodeBenchSelection) -> str:
    """Format completions and verdicts as the leaderboard's file. Raises CurateError if a sample has no verdict."""
    unknown = [problem.id for problem in data.result.outcomes if None in problem.correct]
    if unknown:
        raise CurateError(
            f"samples of {format_ids(unknown)} have no verdict, and the leaderboard needs all. Run the same "
            "`curate evaluate` again, which judges them."
        )
    verdicts = {problem.id: [bool(bit) for bit in problem.correct] for problem in data.result.outcomes}
    return json.dumps([_make_leaderboard_entry(row, data, verdicts) for row in selection.rows], indent=1) + "\n"


def _make_leaderboard_entry(row: Row, data: ExportData, verdicts: Mapping[str, list[bool]]) -> dict[str, Any]:
    k = data.result.k
    records = data.records.get(_format_problem_id(row), ())
    graded = verdicts.get(_format_problem_id(row), [False] * k)
    text = {name: optional_text(row[name]) for name in (*_COLUMNS, *_OPTIONAL)}
    return {
        **{
            name: text[name] for name in ("question_title", "question_content", "platform", "question_id", "contest_id")
        },
        "contest_date": _parse_contest_time(row).isoformat(),
        **{name: text[name] for name in _OPTIONAL},
        "output_list": [record.text for record in records] or [""] * k,
        "code_list": _extract_sources(row, data),
        "graded_list": graded,
        "pass@1": graded.count(True) / len(graded),
        "metadata": [
            json.dumps({} if record.verdict == Verdict.ACCEPTED.value else {"error_message": record.verdict})
            for record in records
        ]
        or ["{}"] * k,
    }
