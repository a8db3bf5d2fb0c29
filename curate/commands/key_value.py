"""Options of the form KEY=VALUE, whose values are JSON."""

import json
from collections.abc import Iterable
from typing import Any

import click

_PYTHON = {"True": "true", "False": "false", "None": "null"}


def parse_assignments(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """Return the values by their keys. A value that is not JSON is a text, so that texts need no quotes of their own.

    option: the name of the option, for messages
    texts: the values of the option

    Raises click.UsageError for a text without a key or a value, and for Python's words where JSON has others.
    """
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise click.UsageError(f"{option} {text}: give KEY=VALUE")
        if value in _PYTHON:  # as a text, False would count as true
            raise click.UsageError(f"{option} {text}: write {key}={_PYTHON[value]}")
        if key in values:
            raise click.UsageError(f"{option} {text}: {key} is given twice")
        try:
            values[key] = json.loads(value)
        except ValueError:
            values[key] = value
    return values
