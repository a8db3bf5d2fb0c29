"""The option --include, by which commands take rows that are not trusted."""

import click

from curate.trust import WORDS

include = click.option(
    "--include",
    multiple=True,
    type=click.Choice(WORDS),
    help="Rows to take although they are not trusted: unverified ones, which have no reference that passed the tests, "
    "or suspects, whose tests may have several right answers and accept only one. Repeatable.",
)
