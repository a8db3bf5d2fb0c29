"""Define the command `curate config`."""

import click

from sandbox.commands.frame import user_errors


@click.group("config")
def command() -> None:
    """Print a configuration file in which every key is explained."""


@command.command("train")
@click.option("--preset", metavar="NAME", help="Preset whose values the file has.  [default: the defaults]")
def for_training(preset: str | None) -> None:
    """Print a configuration file for `curate train`, with every key and its comment.

    model.path and data.dataset are left for you to fill in: curate config train --preset deepcoder-16k > run.toml
    """
    from train.config.written import explained
    from train.errors import ConfigError

    with user_errors(ConfigError):
        lines = list(explained(preset))
    click.echo("\n".join(lines))
