"""The rows of LiveCodeBench that were evaluated, and the dates by which LiveCodeBench's own code chooses the same rows.

It compares dates with their time of day: with --end_date 2025-01-04, a contest on that day at 15:00 is left out, but
one at 00:00 is not. And it takes all rows between two dates, so each needs programs.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from curate.errors import CurateError
from curate.reading.tables import Row, UnreadableRow, locate, read_rows
from curate.reading.values import optional_text
from curate.sources.livecodebench import select_files
from train.evaluation.exports.export_data import ExportData, summarize_ids

SUITES = ("lcb",)
N_LEADERBOARD_ROWS = 880  # the rows of release_v5, and of files that the leaderboard shows
_PREFIX = "livecodebench/"
_COLUMNS = ("question_id", "question_title", "question_content", "platform", "contest_id", "contest_date")
_OPTIONAL = ("starter_code", "difficulty")


@dataclass(frozen=True, slots=True)
class LiveCodeBenchSelection:
    """rows        the rows between the dates, in LiveCodeBench's order
    dates       first and last date as LiveCodeBench takes them; None: all rows
    unreadable  ids of rows that we cannot read, so no model was asked. Programs for them are empty, and count as wrong
    """

    rows: tuple[Row, ...]
    dates: tuple[str, str] | None
    unreadable: tuple[str, ...]

    @property
    def cli_arguments(self) -> str:
        """Return the options by which LiveCodeBench's commands choose these rows."""
        return "" if self.dates is None else f" --start_date {self.dates[0]} --end_date {self.dates[1]}"


def id_of(row: Row) -> str:
    """Return our id of a problem."""
    return _PREFIX + optional_text(row["question_id"])


def select_rows(answers: ExportData) -> LiveCodeBenchSelection:
    """Return the rows that were evaluated.

    Raises CurateError if LiveCodeBench cannot choose just these. An empty list of programs would not do for the others:
    LiveCodeBench drops pass@k if one problem has fewer than k samples, and an empty program would count as wrong.
    """
    rows = _rows(answers.loaded_result.result.location)
    evaluated = {problem.id for problem in answers.problems}
    not_evaluated = [row for row in rows if id_of(row) not in evaluated and _in_window(row, answers)]
    unreadable = {id_of(row) for row in not_evaluated} - answers.exercises.keys()
    left_out = [id_of(row) for row in not_evaluated if id_of(row) not in unreadable]
    if left_out:
        raise CurateError(
            f"{summarize_ids(left_out)} were not evaluated, and LiveCodeBench takes all problems between two dates. "
            "Evaluate without --problems; samples that are there are not drawn again."
        )
    days = [_time(row).date() for row in rows if id_of(row) in evaluated]
    first, last = min(days), max(days)
    for dates in (None, (first, last), (first, last + timedelta(1))):
        chosen = [row for row in rows if dates is None or _at(dates[0]) <= _time(row) <= _at(dates[1])]
        ids = {id_of(row) for row in chosen}
        if evaluated <= ids and ids - evaluated <= unreadable:
            in_order = sorted(chosen, key=lambda row: str(row["question_id"]))
            named = None if dates is None else (dates[0].isoformat(), dates[1].isoformat())
            return LiveCodeBenchSelection(tuple(in_order), named, tuple(sorted(ids - evaluated)))
    raise CurateError(
        f"LiveCodeBench's dates end at midnight, so it cannot choose the contests up to {last} without those of the "
        f"next day at midnight. Evaluate with --window {first}..{last + timedelta(1)}; samples that are there are not "
        "drawn again."
    )


def _rows(location: str) -> list[Row]:
    rows = list(read_rows(select_files(locate(location)), _COLUMNS, _OPTIONAL))
    return [row for row in rows if not isinstance(row, UnreadableRow)]


def _in_window(row: Row, answers: ExportData) -> bool:
    first, _, last = answers.loaded_result.result.window.partition("..")
    return not first or first <= _time(row).date().isoformat() <= last


def _time(row: Row) -> datetime:
    """Return when a contest was held. Raises CurateError if the row does not say it."""
    try:
        return datetime.fromisoformat(str(row["contest_date"]))
    except ValueError:
        raise CurateError(f"{id_of(row)}: its contest_date is not a date, and LiveCodeBench needs one.") from None


def _at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)
