"""The sources, one file each: acecode, apps, codecontests, deepcoder, deepscaler, generic, humaneval, kodcode,
leetcodedataset, livecodebench, mbpp, numinamath, synthetic1 and taco.

`--source` takes the name of the file. Each file has the constants that `curate sources` shows (TITLE, HUB_ID, LICENCE,
SIZE_DESCRIPTION and DEFECTS) and these functions:

read(table)          yields a Problem for each row, or a Rejection for an unreadable row. Implement it by
                     `read_problems` with a function that calls `make_problem` or, for mathematics, `make_question`
select_files(table)  returns the table with the files to read; only for sources with special options or folders

ONE_SHARD is True if a source cannot be read in shards, and SEVERAL_ROWS_PER_PROBLEM if only the first of several rows
of a problem counts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from curate.problem import Problem, Rejection, Wrapping
from curate.reading.dialects import ParsedTests
from curate.reading.questions import check_question
from curate.reading.stated_limits import UNSTATED
from curate.reading.tables import Row, TableFiles, UnreadableRow, read_rows
from curate.reading.values import ParseError, optional_text
from sandbox import Limits, Program

ParseRow = Callable[[str, Row], Problem | None]


def read_problems(
    source: str,
    columns: Sequence[str],
    optional: Sequence[str],
    parse: ParseRow,
    table: TableFiles,
    *,
    name: str | Callable[[Row, str], str] = "",
) -> Iterator[Problem | Rejection]:
    """Yield the problem of each row of a table, or the row's rejection, in order. The id of a row is SOURCE/NAME.

    source    name of the source
    columns   required columns
    optional  optional columns; None in a row if missing
    parse     returns the problem of a row with this id, or None to omit the row; raises ParseError to reject it
    name      column with the names of rows, or a function of a row and its default name, which is derived from its
              position. If `name` is empty, all rows have default names
    """
    return name_problems(source, read_rows(table, columns, optional), parse, name, table.begin.position)


def name_problems(
    source: str,
    rows: Iterable[Row | UnreadableRow],
    parse: ParseRow,
    name: str | Callable[[Row, str], str] = "",
    first: int = 0,
    *,
    plain_number: bool = False,
) -> Iterator[Problem | Rejection]:
    """Yield the problems of rows as `read_problems` does.

    source        name of the source, or SOURCE/CONFIG
    first         position of the first row
    plain_number  whether default names are `17` rather than `row-17`, even for unreadable lines; always True if `name`
                  is empty
    """
    plain_number = plain_number or name == ""
    for position, row in enumerate(rows, start=first):
        default_name = str(position) if plain_number else f"row-{position}"
        id = f"{source}/{default_name}"
        try:
            if isinstance(row, UnreadableRow):
                if not plain_number:
                    id = f"{source}/{row.location}"
                raise ParseError(f"{row.location}: {row.detail}" if plain_number else row.detail)
            if name:
                row_name = name(row, default_name) if callable(name) else optional_text(row[name]) or default_name
                id = f"{source}/{row_name}"
            problem = parse(id, row)
        except ParseError as error:
            yield Rejection(id, source.partition("/")[0], "parse", error.reason, str(error))
        else:
            if problem is not None:
                yield problem


def make_problem(
    id: str,
    tests: ParsedTests,
    solutions: tuple[Program, ...] | None,
    licence: str,
    *,
    limits: Limits = UNSTATED,
    checker: str = "",
    n_public_tests: int = 0,
    n_pictures: int = 0,
    tags: object = None,
    **texts: object,
) -> Problem:
    """Return a problem. Raises ParseError if the checker does not apply to the tests.

    id         SOURCE/NAME
    solutions  None if the source publishes none
    limits     limits of one test
    checker    checker to use instead of the dialect's; empty for the dialect's
    tags       list of topics; a value of another type counts as empty
    texts      values of Problem's text fields, as text, numbers or None
    """
    fields: dict[str, Any] = {name: optional_text(value) for name, value in texts.items()}
    return Problem(
        id=id,
        source=id.partition("/")[0],
        tests=tests.to_suite(limits, checker),
        n_tests_read=len(tests.cases),
        n_public_tests=n_public_tests,
        n_pictures=n_pictures,
        wrapping=Wrapping.NONE if solutions is None else tests.wrapping,
        solutions=solutions,
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
        licence=licence,
        **fields,
    )


def make_question(id: str, answer: str, licence: str, *, tags: object = None, **texts: Any) -> Problem:
    """Return a math problem. answer: the expected answer, in LaTeX; other parameters: see `make_problem`

    Raises ParseError for a problem without a single final answer; see curate/reading/questions.py.
    """
    check_question(optional_text(texts["statement"]), answer)
    return make_problem(id, ParsedTests(()), None, licence, tags=tags, expected_answer=answer.strip(), **texts)
