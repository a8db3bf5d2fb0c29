"""Define the command `curate swarm invite`."""

from pathlib import Path

import click

from sandbox.commands.console import report_user_errors
from train.commands.options import validate_urls


@click.command("invite")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--verifier", is_flag=True, help="Invite a verifier: its verdicts are believed.")
@click.option(
    "--relay", "relays", multiple=True, metavar="URL", callback=validate_urls,
    help="URL of a relay. Can be given several times.  [default: the coordinator's --relay, or the coordinator itself]",
)  # fmt: skip
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), default=7.0, show_default=True,
    help="How long the invite can be used for the first time.",
)  # fmt: skip
def command(folder: Path, verifier: bool, relays: tuple[str, ...], days: float) -> None:
    """Print an invite: the text that lets one node, or one verifier, join the swarm of the coordinator in FOLDER.

    The first key that joins with an invite owns it. Give each to one person, as you would a password.
    """
    from train.errors import TrainError
    from train.swarm.folder import SwarmFolder
    from train.swarm.protocol.invites import new_invite
    from train.swarm.signatures import read_key

    with report_user_errors(TrainError):
        place = SwarmFolder(folder)
        address = place.address()
        invite = new_invite(
            read_key(place.key_path),
            run=address.run,
            coordinator=address.coordinator,
            relays=relays or address.relays or (address.coordinator,),
            role="verifier" if verifier else "node",
            seconds=days * 86_400,
        )
    click.echo(invite.text)
