"""Evaluation sets: items and date windows that a training set must not contain, and the parser of `--against`."""

import pkgutil
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from curate.decontamination import evaluations
from curate.errors import CurateError
from curate.manifest import EvaluationSource, InputFile
from curate.reading.prompt_templates import extract_prompt_texts, strip_prompt_template
from curate.reading.tables import TableFiles, UnreadableRow, hash_path, locate, read_rows, validate_options
from curate.recipe import EvaluationSetConfig
from curate.text.ngrams import split_words

_KINDS = evaluations.__name__
# Minimum number of words in a prose text; shorter ones are too generic to identify a problem.
MIN_PROSE = 16

# Headings of examples and formats, which end the prose; copies of a problem change or omit these parts.
_END_OF_PROSE = re.compile(
    r"^[ \t#*\\-]*(?:samples?|examples?|constraints|input|output|note)\b[ \w]{0,12}[ \t:*-]*$"
    r"|>>>|\bexamples?\s*\d*\s*:",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class EvaluationItem:
    """A problem of an evaluation set.

    texts  versions of the problem's text; a training row that contains one of them contains the problem
    keys   see problem_keys.py
    date   ISO date of the problem's contest; empty if unknown
    """

    id: str
    texts: tuple[str, ...]
    keys: frozenset[str] = frozenset()
    date: str = ""


@dataclass(frozen=True, slots=True)
class DateWindow:
    """A range of contest dates, as ISO dates, both included. sources: sources with rows of these contests"""

    first: str
    last: str
    sources: tuple[str, ...]

    def contains(self, day: str) -> bool:
        """Return whether a date, with or without a time, is in the window."""
        return self.first <= day[:10] <= self.last

    def find_earliest_date(self, contests: Iterable[tuple[str, str]]) -> str | None:
        """Return the earliest date in the window; None if there is none.

        contests: source and ISO date of each contest; only contests of the window's sources count
        """
        return min((day for source, day in contests if source in self.sources and self.contains(day)), default=None)

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A named evaluation set with items, a window, or both. files: files of the items"""

    name: str
    items: tuple[EvaluationItem, ...] = ()
    window: DateWindow | None = None
    files: tuple[InputFile, ...] = ()

    @property
    def manifest_entry(self) -> EvaluationSource:
        """The name, window and files of the set, for the manifest."""
        return EvaluationSource(self.name, str(self.window) if self.window else None, self.files)


def list_evaluation_kinds() -> list[str]:
    """Return the kinds of evaluation sets: the names of the files in curate/decontamination/evaluations."""
    return sorted(module.name for module in pkgutil.iter_modules(evaluations.__path__))


def read_evaluations(arguments: Iterable[str]) -> list[EvaluationSet]:
    """Read sets in the form NAME=LOCATION, NAME:FROM..TO=LOCATION or NAME:FROM..TO.

    A NAME other than a kind is read as the kind `generic`. Raises CurateError for an invalid or unreadable set.
    """
    sets = [read_evaluation(argument) for argument in arguments]
    names = [read_set.name for read_set in sets]
    for name in names:
        if names.count(name) > 1:
            raise CurateError(f"two evaluation sets have the name {name}. Rename one of them.")
    return sets


def read_evaluation(argument: str) -> EvaluationSet:
    """Read one evaluation set. Raises CurateError for an invalid or unreadable set."""
    given = EvaluationSetConfig.parse(argument)
    name, location, dates = given.name, given.location, given.window
    if not re.fullmatch(r"[\w.-]+", name) or not (location or dates):
        raise CurateError(
            f"{argument}: not an evaluation set. Pass one such as humaneval=HumanEval.jsonl.gz, "
            "lcb:2024-08-01..2025-02-01=LOCATION or lcb:2024-08-01..2025-02-01."
        )
    kind = import_module(f"{_KINDS}.{name if name in list_evaluation_kinds() else 'generic'}")
    window = _parse_window(argument, dates, getattr(kind, "SOURCES", ())) if dates else None
    if not location:
        return EvaluationSet(name, window=window)
    table = _require_test_files(locate(location), location)
    files = tuple(InputFile(file.name, sha256=hash_path(file)) for file in table.files)
    items = tuple(item for item in kind.read(table) if window is None or not item.date or window.contains(item.date))
    if not items:
        raise CurateError(f"{location}: no evaluation item{f' from {window}' if window else ''}. Choose other files.")
    return EvaluationSet(name, items, window, files)


def _parse_window(argument: str, dates: str, sources: Sequence[str]) -> DateWindow:
    if not sources:
        dated = [name for name in list_evaluation_kinds() if hasattr(import_module(f"{_KINDS}.{name}"), "SOURCES")]
        raise CurateError(f"{argument}: only these sets accept dates: {', '.join(dated)}.")
    first, _, last = dates.partition("..")
    try:
        bounds = [date.fromisoformat(bound).isoformat() for bound in (first, last)]
    except ValueError:
        raise CurateError(f"{argument}: {dates} is not FROM..TO, such as 2024-08-01..2025-02-01.") from None
    if bounds[0] > bounds[1]:
        raise CurateError(f"{argument}: {bounds[0]} is after {bounds[1]}. Swap the dates.")
    return DateWindow(bounds[0], bounds[1], tuple(sources))


def _require_test_files(table: TableFiles, location: str) -> TableFiles:
    """Return the table. Raises CurateError if it includes training files without an explicit selection of files."""
    chosen = "?" in location or Path(location).expanduser().is_file()
    if not chosen and any(path.name.startswith("train") or path.parent.name == "train" for path in table.files):
        raise CurateError(
            f"{location}: contains files named train. Select the files of the evaluation set: {location}?files=test*"
        )
    return table


def read_named_rows(
    table: TableFiles, columns: Sequence[str], *, options: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, row) for the rows of a set. The name consists of the file name and the row's zero-based index.

    columns  columns to read; None for each missing one
    options  names of options that the set's location may have

    Raises CurateError for another option, and for an unreadable line, since an incomplete set has false negatives.
    """
    validate_options(table, options)
    for path in table.files:
        for index, row in enumerate(read_rows(replace(table, files=(path,)), (), columns)):
            if isinstance(row, UnreadableRow):
                raise CurateError(f"{path}: {row.location}: {row.detail}. Download it again.")
            yield f"{path.name}:{index}", row


def extract_text(table: TableFiles, name: str, row: dict[str, Any], columns: Sequence[str]) -> str:
    """Return the text of the first non-empty column, or the user's messages of a chat. Raises CurateError if empty."""
    texts = extract_prompt_texts(next((row[column] for column in columns if row[column]), None))
    text = "\n\n".join(texts or ())
    if not text.strip():
        raise CurateError(f"{table.location}: no text in {name}. Columns that may hold it: {', '.join(columns)}.")
    return text


def derive_texts(text: str, prose: str | None = None) -> tuple[str, ...]:
    """Return the text without its prompt template, and its prose alone if this has at least MIN_PROSE words.

    prose: the part of the text without formats and examples; None: the text up to the first such heading
    """
    text = strip_prompt_template(text)
    end = _END_OF_PROSE.search(text if prose is None else prose)
    prose = (text if prose is None else prose)[: end.start() if end else None].strip()
    return (text, prose) if len(split_words(prose)) >= MIN_PROSE and prose != text else (text,)
