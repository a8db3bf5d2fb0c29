"""The first steps of a build: find the sources, read their problems, and filter them.

A filter is a function that returns the reason for dropping a problem, or None to keep it.
"""

import hashlib
import heapq
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from curate import sources
from curate.errors import CurateError
from curate.options import BuildOptions
from curate.problem import Problem, Rejection, encode_problem, to_row
from curate.reading.location import LocationSpec
from curate.reading.solutions import select_candidates
from curate.reading.tables import TableFiles, locate, split_into_shards, validate_options
from curate.reading.values import shorten

MAPPING_SOURCE = "generic"  # the source that reads data by a mapping
_USER_SOURCE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_PICTURE = re.compile(r"<image>|\[Image\]|!\[|\\includegraphics|<img\b", re.IGNORECASE)
_INTERACTION = re.compile(
    r"\bthis is an interactive\b|\binteractive problem\b|\binteract with (?:the )?(?:judge|grader|interactor)"
    r"|^\W*(?:\\(?:sub)?section\*?\{)?interaction(?: protocol)?\W*$",
    re.IGNORECASE | re.MULTILINE,
)
STAGES = ("parse", "filter")  # column `stage` of rows rejected here: by the reader, and by a filter


def source_names() -> list[str]:
    """Return the names of all sources: the names of the files in curate/sources."""
    return sorted(module.name for module in pkgutil.iter_modules(sources.__path__))


def find_source_tables(locations: Sequence[tuple[str, LocationSpec]]) -> list[tuple[str, TableFiles]]:
    """Find the files of the named sources. Raises CurateError if a source or its files do not exist.

    locations: (name, location) of each source. A name not in source_names() needs a location with a mapping
    """
    names = [name for name, _ in locations]
    for name, location in locations:
        if name not in source_names():
            _check_user_source(name, location)
        if names.count(name) > 1:
            raise CurateError(f"source {name} is given twice. Put its files into one folder.")
    return [(name, _locate_source(name, location)) for name, location in locations]


def import_source_module(name: str) -> Any:
    """Return the module that reads a source: the module of that name, or else `generic`."""
    return import_module(f"curate.sources.{name if name in source_names() else MAPPING_SOURCE}")


def _check_user_source(name: str, location: LocationSpec) -> None:
    mapped = Path(location.partition("?")[0]).suffix == ".toml" if isinstance(location, str) else "fields" in location
    if not mapped:
        raise CurateError(
            f"unknown source {name}. Choose one of {', '.join(source_names())}; or describe data of your own in a "
            f"mapping and pass --source {name}=mapping.toml (docs/guides/sources.md)."
        )
    if not _USER_SOURCE_NAME.fullmatch(name):
        raise CurateError(
            f"{name!r} cannot be the name of a source, because the ids of its rows begin with it. Use lowercase "
            "letters, digits, _ and -, beginning with a letter, such as my_problems=mapping.toml."
        )


def _locate_source(name: str, location: LocationSpec) -> TableFiles:
    table = locate(location)
    source = import_source_module(name)
    if "fields" in table.options and source.__name__.rpartition(".")[2] != MAPPING_SOURCE:
        raise CurateError(
            f"{name} is a source with its own format, so it takes no [fields]. To read data by this mapping, "
            f"give the data another name, such as my_{name}."
        )
    if hasattr(source, "select_files"):
        selected: TableFiles = source.select_files(table)
        return selected
    validate_options(table, ())
    return table


def read_and_filter(tables: Iterable[tuple[str, TableFiles]], options: BuildOptions) -> Iterator[Problem | Rejection]:
    """Read the sources and yield each problem, or its rejection by the first filter that drops it.

    Raises CurateError immediately if a source is empty.
    """
    tables = list(tables)
    for name, table in tables:
        check_not_empty(name, table)
    return (item for name, table in tables for item, _ in read_table(name, table, options))


def check_not_empty(name: str, table: TableFiles) -> None:
    """Raise CurateError if a source has no rows."""
    if next(_read_source(name, table), None) is None:
        raise CurateError(f"{name}={table.location} contains no problems. Pass files with rows.")


def divide_source(name: str, table: TableFiles, options: BuildOptions, max_rows: int) -> list[TableFiles]:
    """Divide a source into shards; a single one if rows are limited or sampled, or if the source has ONE_SHARD."""
    together = options.limit or options.sample or getattr(import_source_module(name), "ONE_SHARD", False)
    return [table] if together else split_into_shards(table, max_rows)


def has_repeated_problems(name: str) -> bool:
    """Return whether a source has several rows per problem. A build keeps only the first of them."""
    return getattr(import_source_module(name), "SEVERAL_ROWS_PER_PROBLEM", False)


