"""Define the command `curate swarm status`."""

from pathlib import Path

import click

from sandbox.commands.console import report_user_errors
from train.commands.options import print_cells


@click.command("status")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(folder: Path) -> None:
    """Show nodes, leases, verdicts and relays of the swarm whose coordinator runs in FOLDER, and its status page."""
    from train.errors import ControllerUnreachable, TrainError
    from train.swarm.folder import SwarmFolder
    from train.swarm.messages import SwarmStatus
    from train.swarm.operator import UNREACHABLE_HINT, operator_client

    with report_user_errors(TrainError), report_user_errors(ControllerUnreachable, advice=UNREACHABLE_HINT):
        place = SwarmFolder(folder)
        status = operator_client(place).call("/status", None, SwarmStatus)
        page = place.page_url()
    heads = ("node", "state", "engine", "version", "seen", "leases", "given", "accepted", "earned", "stake", "reasons")
    print_cells(heads, [
        (
            node.node.hex()[:16], node.state, node.engine, str(node.loaded_version), f"{node.seen_seconds_ago:.0f} s",
            str(node.leases), str(node.n_granted), str(node.accepted), str(node.earned), str(node.stake),
            ", ".join(f"{reason} {n}" for reason, n in sorted(node.reasons.items())),
        )
        for node in status.nodes
    ])  # fmt: skip
    click.echo(f"{status.run}, version {status.version}, {status.verifiers} verifiers")
    click.echo(f"leases: {_counts(status.lease_counts)}")
    click.echo(f"verdicts: {_counts({reason or 'accepted': n for reason, n in status.verdict_counts.items()})}")
    for url, version in sorted(status.relays.items()):
        click.echo(f"relay {url}: {'no answer' if version < 0 else f'version {version}'}")
    click.echo(f"ledger: {status.n_entries} entries, the last is {status.ledger_head.hex()}")
    click.echo(f"page: {page}")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items())) or "none"
