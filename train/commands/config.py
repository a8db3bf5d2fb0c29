"""Define the command `curate config`."""

import click

from sandbox.commands.console import report_user_errors


@click.group("config")
def command() -> None:
    """Print a configuration file in which every key is explained."""


@command.command("train")
@click.option(
    "--preset",
    metavar="NAME",
    help="Preset whose values the file has.  [default: no preset, but the default of each key]",
)
def for_training(preset: str | None) -> None:
    """Print a configuration file for `curate train`, with every key and its comment.

    You only need to fill in model.path and data.dataset: curate config train --preset deepcoder-16k > run.toml
    """
    from train.config.describe import template_lines
    from train.errors import ConfigError

    with report_user_errors(ConfigError):
        lines = list(template_lines(preset))
    click.echo("\n".join(lines))
