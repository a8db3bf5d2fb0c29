"""The options that decide the form of prompts. All commands that ask a model, or write prompts, have them."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from curate.commands.key_value import parse_assignments
from curate.prompt import FORMATS

Command = Callable[..., Any]

_SYSTEM = click.option(
    "--system", metavar="TEXT|@FILE", help="System prompt, which is the first message.  [default: none]"
)
_TEMPLATE = click.option(
    "--template",
    metavar="FILE",
    help="Jinja2 template of the message that asks for a program, with the variables statement, starter_code, "
    "entry_point, names and given.  [default: the usual wording]",
)
_ARGUMENT = click.option(
    "--template-arg",
    "template_arguments",
    multiple=True,
    metavar="NAME=JSON",
    help="An argument of the model's chat template, such as enable_thinking=false. Can be given several times.",
)
_FORMAT = click.option(
    "--prompt-format",
    "prompt_format",
    type=click.Choice(FORMATS),
    help="base: the model has no chat template, and is asked as DeepSeek-R1-Zero was.  [default: chat]",
)


def prompt_options(command: Command) -> Command:
    """Give a command the options of the prompt; its parameter `prompt` is a table for curate.prompt.read_prompt.

    The table has only what was given on the command line.
    """

    @_SYSTEM
    @_TEMPLATE
    @_ARGUMENT
    @_FORMAT
    @wraps(command)
    def with_prompt(
        *arguments: Any, system: str | None, template: str | None, template_arguments: tuple[str, ...],
        prompt_format: str | None, **others: Any,
    ) -> Any:  # fmt: skip
        table: dict[str, Any] = {"system": system, "template": template, "format": prompt_format}
        if template_arguments:
            table["template_arguments"] = parse_assignments("--template-arg", template_arguments)
        prompt = {name: value for name, value in table.items() if value is not None}
        return command(*arguments, prompt=prompt, **others)

    return with_prompt