def read_table(
    name: str, table: TableFiles, options: BuildOptions
) -> Iterator[tuple[Problem | Rejection, bytes | None]]:
    """Read a table and yield each problem with its JSON, or its rejection by the first filter that drops it."""
    filters: list[Callable[[Problem], str | None]] = [
        partial(no_reference, keep_unpublished=options.no_reference == "keep"),
        partial(wrong_language, languages=options.reference_languages),
        partial(few_tests, min_tests=options.min_tests),
        no_statement,
        image,
        interactive,
    ]
    for_questions: list[Callable[[Problem], str | None]] = [partial(no_statement, min_characters=5), image]
    seen: set[str] = set()
    for item in _select_items(name, table, options):
        if item.id in seen:
            yield build_repeated_id_rejection(item), None
            continue
        seen.add(item.id)
        if isinstance(item, Rejection):
            yield item, None
            continue
        try:
            row = encode_problem(item)
        except UnicodeEncodeError:
            yield (
                Rejection(item.id, name, "parse", "unparsable", _describe_encode_error(item), statement=item.statement),
                None,
            )
            continue
        if reason := next(
            filter(None, (drop(item) for drop in (for_questions if item.expected_answer else filters))), None
        ):
            yield Rejection(item.id, name, "filter", reason, _summarize(item), statement=item.statement), None
        else:
            yield item, row


def build_repeated_id_rejection(item: Problem | Rejection) -> Rejection:
    """Return the rejection of a row that has the id of an earlier row."""
    detail = "the first row of this id was read"
    return Rejection(item.id, item.source, "parse", "repeated_id", detail, statement=item.statement)


def _select_items(name: str, table: TableFiles, options: BuildOptions) -> Iterator[Problem | Rejection]:
    """Return the rows selected by `limit` and `sample`. A sample takes an additional pass to collect the ids."""
    items = islice(_read_source(name, table), options.limit)
    if options.sample is None:
        return items
    ids = {item.id for item in items}
    chosen = set(heapq.nsmallest(options.sample, ids, key=partial(compute_sampling_key, options.seed)))
    return (item for item in islice(_read_source(name, table), options.limit) if item.id in chosen)


def compute_sampling_key(seed: int, id: str) -> bytes:
    """Return the sampling key of a row.

    A sample consists of the rows with the smallest keys, so a larger sample with the same seed contains a smaller one.
    """
    return hashlib.sha256(f"{seed} {id}".encode("utf-8", "surrogatepass")).digest()


def _read_source(name: str, table: TableFiles) -> Iterator[Problem | Rejection]:
    source = import_source_module(name)
    items: Iterator[Problem | Rejection]
    items = source.read(table) if name in source_names() else source.read(table, name)
    return items


def few_tests(problem: Problem, *, min_tests: int = 5) -> str | None:
    """Return "few_tests" if a problem has so few distinct tests that a program with memorized outputs would pass."""
    return "few_tests" if len(problem.tests.cases) < min_tests else None


def image(problem: Problem) -> str | None:
    """Return "image" if the source counts pictures or the statement has a placeholder, since models read only text."""
    return "image" if problem.n_pictures or _PICTURE.search(problem.statement) else None


def interactive(problem: Problem) -> str | None:
    """Return "interactive" if the statement describes an interaction, since tests have fixed inputs."""
    if "nteract" not in problem.statement.lower():  # a cheap check; the full search takes 50 times as long
        return None
    return "interactive" if _INTERACTION.search(problem.statement) else None


def no_reference(problem: Problem, *, keep_unpublished: bool = True) -> str | None:
    """Return "no_reference" if a problem has no solutions, since tests that no solution has passed may be wrong.

    keep_unpublished: whether to keep problems of sources that publish no solutions
    """
    if problem.solutions is None:
        return None if keep_unpublished else "no_reference"
    return None if any(solution.source.strip() for solution in problem.solutions) else "no_reference"


def no_statement(problem: Problem, *, min_characters: int = 20) -> str | None:
    """Return "no_statement" if the statement has fewer letters and digits than `min_characters`."""
    alphanumeric = filter(str.isalnum, problem.statement)
    return "no_statement" if sum(1 for _ in islice(alphanumeric, min_characters)) < min_characters else None


def wrong_language(problem: Problem, *, languages: Sequence[str] = ("python",)) -> str | None:
    """Return "wrong_language" if a problem has solutions, but none in `languages` that its tests can run.

    Tests that call a function cannot run C++.
    """
    return "wrong_language" if problem.solutions and not select_candidates(problem, languages) else None


def _describe_encode_error(problem: Problem) -> str:
    try:
        json.dumps(to_row(problem), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return f"text that is not Unicode: {shorten(error)}"
    return "text that is not Unicode"


def _summarize(problem: Problem) -> str:
    solutions = f"{len(problem.solutions or ())} solutions"
    if problem.solutions:
        solutions += f" in {', '.join(sorted({solution.language for solution in problem.solutions}))}"
    return (
        f"{len(problem.tests.cases)} distinct tests of {problem.n_tests_read}, {solutions}, "
        f"{problem.n_pictures} pictures counted by the source"
    )
