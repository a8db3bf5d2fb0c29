"""Print lines on a terminal of any encoding."""

import io
import sys
from collections.abc import Iterable

import click


def print_lines(lines: Iterable[str]) -> None:
    """Print untrusted text, which may contain characters that the terminal's encoding lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    for line in lines:
        click.echo(line)
