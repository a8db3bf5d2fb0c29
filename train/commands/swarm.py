"""Define the command `curate swarm`, the group of commands for whoever runs a swarm."""

from pathlib import Path

import click

from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from train.commands.options import ConfigSource, config_options, print_cells, validate_urls

_folder = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))


@click.group("swarm")
def command() -> None:
    """Look after a training run whose samples come from machines that nobody has to trust."""


@command.command("invite")
@_folder
@click.option("--verifier", is_flag=True, help="Invite a verifier: its verdicts are believed.")
@click.option(
    "--relay", "relays", multiple=True, metavar="URL", callback=validate_urls,
    help="URL of a relay. Can be given several times.  [default: the coordinator's --relay, or the coordinator itself]",
)  # fmt: skip
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), default=7.0, show_default=True,
    help="How long the invite can be used for the first time.",
)  # fmt: skip
def invite_command(folder: Path, verifier: bool, relays: tuple[str, ...], days: float) -> None:
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


@command.command("status")
@_folder
def status_command(folder: Path) -> None:
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


@command.command("ban")
@_folder
@click.argument("node")
def ban_command(folder: Path, node: str) -> None:
    """Ban a node for good. NODE is its key as `curate swarm status FOLDER` shows it, or a beginning that is unique.

    It loses its stake and its leases, and its answers that still wait for a verdict are not used.
    """
    from train.errors import ConfigError, ControllerUnreachable, TrainError
    from train.swarm.folder import SwarmFolder
    from train.swarm.messages import Ban, SwarmStatus
    from train.swarm.operator import UNREACHABLE_HINT, operator_client

    with report_user_errors(TrainError), report_user_errors(ControllerUnreachable, advice=UNREACHABLE_HINT):
        client = operator_client(SwarmFolder(folder))
        nodes = [one.node for one in client.call("/status", None, SwarmStatus).nodes]
        found = [key for key in nodes if key.hex().startswith(node.lower())]
        if len(found) != 1:
            raise ConfigError(
                f"{len(found)} nodes have keys that begin with {node}. Copy the key of one from: curate swarm status "
                f"{folder}"
            )
        client.call("/ban", Ban(found[0]), type(None))
    click.echo(f"{found[0].hex()} is banned")


@command.command("calibrate")
@config_options
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True,
    help="File for the bars. Those of other pairs of engines in it stay.",
)  # fmt: skip
@click.option(
    "--groups", type=click.IntRange(min=1), default=8, show_default=True,
    help="Groups to draw, each of rollout.completions answers.",
)  # fmt: skip
def calibrate_command(config: ConfigSource, out: Path, groups: int) -> None:
    """Measure how far honest answers are from what a verifier computes, and set the bars of a swarm by it.

    CONFIG is the file of `curate train`. Its engine draws answers to its prompts on this machine, which should be as
    those of the nodes are; then a verifier looks at the answers, on this machine as well. `curate coordinator --bars`
    takes the file.
    """
    require_extra("train")
    from curate.errors import CurateError
    from train.errors import TrainError
    from train.swarm.verification.calibrate import calibrate
    from train.swarm.verification.thresholds_file import read_thresholds, write_thresholds

    with report_user_errors(TrainError, CurateError):
        settings = config.read()
        others = read_thresholds(out) if out.exists() else {}
        with ProgressBar(" answers") as progress:
            pair, thresholds, found = calibrate(settings, n_leases=groups, report=progress)
        write_thresholds(out, {**others, pair: thresholds})
    click.echo(f"{pair}: {found.n_tokens:,} tokens of {groups * settings.rollout.completions} answers")
    for name, measured, bar in (
        ("exponents that differ in a chunk, at most", found.exponent_mismatches, thresholds.exponent_mismatches),
        ("exponents that differ, on average", found.exponent_mismatches_mean, thresholds.exponent_mismatches_mean),
        ("difference of mantissas, on average", found.mantissa_mean, thresholds.mantissa_mean),
        ("tokens that the seeds give, share", 1 - found.token_mismatches / found.n_tokens, thresholds.seed_match_share),
        ("nats that a token was below the best, at most", found.max_margin, thresholds.max_margin),
        ("difference of log-probabilities, on average", found.logprob_error, thresholds.logprob_error),
    ):
        click.echo(f"  {name:<47}{measured:>12.4g}   bar {bar:.4g}")
    click.echo(f"the bars are in {out}")
