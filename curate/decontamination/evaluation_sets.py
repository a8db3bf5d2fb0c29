"""Evaluation sets: what a model will be tested with, and a training set must not hold."""

import gzip
import pkgutil
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from curate.decontamination import evaluations
from curate.errors import CurateError
from curate.reading.prompt_templates import without_template
from curate.reading.tables import Table, Unreadable, locate, read_rows, sha256
from curate.reading.values import short
from curate.text.ngrams import words

# Shorter prose is a sentence that anybody might write.
LEAST_PROSE = 16
# Where the story ends: examples and formats follow, which others write in their own way or leave out.
_KINDS = evaluations.__name__
_END_OF_PROSE = re.compile(
    r"^[ \t#*\\-]*(?:samples?|examples?|constraints|input|output|note)\b[ \w]{0,12}[ \t:*-]*$"
    r"|>>>|\bexamples?\s*\d*\s*:",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Item:
    """A problem of an evaluation set. texts: ways to word it; a training row that holds one of them holds it."""

    id: str
    texts: tuple[str, ...]
    keys: frozenset[str] = frozenset()
    date: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """The contests from the first to the last day, both included, as ISO dates. sources: who publishes them."""

    first: str
    last: str
    sources: tuple[str, ...]

    def holds(self, day: str) -> bool:
        return self.first <= day[:10] <= self.last

    def first_of(self, contests: Iterable[tuple[str, str]]) -> str | None:
        """The first day of those on which one of its sources has a contest in the window. contests: source, date."""
        return min((day for source, day in contests if source in self.sources and self.holds(day)), default=None)

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A set by its name: items, a window, or both. plan: what it was read from, for the manifest."""

    name: str
    items: tuple[Item, ...] = ()
    window: Window | None = None
    plan: dict[str, Any] = field(default_factory=dict)


def kinds() -> list[str]:
    """Kinds of evaluation sets: the files of curate/evaluations."""
    return sorted(module.name for module in pkgutil.iter_modules(evaluations.__path__))


def evaluations_of(arguments: Iterable[str]) -> list[Evaluation]:
    """Read the sets that are asked for as NAME=LOCATION, NAME:FROM..TO=LOCATION or NAME:FROM..TO.

    A name that is no kind is read as the kind `generic`. Raises CurateError.
    """
    read = [evaluation(argument) for argument in arguments]
    names = [found.name for found in read]
    for name in names:
        if names.count(name) > 1:
            raise CurateError(f"evaluation set {name} is given twice. Call one of them otherwise.")
    return read


def evaluation(argument: str) -> Evaluation:
    """Read one set. Raises CurateError."""
    head, _, location = argument.partition("=")
    name, _, dates = head.partition(":")
    if not re.fullmatch(r"[\w.-]+", name) or not (location or dates):
        raise CurateError(
            f"{argument}: say what to compare with, such as humaneval=HumanEval.jsonl.gz, "
            "lcb:2024-08-01..2025-02-01=LOCATION or lcb:2024-08-01..2025-02-01."
        )
    kind = import_module(f"{_KINDS}.{name if name in kinds() else 'generic'}")
    window = _window(argument, dates, getattr(kind, "SOURCES", ())) if dates else None
    plan: dict[str, Any] = {"name": name, "window": window and str(window), "files": []}
    if not location:
        return Evaluation(name, window=window, plan=plan)
    table = _test_files(locate(location), location)
    plan["files"] = [{"name": file.name, "sha256": sha256(file)} for file in table.files]
    with unpacked(table) as readable:
        items = tuple(
            item for item in kind.read(readable) if window is None or not item.date or window.holds(item.date)
        )
    if not items:
        raise CurateError(f"{location}: no evaluation item in it{f' from {window}' if window else ''}.")
    return Evaluation(name, items, window, plan)


def rows(table: Table, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a set with those of the columns that it has, and a name for each: its file and place from zero.

    Raises CurateError on a line that cannot be read: of a set that is not whole, nothing could be ruled out.
    """
    for path in table.files:
        for place, row in enumerate(read_rows(replace(table, files=(path,)), (), columns)):
            if isinstance(row, Unreadable):
                raise CurateError(f"{path}: {row.place}: {row.detail}. Fetch it again.")
            yield f"{path.name}:{place}", row


def text_of(table: Table, name: str, row: dict[str, Any], columns: Sequence[str]) -> str:
    """The first of the columns that holds something. Raises CurateError if none does."""
    found = next((row[column] for column in columns if row[column]), None)
    if not isinstance(found, str) or not found.strip():
        raise CurateError(f"{table.location}: no text in {name}. Columns that may hold it: {', '.join(columns)}.")
    return found


def wordings(text: str, prose: str | None = None) -> tuple[str, ...]:
    """The text without a template, and its prose alone if that is long enough. prose: where it is not the beginning."""
    text = without_template(text)
    end = _END_OF_PROSE.search(text if prose is None else prose)
    prose = (text if prose is None else prose)[: end.start() if end else None].strip()
    return (text, prose) if len(words(prose)) >= LEAST_PROSE and prose != text else (text,)


def _window(argument: str, dates: str, sources: Sequence[str]) -> Window:
    if not sources:
        dated = [name for name in kinds() if hasattr(import_module(f"{_KINDS}.{name}"), "SOURCES")]
        raise CurateError(f"{argument}: dates can only be given to {', '.join(dated)}.")
    first, _, last = dates.partition("..")
    try:
        bounds = [date.fromisoformat(bound).isoformat() for bound in (first, last)]
    except ValueError:
        raise CurateError(f"{argument}: {dates} is not FROM..TO, such as 2024-08-01..2025-02-01.") from None
    if bounds[0] > bounds[1]:
        raise CurateError(f"{argument}: {bounds[0]} is after {bounds[1]}; no contest lies between them.")
    return Window(bounds[0], bounds[1], tuple(sources))


def _test_files(table: Table, location: str) -> Table:
    """What is found by itself is what a model trains on; being compared with that would find nothing or all."""
    chosen = "?" in location or Path(location).expanduser().is_file()
    if not chosen and any(path.name.startswith("train") or path.parent.name == "train" for path in table.files):
        raise CurateError(
            f"{location}: holds files named train. Say which ones are the evaluation set: {location}?files=test*"
        )
    return table


@contextmanager
def unpacked(table: Table) -> Iterator[Table]:
    """The table with its gzipped files unpacked for the time being."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, path in enumerate(table.files):
            if path.suffix == ".gz":
                unpacked = Path(folder) / str(number) / path.stem
                unpacked.parent.mkdir()
                try:
                    with gzip.open(path) as packed, unpacked.open("wb") as file:
                        shutil.copyfileobj(packed, file)
                except (OSError, EOFError) as error:
                    raise CurateError(f"{path}: damaged or incomplete ({short(error)}). Fetch it again.") from error
                path = unpacked
            files.append(path)
        yield replace(table, files=tuple(files))
