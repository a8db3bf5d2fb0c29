"""Bring raw rows into a build: find the sources, read their problems, and apply the filters to each problem."""

import json
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import islice

from curate import sources
from curate.errors import CurateError
from curate.filters.few_tests import few_tests
from curate.filters.image import image
from curate.filters.interactive import interactive
from curate.filters.no_reference import no_reference
from curate.filters.no_statement import no_statement
from curate.filters.wrong_language import wrong_language
from curate.options import Options
from curate.problem import Problem, Rejection, to_row
from curate.reading.tables import Table, known_options, locate
from curate.reading.values import short

STAGES = ("parse", "filter")  # the names of these two steps in a rejection


def source_names() -> list[str]:
    """Return the names of all sources, which are the names of the files in curate/sources."""
    return sorted(module.name for module in pkgutil.iter_modules(sources.__path__))


def source_tables(locations: Sequence[tuple[str, str]]) -> list[tuple[str, Table]]:
    """Find the files of the named sources. Raises CurateError if there is no such source or no file.

    locations: (name, location) of each source
    """
    names = [name for name, _ in locations]
    for name in names:
        if name not in source_names():
            raise CurateError(f"unknown source {name}. Choose one of {', '.join(source_names())}.")
        if names.count(name) > 1:
            raise CurateError(f"source {name} is given twice. Put its files into one folder.")
    return [(name, _table(name, location)) for name, location in locations]


def _table(name: str, location: str) -> Table:
    table = locate(location)
    source = import_module(f"curate.sources.{name}")
    if hasattr(source, "select"):
        selected: Table = source.select(table)
        return selected
    known_options(table, ())
    return table


def screen(tables: Iterable[tuple[str, Table]], options: Options) -> Iterator[Problem | Rejection]:
    """Read the sources one after another and yield each problem, or its rejection by the first filter that drops it."""
    questions: list[Callable[[Problem], str | None]] = [
        partial(no_reference, keep_unpublished=options.no_reference == "keep"),
        partial(wrong_language, languages=options.reference_languages),
        partial(few_tests, at_least=options.min_tests),
        no_statement,
        image,
        interactive,
    ]
    for name, table in tables:
        seen: set[str] = set()
        for item in islice(import_module(f"curate.sources.{name}").read(table), options.limit):
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


def _unstorable(problem: Problem) -> str | None:
    try:
        json.dumps(to_row(problem), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"text that is not Unicode: {short(error)}"
    return None


def _shape(problem: Problem) -> str:
    solutions = f"{len(problem.solutions or ())} solutions"
    if problem.solutions:
        solutions += f" in {', '.join(sorted({solution.language for solution in problem.solutions}))}"
    return (
        f"{len(problem.tests.cases)} distinct tests of {problem.n_tests_read}, {solutions}, "
        f"{problem.n_pictures} pictures counted by the source"
    )
