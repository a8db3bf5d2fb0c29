"""The problems on which a model is evaluated: those of a dataset that curate built, or of a suite (see suites/)."""

import hashlib
import logging
from collections import Counter
from datetime import date
from pathlib import Path

from curate.dataset.dataset_reader import DatasetReader, translate_read_errors
from curate.dataset.integrity import check_trusted
from curate.dataset.location import download_dataset
from curate.errors import CurateError
from curate.prompt import PromptFormat
from curate.reading.tables import locate
from curate.trust import ONLY_TRUSTED, TrustPolicy, exclusion_lines, exclusion_message
from rewards.extract import PYTHON_ONLY
from train.evaluation.exercise import Exercise
from train.evaluation.protocols.registry import DEFAULT, SuiteSettings
from train.evaluation.suites import dataset
from train.evaluation.suites.registry import choose_suite
from train.evaluation.suites.suite import DateRange, SuiteOptions

log = logging.getLogger(__name__)

_DEFAULT_PROMPT = PromptFormat()


def read_exercises(
    location: str,
    window: str = "",
    max_problems: int = 0,
    *,
    suite: str = "",
    trust: TrustPolicy = ONLY_TRUSTED,
    prompt: PromptFormat = _DEFAULT_PROMPT,
    languages: tuple[str, ...] = PYTHON_ONLY,
    settings: SuiteSettings = DEFAULT,
) -> tuple[Exercise, ...]:
    """Read a set of problems. All of their tests are held in memory.

    location      the folder or the Hub id of a dataset that curate built, or a file, folder or Hub id of rows that a
                  suite reads
    window        FROM..TO, the first and the last day of contests, both included; empty: all
    max_problems  the maximum number of problems, which are chosen the same way each time; 0: all
    suite         the name of the suite, see suites/registry.py; empty: a dataset, or the only suite that can read the
                  rows
    trust         the rows of a dataset to use; the others are left out, and a warning says how many
    prompt        the form in which the model is asked
    languages     the languages that answers may be written in
    settings      the official form of the prompt, if there is one, and how answers are read; see protocols/

    Raises CurateError if there is no such set, if several suites can read it and none is named, if the dataset was
    altered, or if no problem is left.
    """
    asked = SuiteOptions(_bounds(window), prompt, languages, settings)
    left_out: Counter[str] = Counter()
    problems = _read(location, suite, asked, trust, left_out)
    if not problems:
        why = f" ({'; '.join(exclusion_lines(left_out))})" if left_out else ""
        raise CurateError(f"{location} has no problem{f' from {window}' if window else ''}{why}.")
    if left_out:
        log.warning("%s", exclusion_message(location, left_out))
    if not max_problems:
        return tuple(problems)
    by_digest = sorted(problems, key=lambda exercise: hashlib.sha256(exercise.id.encode()).digest())
    chosen = {exercise.id for exercise in by_digest[:max_problems]}
    return tuple(exercise for exercise in problems if exercise.id in chosen)


def _read(location: str, suite: str, asked: SuiteOptions, trust: TrustPolicy, left_out: Counter[str]) -> list[Exercise]:
    if suite in ("", dataset.NAME):
        folder = download_dataset(location) or Path(location).expanduser()
        if any((folder / "data").glob("*.parquet")):
            check_trusted(folder, trust)
            with translate_read_errors(folder):
                return list(dataset.read(DatasetReader(folder), asked, trust, left_out))
        if suite:
            raise CurateError(f"{location} is not a dataset that curate built: it has no data/*.parquet.")
    table = locate(location)
    rows = choose_suite(table, suite)
    if asked.date_range is not None and not rows.has_dates:
        raise CurateError(f"{table.location}: {rows.title} has no dates. Leave the window out.")
    return list(rows.read(table, asked))


def _bounds(window: str) -> DateRange | None:
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
