"""The option --include, by which commands take rows that are not trusted."""

import click

from curate.trust import INCLUDE_CHOICES

include_option = click.option(
    "--include",
    multiple=True,
    type=click.Choice(INCLUDE_CHOICES),
    help="Also include rows that are not trusted: unverified rows, which have no reference that passed the tests; "
    "suspects, whose tests may have several right answers and accept only one; or an altered dataset, whose rows are "
    "not those that its manifest describes. Can be given several times.",
)
