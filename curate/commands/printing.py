"""Print lines on a terminal of any encoding, and the hashes of a dataset."""

import io
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from curate.manifest import Manifest


def print_lines(lines: Iterable[str]) -> None:
    """Print untrusted text, which may contain characters that the terminal's encoding lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    for line in lines:
        click.echo(line)


def print_hashes(manifest: "Manifest") -> None:
    """Print the hashes by which others can verify the dataset."""
    for name in ("manifest", "reward", "content"):
        if value := getattr(manifest, f"{name}_hash"):
            click.echo(f"{name} hash {value}")
