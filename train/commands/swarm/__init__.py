"""Define the command `curate swarm`, a group; each of its commands is a module here."""

import click

from train.commands.swarm import ban, calibrate, invite, status


@click.group("swarm")
def command() -> None:
    """Look after a training run whose samples come from machines that nobody has to trust."""


for _one in (ban.command, calibrate.command, invite.command, status.command):
    command.add_command(_one)
