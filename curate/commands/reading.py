"""What the commands share that read a dataset and print what they found."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def mistakes_explained(kind: type[click.ClickException] = click.ClickException) -> Iterator[None]:
    from curate.errors import CurateError

    try:
        yield
    except (CurateError, PermissionError) as error:
        raise kind(str(error)) from error


def print_lines(lines: Iterator[str]) -> None:
    """Text of strangers, which may hold letters that the terminal's encoding lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    for line in lines:
        click.echo(line)
