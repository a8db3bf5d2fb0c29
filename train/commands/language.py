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
    help="A language that answers may be written in; the fence around a program says which one it is. Problems whose "
    "tests call a function, or are Python code, take only Python. Can be given several times.  [default: python]",
)
