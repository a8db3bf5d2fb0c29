"""The option --against."""

from collections.abc import Callable

import click


def against_option(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--against",
        multiple=True,
        required=required,
        metavar="NAME=LOCATION",
        help="An evaluation set whose items no row may contain, and its file, folder or Hub id. humaneval, lcb and "
        "codeforces are read in their published forms; a set of any other name is read by the usual column names. "
        "lcb:FROM..TO, with or without a location, also removes rows of LiveCodeBench with contests on these dates. "
        "Can be given several times.",
    )
