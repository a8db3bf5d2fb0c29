"""Define the command `curate swarm ban`."""

from pathlib import Path

import click

from sandbox.commands.console import report_user_errors


@click.command("ban")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("node")
def command(folder: Path, node: str) -> None:
    """Ban a node for good. NODE is its key as `curate swarm status FOLDER` shows it, or a beginning that is unique.

    It loses its stake and its leases, and its answers that still wait for a verdict are not used.
    """
    from train.errors import ConfigError, ControllerUnreachable, TrainError
    from train.swarm.folder import SwarmFolder
    from train.swarm.messages import Ban, SwarmStatus
    from train.swarm.operator import UNREACHABLE_HINT, operator_client

    with report_user_errors(TrainError), report_user_errors(ControllerUnreachable, advice=UNREACHABLE_HINT):
        client = operator_client(SwarmFolder(folder))
        found = [
            one for one in client.call("/status", None, SwarmStatus).nodes if one.node.hex().startswith(node.lower())
        ]
        if len(found) != 1:
            raise ConfigError(
                f"{len(found)} nodes have keys that begin with {node}. Copy the key of one from: curate swarm status "
                f"{folder}"
            )
        client.call("/ban", Ban(found[0].node), type(None))
    click.echo(f"{found[0].node.hex()} is banned")
