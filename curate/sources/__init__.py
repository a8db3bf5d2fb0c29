"""The sources, one file each: acecode, apps, codecontests, deepcoder, generic, humaneval, kodcode, leetcodedataset,
livecodebench, mbpp, synthetic1 and taco.

`--source` takes the name of the file. Each file has the constants that `curate sources` shows, TITLE, HUB_ID, LICENCE,
SIZE_DESCRIPTION and DEFECTS, and these functions:

read(table)    yields a Problem for each row, or a Rejection for a row that cannot be read; see read_problems
select_files(table)  returns the table with the files to read; only sources with options or folders of their own have it

A source whose rows cannot be read in shards has ONE_SHARD. One that has several rows for a problem, of which only the
first counts, has SEVERAL_ROWS_PER_PROBLEM.
"""

from collections.abc import Callable, Iterable, Iterator

from curate.problem import Problem, Rejection
from curate.reading.tables import Row, UnreadableRow
from curate.reading.values import ParseError


def read_problems(
    source: str,
    rows: Iterable[Row | UnreadableRow],
    parse: Callable[[str, Row], Problem | None],
    name: Callable[[Row, str], str] | None = None,
    *,
    by_position: bool = False,
    first: int = 0,
) -> Iterator[Problem | Rejection]:
    """Yield the problem of each row of a source, or the row's rejection, in order. Ids are SOURCE/NAME.

    source       the name of the source, which may be followed by a slash and the name of one of its parts
    parse        returns the problem of a row with this id, None to leave the row out, or raises ParseError
    name         returns the name of a row, given the one by its position; None: rows are named by position
    by_position  the names by position are `17`, not `row-17`, and lines that are not rows have them, too
    first        position of the first row
    """
    kind = source.partition("/")[0]
    for position, row in enumerate(rows, start=first):
        unnamed = str(position) if by_position else f"row-{position}"
        id = f"{source}/{unnamed}"
        if isinstance(row, UnreadableRow):
            place, detail = f"{source}/{row.location}", row.detail
            if by_position:
                place, detail = id, f"{row.location}: {row.detail}"
            yield Rejection(place, kind, "parse", "unparsable", detail)
            continue
        try:
            if name is not None:
                id = f"{source}/{name(row, unnamed)}"
            problem = parse(id, row)
        except ParseError as error:
            yield Rejection(id, kind, "parse", error.reason, str(error))
        else:
            if problem is not None:
                yield problem
