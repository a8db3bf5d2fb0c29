"""The option --language, by which commands judge answers that are not in Python."""

import click


def _sorted(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


language = click.option(
    "--language",
    "languages",
    multiple=True,
    type=click.Choice(["python", "cpp"]),
    callback=_sorted,
    help="A language that answers may have; the fence of a program says which it is. Problems whose tests call a "
    "function take only Python. Repeatable.  [default: python]",
)
