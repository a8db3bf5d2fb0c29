"""Define the command `curate swarm`, a group; each of its commands is a module here."""

import click

from train.commands.swarm import calibrate, invite


@click.group("swarm")
def command() -> None:
    """Look after a training run whose samples come from machines that nobody has to trust."""


for _one in (calibrate.command, invite.command):
    command.add_command(_one)
