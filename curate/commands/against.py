"""The option --against."""

from collections.abc import Callable

import click


def against(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--against",
        multiple=True,
        required=required,
        metavar="NAME=LOCATION",
        help="An evaluation set that no row may hold, and its file, folder or Hub id. humaneval, lcb and codeforces "
        "are read in their published forms, any other name by the usual columns. lcb:FROM..TO, with or without a "
        "location, also takes the contests of these dates from rows of LiveCodeBench. Repeatable.",
    )
