"""Bring raw rows into a build: find the sources, read their problems, and apply the filters to each problem."""

import hashlib
import heapq
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

from curate import sources
from curate.errors import CurateError
from curate.filters.few_tests import few_tests
from curate.filters.image import image
from curate.filters.interactive import interactive
from curate.filters.no_reference import no_reference
from curate.filters.no_statement import no_statement
from curate.filters.wrong_language import wrong_language
from curate.options import BuildOptions
from curate.problem import Problem, Rejection, encode_problem, to_row
from curate.reading.location import LocationSpec
from curate.reading.tables import TableFiles, locate, validate_options
from curate.reading.values import shorten

MAPPING_SOURCE = "generic"  # the source that reads data by a mapping
_OWN_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
STAGES = ("parse", "filter")  # the names of these two steps in a rejection


def source_names() -> list[str]:
    """Return the names of all sources, which are the names of the files in curate/sources."""
    return sorted(module.name for module in pkgutil.iter_modules(sources.__path__))


def source_tables(locations: Sequence[tuple[str, LocationSpec]]) -> list[tuple[str, TableFiles]]:
    """Find the files of the named sources.

    locations: (name, location) of each source. A name that is not one of source_names() is the user's own name for
    data that a mapping describes, a TOML file or a table of the same content

    Raises CurateError if there is no such source or no file.
    """
    names = [name for name, _ in locations]
    for name, location in locations:
        if name not in source_names():
            _check_own_name(name, location)
        if names.count(name) > 1:
            raise CurateError(f"source {name} is given twice. Put its files into one folder.")
    return [(name, _table(name, location)) for name, location in locations]


def source_module(name: str) -> Any:
    """Return the module that reads a source: the one of that name, or otherwise the one that reads by a mapping."""
    return import_module(f"curate.sources.{name if name in source_names() else MAPPING_SOURCE}")


def _check_own_name(name: str, location: LocationSpec) -> None:
    mapped = Path(location.partition("?")[0]).suffix == ".toml" if isinstance(location, str) else "fields" in location
    if not mapped:
        raise CurateError(
            f"unknown source {name}. Choose one of {', '.join(source_names())}; or describe data of your own in a "
            f"mapping, and write --source {name}=mapping.toml (docs/guides/sources.md)."
        )
    if not _OWN_NAME.fullmatch(name):
        raise CurateError(
            f"{name!r} cannot be the name of a source, because the ids of its rows begin with it. Use small letters, "
            "digits, _ and -, beginning with a letter, such as my_problems=mapping.toml."
        )


def _table(name: str, location: LocationSpec) -> TableFiles:
    table = locate(location)
    source = source_module(name)
    if "fields" in table.options and source.__name__.rpartition(".")[2] != MAPPING_SOURCE:
        raise CurateError(
            f"{name} is a source with a format of its own, so it takes no [fields]. To read data by this mapping, "
            f"give the data another name, such as my_{name}."
        )
    if hasattr(source, "select_files"):
        selected: TableFiles = source.select_files(table)
        return selected
    validate_options(table, ())
    return table


def read_and_filter(tables: Iterable[tuple[str, TableFiles]], options: BuildOptions) -> Iterator[Problem | Rejection]:
    """Read the sources one after another and yield each problem, or its rejection by the first filter that drops it.

    Raises CurateError at once if one of the sources has no problem at all.
    """
    return _screened([(name, table, _first_read(name, table)) for name, table in tables], options)


def _screened(
    started: Iterable[tuple[str, TableFiles, Iterator[Problem | Rejection]]], options: BuildOptions
) -> Iterator[Problem | Rejection]:
    questions: list[Callable[[Problem], str | None]] = [
        partial(no_reference, keep_unpublished=options.no_reference == "keep"),
        partial(wrong_language, languages=options.reference_languages),
        partial(few_tests, at_least=options.min_tests),
        no_statement,
        image,
        interactive,
    ]
    for name, table, items in started:
        seen: set[str] = set()
        for item in _chosen(name, table, items, options):
            if item.id in seen:
                detail = "the first row of this id was read"
                yield Rejection(item.id, name, "parse", "repeated_id", detail, statement=item.statement)
                continue
            seen.add(item.id)
            if isinstance(item, Rejection):
                yield item
            elif reason := _unstorable(item):
                yield Rejection(item.id, name, "parse", "unparsable", reason, statement=item.statement)
            elif reason := next(filter(None, (question(item) for question in questions)), None):
                yield Rejection(item.id, name, "filter", reason, _shape(item), statement=item.statement)
            else:
                yield item


def _chosen(
    name: str, table: TableFiles, items: Iterator[Problem | Rejection], options: BuildOptions
) -> Iterator[Problem | Rejection]:
    """Return the rows that the options ask for. For a sample, all rows are read once before, to know their ids."""
    items = islice(items, options.limit)
    if options.sample is None:
        return items
    ids = {item.id for item in items}
    chosen = set(heapq.nsmallest(options.sample, ids, key=partial(sample_sort_key, options.seed)))
    return (item for item in islice(_first_read(name, table), options.limit) if item.id in chosen)


def sample_sort_key(seed: int, id: str) -> bytes:
    """Return the key of a row for drawing a sample, which consists of the rows with the smallest keys.

    So a larger sample with the same seed contains a smaller one.
    """
    return hashlib.sha256(f"{seed} {id}".encode("utf-8", "surrogatepass")).digest()


def _first_read(name: str, table: TableFiles) -> Iterator[Problem | Rejection]:
    """Return the rows of a source after reading the first of them. Raises CurateError if there is none."""
    source = source_module(name)
    items: Iterator[Problem | Rejection]
    items = source.read(table) if name in source_names() else source.read(table, name)
    for first in items:
        return chain([first], items)
    raise CurateError(f"{name}={table.location}: there is no problem in it. Give files that have rows.")


def _unstorable(problem: Problem) -> str | None:
    """Return why no file can hold the problem, or None. The reason says where in its row the text is at fault."""
    try:
        encode_problem(problem)
    except UnicodeEncodeError:
        try:
            json.dumps(to_row(problem), ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            return f"text that is not Unicode: {shorten(error)}"
    return None


def _shape(problem: Problem) -> str:
    solutions = f"{len(problem.solutions or ())} solutions"
    if problem.solutions:
        solutions += f" in {', '.join(sorted({solution.language for solution in problem.solutions}))}"
    return (
        f"{len(problem.tests.cases)} distinct tests of {problem.n_tests_read}, {solutions}, "
        f"{problem.n_pictures} pictures counted by the source"
    )
