"""The problems of an evaluation: a dataset that curate built, or a suite by name."""

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path

from curate.dataset.dataset import Dataset, translate_read_errors
from curate.dataset.integrity import check_trusted
from curate.dataset.location import download_dataset
from curate.errors import CurateError
from curate.prompt import PromptFormat
from curate.reading.tables import TableFiles, UnreadableRow, locate, read_rows
from curate.trust import ONLY_TRUSTED, TrustPolicy, format_exclusion_message, format_exclusions
from rewards.extract import PYTHON_ONLY
from train.evaluation.protocols.settings import DEFAULT, SuiteSettings
from train.evaluation.suites import code, codeforces, cruxeval, dataset, livecodebench, mathematics
from train.evaluation.suites.suite import DateRange, Exercise, RowSuite, SuiteOptions

log = logging.getLogger(__name__)

_DEFAULT_PROMPT = PromptFormat()

SUITES = (
    code.HUMANEVAL,
    code.HUMANEVAL_PLUS,
    code.MBPP,
    code.MBPP_PLUS,
    livecodebench.SUITE,
    codeforces.SUITE,
    mathematics.AIME24,
    mathematics.AIME25,
    mathematics.MATH500,
    cruxeval.OUTPUT,
    cruxeval.INPUT,
)
_BY_NAME = {suite.name: suite for suite in SUITES}
NAMES = (*_BY_NAME, dataset.NAME)
_MAX_SHOWN = 5  # maximum number of ids in a message


def parse_suite(text: str) -> tuple[str, str]:
    """Parse a value of --suite into a suite name and the location of the suite's rows.

    text: NAME, NAME=LOCATION, or NAME?option=value for the rows on the Hub

    Raises CurateError for an unknown name.
    """
    end = min((index for index in (text.find("="), text.find("?")) if index >= 0), default=len(text))
    name, rest = text[:end], text[end:]
    if name not in NAMES:
        near = get_close_matches(name, NAMES, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise CurateError(f"there is no suite {name!r}; there are {', '.join(NAMES)}.{hint}")
    location = rest[1:] if rest.startswith("=") else _format_hub_location(name, rest)
    if not location:
        raise CurateError(f"--suite {name} needs a path: {name}=PATH")
    return name, location


def _format_hub_location(name: str, options: str) -> str:
    """Append options to a suite's Hub id; "" for a suite without a Hub id."""
    hub_id = _BY_NAME[name].hub_id if name in _BY_NAME else ""
    return hub_id and hub_id + (options.replace("?", "&", 1) if "?" in hub_id else options)


def format_ids(ids: Sequence[str]) -> str:
    """Format the first ids, and the number of the remaining ones."""
    more = len(ids) - _MAX_SHOWN
    return ", ".join(ids[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def has_dates(name: str) -> bool:
    """Return whether a date window can apply to a suite; True for a dataset, which may have dates."""
    return name not in _BY_NAME or _BY_NAME[name].has_dates


def choose_suite(table: TableFiles, name: str = "") -> RowSuite:
    """Return the named suite or, without a name, the only suite that can read the table.

    Raises CurateError if the named suite cannot read the table, or if no suite or several suites can.
    """
    columns = tuple(dict.fromkeys(column for suite in SUITES for column in suite.columns))
    first = next(iter(read_rows(table, (), columns)), None)
    row = dict.fromkeys(columns) if first is None or isinstance(first, UnreadableRow) else first
    able = [suite for suite in SUITES if suite.recognizes(row)]
    choice = " or ".join(suite.name for suite in able)
    if name:
        suite = _BY_NAME[name]
        if suite in able:
            return suite
        others = f" It can be read as {choice}." if able else ""
        raise CurateError(f"{table.location}: its rows are not those of {suite.title}.{others}")
    if len(able) > 1:
        raise CurateError(
            f"{table.location} can be read as {choice}, whose verdicts differ. Choose one: "
            f"--suite {able[-1].name}={table.location}"
        )
    if not able:
        titles = ", ".join(suite.title for suite in SUITES)
        raise CurateError(
            f"{table.location} is neither a dataset that curate built nor rows of {titles}. "
            "Build a dataset from it: curate build-dataset"
        )
    return able[0]


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
    """Read a set of problems, with all of their tests.

    location      folder or Hub id of a dataset that curate built, or file, folder or Hub id of a suite's rows
    window        FROM..TO, inclusive range of contest dates; empty: all
    max_problems  maximum number of problems, chosen by the hash of their ids; 0: all
    suite         name of the suite, one of NAMES; empty: a dataset, or the only suite that can read the rows
    trust         policy for a dataset's rows; a warning counts the excluded rows
    prompt        format of the prompt
    settings      form, mode, extraction and time limits; see protocols/

    Raises CurateError if no suite or, without a name, several suites can read the location, if the dataset was altered,
    or if no problem remains.
    """
    options = SuiteOptions(_parse_window(window), prompt, languages, settings)
    exclusions: Counter[str] = Counter()
    problems = _read(location, suite, options, trust, exclusions)
    if not problems:
        why = f" ({'; '.join(format_exclusions(exclusions))})" if exclusions else ""
        raise CurateError(f"{location} contains no problems{f' from {window}' if window else ''}{why}.")
    if exclusions:
        log.warning("%s", format_exclusion_message(location, exclusions))
    if not max_problems:
        return tuple(problems)
    by_digest = sorted(problems, key=lambda exercise: hashlib.sha256(exercise.id.encode()).digest())
    chosen = {exercise.id for exercise in by_digest[:max_problems]}
    return tuple(exercise for exercise in problems if exercise.id in chosen)


def _read(
    location: str, suite: str, options: SuiteOptions, trust: TrustPolicy, exclusions: Counter[str]
) -> list[Exercise]:
    if suite in ("", dataset.NAME):
        folder = download_dataset(location) or Path(location).expanduser()
        if any((folder / "data").glob("*.parquet")):
            check_trusted(folder, trust)
            with translate_read_errors(folder):
                return list(dataset.read(Dataset(folder), options, trust, exclusions))
        if suite:
            raise CurateError(f"{location} is not a dataset that curate built: it has no data/*.parquet.")
    table = locate(location)
    rows = choose_suite(table, suite)
    if options.date_range is not None and not rows.has_dates:
        raise CurateError(
            f"{table.location}: {rows.title} has no dates. Type --window '', or omit `window` in [evaluation]."
        )
    return list(rows.read(table, options))


def _parse_window(window: str) -> DateRange | None:
    if not window:
        return None
    first, _, last = window.partition("..")
    try:
        bounds = date.fromisoformat(first).isoformat(), date.fromisoformat(last).isoformat()
    except ValueError:
        raise CurateError(f"{window!r} is not FROM..TO, such as 2024-08-01..2025-02-01.") from None
    if bounds[0] > bounds[1]:
        raise CurateError(f"{window}: {bounds[0]} is after {bounds[1]}. Give FROM..TO, the earlier date first.")
    return bounds
