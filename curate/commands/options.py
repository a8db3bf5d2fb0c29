"""Options that several commands share: rows to include, evaluation sets, near-duplicates, KEY=VALUE, prompt formats."""

import json
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import click

from curate.prompt import FORMATS
from curate.trust import INCLUDE_CHOICES

Command = Callable[..., Any]

include_option = click.option(
    "--include",
    multiple=True,
    type=click.Choice(INCLUDE_CHOICES),
    help="Also include untrusted rows. unverified: rows without a reference that passed the tests. suspects: rows with "
    "tests that may accept only one of several right answers. altered: a dataset whose rows differ from its manifest. "
    "Repeatable.",
)

dedup_option = click.option(
    "--dedup",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.7,
    show_default=True,
    help="Minimum Jaccard similarity of near-duplicates.",
)

_JSON_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
_SYSTEM = click.option(
    "--system", metavar="TEXT|@FILE", help="System prompt, which is the first message.  [default: none]"
)
_TEMPLATE = click.option(
    "--template",
    metavar="FILE",
    help="Jinja2 template of the message that asks for a program, with the variables statement, starter_code, "
    "entry_point, names and given.  [default: curate's template]",
)
_ARGUMENT = click.option(
    "--template-arg",
    "template_arguments",
    multiple=True,
    metavar="NAME=JSON",
    help="An argument of the model's chat template, such as enable_thinking=false. Repeatable.",
)
_FORMAT = click.option(
    "--prompt-format",
    "prompt_format",
    type=click.Choice(FORMATS),
    help="Format of the prompt. base: the text of DeepSeek-R1-Zero, for models without a chat template.  "
    "[default: chat]",
)


def add_against_option(*, required: bool) -> Callable[[Command], Command]:
    """Return a decorator that adds the option --against to a command."""
    return click.option(
        "--against",
        multiple=True,
        required=required,
        metavar="NAME=LOCATION",
        help="An evaluation set whose items no row may contain, and its file, folder or Hub id. humaneval, lcb and "
        "codeforces are read in their published formats; for any other name, columns are found by their usual names. "
        "lcb:FROM..TO, with or without a location, also removes rows of LiveCodeBench with contests on these dates. "
        "Repeatable.",
    )


def parse_assignments(option: str, texts: Iterable[str]) -> dict[str, Any]:
    """Parse KEY=VALUE arguments. A value that is not JSON is a string, so strings need no quotes.

    option: name of the option, for error messages

    Raises click.UsageError for a missing key or value, a repeated key, and the values True, False and None.
    """
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise click.UsageError(f"{option} {text}: pass KEY=VALUE")
        # As a string, False would count as true.
        if value in _JSON_CONSTANTS:
            raise click.UsageError(f"{option} {text}: write {key}={_JSON_CONSTANTS[value]}")
        if key in values:
            raise click.UsageError(f"{option} {text}: repeated key {key}; pass it once")
        try:
            values[key] = json.loads(value)
        except ValueError:
            values[key] = value
    return values


def add_prompt_options(command: Command) -> Command:
    """Add the prompt options to a command. It receives those on the command line as `prompt`, for read_prompt."""

    @_SYSTEM
    @_TEMPLATE
    @_ARGUMENT
    @_FORMAT
    @wraps(command)
    def call_with_prompt(
        *arguments: Any, system: str | None, template: str | None, template_arguments: tuple[str, ...],
        prompt_format: str | None, **others: Any,
    ) -> Any:  # fmt: skip
        table: dict[str, Any] = {"system": system, "template": template, "format": prompt_format}
        if template_arguments:
            table["template_arguments"] = parse_assignments("--template-arg", template_arguments)
        prompt = {name: value for name, value in table.items() if value is not None}
        return command(*arguments, prompt=prompt, **others)

    return call_with_prompt
