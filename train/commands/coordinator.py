"""Define the command `curate coordinator`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandbox.commands.console import report_user_errors, require_extra
from train.commands.options import report_interruption, validate_urls

if TYPE_CHECKING:
    from train.asynchronous.client import ControllerClient
    from train.swarm.settings import SwarmSettings


@click.command("coordinator")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--controller", "url", required=True, metavar="URL", help="The run: http://HOST:PORT of workers.listen.")
@click.option(
    "--listen", default="0.0.0.0:8720", show_default=True, metavar="HOST:PORT",
    help="Address that nodes, verifiers and relays reach; port 0 takes a free one.",
)  # fmt: skip
@click.option(
    "--url", "public_url", default="", metavar="URL", callback=validate_urls,
    help="URL by which others reach the coordinator, for invites.  [default: this machine's name, and the port]",
)  # fmt: skip
@click.option(
    "--relay", "relays", multiple=True, metavar="URL", callback=validate_urls,
    help="URL of a relay, for invites. Can be given several times.  [default: the coordinator itself]",
)  # fmt: skip
@click.option(
    "--bars", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that `curate swarm calibrate` has written: how far honest answers may be off.  [default: general bars]",
)  # fmt: skip
@click.option(
    "--lease-seconds", type=click.FloatRange(min=1), default=1800.0, show_default=True,
    help="Time that a node has for a group of answers.",
)  # fmt: skip
@click.option(
    "--versions-kept", type=click.IntRange(min=1), default=3, show_default=True,
    help="Versions of the weights that verifiers hold: one more than the run's rollout.staleness, or more.",
)  # fmt: skip
@click.option(
    "--stake", type=click.IntRange(min=0), default=100, show_default=True,
    help="Units that a node stakes, and loses if it cheats.",
)  # fmt: skip
@click.option(
    "--vocabulary", type=click.IntRange(min=1), help="Number of token ids.  [default: that of the model's config.json]"
)
def command(
    folder: Path, url: str, listen: str, public_url: str, relays: tuple[str, ...], bars: Path | None,
    lease_seconds: float, versions_kept: int, stake: int, vocabulary: int | None,
) -> None:  # fmt: skip
    """Run the coordinator of a swarm of untrusted rollout workers.

    To the run, the coordinator is one worker. It leases groups to nodes that came with an invite, has verifiers check
    what they send, publishes new weights for relays, and keeps a ledger. All of it is in FOLDER: type the command
    again to go on. --bars, --lease-seconds, --versions-kept, --stake and --vocabulary count only at the first start.
    The environment variable CURATE_TOKEN has the token of the run.
    """
    require_extra("relay")
    from train.errors import TrainError

    with report_user_errors(TrainError), report_interruption("start the command again to go on"):
        from train.asynchronous.rollout_process import TOKEN_VARIABLE
        from train.swarm.broadcast.manifest import sanitize_run_name
        from train.swarm.coordinator.runtime import CoordinatorOptions, run_coordinator
        from train.swarm.coordinator.vocab_size import read_vocab_size
        from train.swarm.settings import SwarmSettings
        from train.swarm.verification.thresholds_file import read_thresholds

        token = os.environ.get(TOKEN_VARIABLE) or None
        measured = {} if bars is None else read_thresholds(bars)  # before the run is waited for

        def settings(controller: "ControllerClient") -> "SwarmSettings":
            terms = controller.fetch_engine_spec()
            return SwarmSettings(
                run=sanitize_run_name(terms.run),
                engine=terms,
                vocab_size=vocabulary or read_vocab_size(terms.model),
                thresholds=measured,
                lease_seconds=lease_seconds,
                retained_versions=versions_kept,
                stake=stake,
            )

        def ready(here: str, page: str) -> None:
            click.echo(f"listening on {here}\nstatus: {page}\ninvite nodes: curate swarm invite {folder}")

        run_coordinator(
            CoordinatorOptions(folder, url, token, listen, public_url, relays),
            settings,
            on_ready=ready,
            note=click.echo,
        )
        click.echo("the run is over")
