"""Define the commands of a swarm: `curate swarm`, `curate coordinator`, `curate verifier` and `curate ledger`."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from curate.errors import CurateError
from sandbox.commands.console import ProgressBar, report_user_errors, require_extra
from train.commands.options import (
    ConfigSource,
    config_options,
    leave_on_signal,
    print_cells,
    report_interruption,
    validate_urls,
)
from train.errors import ConfigError, ControllerUnreachable, TrainError

if TYPE_CHECKING:
    from train.asynchronous.client import ControllerClient
    from train.swarm.settings import SwarmSettings

_folder = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))


@click.group("swarm")
def command() -> None:
    """Manage a training run whose samples come from untrusted machines."""


@command.command("invite")
@_folder
@click.option("--verifier", is_flag=True, help="Invite a verifier, whose verdicts the run trusts.")
@click.option(
    "--relay", "relays", multiple=True, metavar="URL", callback=validate_urls,
    help="URL of a relay. Can be given several times.  [default: the coordinator's --relay, or the coordinator itself]",
)  # fmt: skip
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), default=7.0, show_default=True,
    help="Days until an unused invite expires.",
)  # fmt: skip
@click.option(
    "--stake", type=click.IntRange(min=0), default=100, show_default=True,
    help="Units that you stake for the node. The node loses its stake if it cheats; no other invite restores it.",
)  # fmt: skip
def invite_command(folder: Path, verifier: bool, relays: tuple[str, ...], days: float, stake: int) -> None:
    """Print an invite for one node or one verifier to the swarm of the coordinator in FOLDER.

    The first key that joins with an invite owns it. Give each invite to one person, like a password.
    """
    from train.swarm.folder import SwarmFolder
    from train.swarm.invites import create_invite
    from train.swarm.signatures import read_key

    with report_user_errors(TrainError):
        swarm = SwarmFolder(folder)
        address = swarm.read_address()
        invite = create_invite(
            read_key(swarm.key_path),
            run=address.run,
            coordinator=address.coordinator,
            relays=relays or address.relays or (address.coordinator,),
            role="verifier" if verifier else "node",
            seconds=days * 86_400,
            stake=0 if verifier else stake,
        )
    click.echo(invite.text)


@command.command("status")
@_folder
def status_command(folder: Path) -> None:
    """Show nodes, leases, verdicts and relays of the swarm whose coordinator runs in FOLDER, and its status page."""
    from train.swarm.client import UNREACHABLE_HINT, create_operator_client
    from train.swarm.folder import SwarmFolder
    from train.swarm.messages import SwarmStatus

    with report_user_errors(TrainError), report_user_errors(ControllerUnreachable, advice=UNREACHABLE_HINT):
        swarm = SwarmFolder(folder)
        status = create_operator_client(swarm).call("/status", None, SwarmStatus)
        page = swarm.page_url()
    heads = ("node", "state", "engine", "version", "seen", "leases", "given", "accepted", "earned", "stake", "reasons")
    print_cells(heads, [
        (
            node.node.hex()[:16], node.state, node.engine, str(node.loaded_version), f"{node.seen_seconds_ago:.0f} s",
            str(node.leases), str(node.n_granted), str(node.accepted), str(node.earned), str(node.stake),
            _format_counts(node.reasons),
        )
        for node in status.nodes
    ])  # fmt: skip
    click.echo(f"{status.run}, version {status.version}, {status.verifiers} verifiers")
    click.echo(f"leases: {_format_counts(status.lease_counts) or 'none'}")
    verdicts = {reason or "accepted": n for reason, n in status.verdict_counts.items()}
    click.echo(f"verdicts: {_format_counts(verdicts) or 'none'}")
    for url, version in sorted(status.relays.items()):
        click.echo(f"relay {url}: {'no answer' if version < 0 else f'version {version}'}")
    click.echo(f"ledger: {status.n_entries} entries, the last is {status.ledger_head.hex()}")
    click.echo(f"page: {page}")


def _format_counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts.items()))


@command.command("ban")
@_folder
@click.argument("node")
def ban_command(folder: Path, node: str) -> None:
    """Ban a node permanently. NODE is its key from `curate swarm status FOLDER`, or a unique prefix of it.

    The node loses its stake and its leases, and its completions without a verdict are discarded.
    """
    from train.swarm.client import UNREACHABLE_HINT, create_operator_client
    from train.swarm.folder import SwarmFolder
    from train.swarm.messages import Ban, SwarmStatus

    with report_user_errors(TrainError), report_user_errors(ControllerUnreachable, advice=UNREACHABLE_HINT):
        client = create_operator_client(SwarmFolder(folder))
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
    help="File for the thresholds. Thresholds of other pairs of engines in this file are retained.",
)  # fmt: skip
@click.option(
    "--groups", type=click.IntRange(min=1), default=64, show_default=True,
    help="Number of groups to sample, of rollout.completions completions each. Fewer groups give wider thresholds.",
)  # fmt: skip
def calibrate_command(config: ConfigSource, out: Path, groups: int) -> None:
    """Measure the distance of honest completions from a verifier's recomputation, and derive a swarm's thresholds.

    CONFIG is the file of `curate train`. This machine, which should resemble the nodes, samples the run's prompts with
    the run's engine. Then a verifier recomputes the completions on the same machine. At most one in 10,000 honest
    groups exceeds the thresholds. Give the file to `curate coordinator --bars`.
    """
    require_extra("train")
    from train.swarm.verification.calibrate import calibrate
    from train.swarm.verification.thresholds import add_thresholds, read_thresholds

    with report_user_errors(TrainError, CurateError):
        settings = config.read()
        if out.exists():
            read_thresholds(out)  # validate the file before the measurement
        with ProgressBar(" completions") as progress:
            pair, thresholds, found = calibrate(settings, n_leases=groups, report=progress)
        add_thresholds(out, pair, thresholds)
    click.echo(f"{pair}: {len(found.margins):,} tokens of {groups * settings.rollout.completions} completions")
    for name, values, limit in (
        ("exponent mismatches per chunk", found.exponent_mismatches, thresholds.exponent_mismatches.limit),
        ("mean mantissa difference per chunk", found.mantissa_differences, thresholds.mantissa_differences.limit),
        ("nats between token and best token", found.margins, thresholds.margins.limit),
        ("log-probability difference per token", found.logprob_errors, thresholds.logprob_errors.limit),
    ):
        if len(values):
            click.echo(f"  {name:<38}mean {values.mean():<10.3g} maximum {values.max():<10.3g} limit {limit:.3g}")
    share, rate = found.seed_mismatches.mean(), thresholds.seed_mismatches.rate
    click.echo(f"  seed mismatches per 1,000 tokens: {1000 * share:.3g}; the limit is {1000 * rate:.3g}")
    click.echo(f"the thresholds are in {out}")


@click.command("coordinator")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--controller", "url", required=True, metavar="URL", help="The run: http://HOST:PORT of workers.listen.")
@click.option(
    "--listen", default="0.0.0.0:8720", show_default=True, metavar="HOST:PORT",
    help="Address that nodes, verifiers and relays reach; port 0 selects a free port.",
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
    "--store", default="", metavar="URL",
    help="Bucket for the weights, such as s3://NAME; --relay is the URL by which others read it. The provider's "
    "environment variables, such as AWS_ACCESS_KEY_ID, hold its keys.  [default: FOLDER/store, which the coordinator "
    "serves]",
)  # fmt: skip
@click.option(
    "--bars", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of `curate swarm calibrate` with measured thresholds.  [default: built-in thresholds]",
)  # fmt: skip
@click.option(
    "--lease-seconds", type=click.FloatRange(min=1), default=1800.0, show_default=True,
    help="Time limit of a node for a group of completions.",
)  # fmt: skip
@click.option(
    "--versions-kept", type=click.IntRange(min=1), default=3, show_default=True,
    help="Number of weight versions that verifiers hold; must exceed the run's rollout.staleness.",
)  # fmt: skip
@click.option(
    "--vocabulary", type=click.IntRange(min=1), help="Number of token ids.  [default: that of the model's config.json]"
)
def coordinator(
    folder: Path, url: str, listen: str, public_url: str, relays: tuple[str, ...], store: str, bars: Path | None,
    lease_seconds: float, versions_kept: int, vocabulary: int | None,
) -> None:  # fmt: skip
    """Run the coordinator of a swarm of untrusted rollout workers.

    To the run, the coordinator is one worker. It leases groups to invited nodes, has verifiers check their files,
    publishes new weights for relays, and keeps a ledger. Its state is in FOLDER: type the command again to resume.
    --bars, --lease-seconds, --versions-kept and --vocabulary apply only at the first start. The environment variable
    CURATE_TOKEN holds the run's token.
    """
    require_extra("relay")
    if store and not relays:
        raise click.UsageError("--store needs --relay: the URL by which nodes and verifiers read the bucket")
    with report_user_errors(TrainError), report_interruption("the same command continues"):
        from train.asynchronous.rollout_process import TOKEN_VARIABLE
        from train.swarm.broadcast.manifest import sanitize_run_name
        from train.swarm.coordinator.runtime import CoordinatorOptions, run_coordinator
        from train.swarm.settings import SwarmSettings, read_vocab_size
        from train.swarm.verification.thresholds import read_thresholds

        token = os.environ.get(TOKEN_VARIABLE) or None
        measured = {} if bars is None else read_thresholds(bars)  # validate the file before the wait for the run

        def build_settings(controller: "ControllerClient") -> "SwarmSettings":
            spec = controller.fetch_engine_spec()
            return SwarmSettings(
                run=sanitize_run_name(spec.run),
                engine=spec,
                vocab_size=vocabulary or read_vocab_size(spec.model),
                thresholds=measured,
                lease_seconds=lease_seconds,
                retained_versions=versions_kept,
            )

        run_coordinator(
            CoordinatorOptions(folder, url, token, listen, public_url, relays, store),
            build_settings,
            on_ready=lambda here, page: click.echo(
                f"listening on {here}\nstatus: {page}\ninvite nodes: curate swarm invite {folder}"
            ),
            note=click.echo,
        )
        click.echo("the run is over")


@click.command("verifier")
@click.argument("invite")
@click.option(
    "--model", default="", metavar="NAME", help="Folder or Hub id of the model on this machine.  [default: the run's]"
)
@click.option(
    "--key", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="File with the key of this verifier; created if missing.  [default: ~/.config/curate/verifier.key]",
)  # fmt: skip
@click.option(
    "--patience", type=click.FloatRange(min=0), default=600.0, show_default=True, metavar="SECONDS",
    help="Time limit of retries while the coordinator is unreachable.",
)  # fmt: skip
def verifier(invite: str, model: str, key: Path | None, patience: float) -> None:
    """Verify rollouts from a swarm by recomputing them with the model.

    `curate swarm invite FOLDER --verifier` prints INVITE. The verifier requests one file after another from the
    coordinator, recomputes it, and sends its verdict; it opens no port. Start several verifiers for more throughput.
    CUDA_VISIBLE_DEVICES selects the GPU. After Ctrl-C or SIGTERM, the verifier finishes the current file and exits.
    """
    require_extra("train")
    with report_user_errors(TrainError):
        from train.swarm.verification.verifier_process import DEFAULT_KEY_PATH, VerifierOptions, VerifierProcess

        process = VerifierProcess(
            VerifierOptions(invite, model, key or Path(DEFAULT_KEY_PATH), patience), note=click.echo
        )
        with leave_on_signal(process.leave):
            process.run()


@click.group("ledger")
def ledger() -> None:
    """Show the ledger of a swarm: work, credit and penalties per node."""


@ledger.command("audit")
@click.argument("folder", metavar="FOLDER|FILE", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--seen", default="", metavar="DIGEST", help="Digest of an entry that the run has published.  [default: none]"
)
@click.option("--public-key", default="", metavar="HEX", help="Public key of the run.  [default: that in FOLDER]")
def audit_command(folder: Path, seen: str, public_key: str) -> None:
    """Check the ledger of the coordinator in FOLDER, or a copy of its file, and print its totals.

    Every entry is signed by the run and has the digest of the previous one. An audit detects changed, dropped and
    reordered entries; with --seen, a digest seen earlier, for example on the status page, also truncation. The exit
    status is 1 if the audit fails.
    """
    from train.swarm.folder import SwarmFolder
    from train.swarm.ledger import audit_ledger, read_rows
    from train.swarm.signatures import parse_public_key, public_key_bytes, read_key

    with report_user_errors(TrainError):
        if not (folder.is_dir() or public_key):
            raise ConfigError("a ledger file does not identify its signer: give --public-key HEX")
        path = SwarmFolder(folder).ledger_path if folder.is_dir() else folder
        if not path.exists():
            raise ConfigError(f"{folder} does not have the ledger of a coordinator, {path.name}")
        if seen and not re.fullmatch("[0-9a-fA-F]{64}", seen):
            raise ConfigError(f"--seen is a digest of 64 hexadecimal digits, unlike {seen[:80]!r}")
        key = parse_public_key(public_key) if public_key else public_key_bytes(read_key(SwarmFolder(folder).key_path))
        found = audit_ledger(read_rows(path), key, seen_head=bytes.fromhex(seen))
    heads = ("node", "state", "given", "accepted", "reputation", "earned", "stake", "reasons")
    lines = [
        (
            node.hex()[:16], account.state, str(account.n_leases), str(account.verdict_counts.get("accepted", 0)),
            f"{account.reputation:.2f}", str(account.earned), str(account.stake),
            _format_counts(account.reason_counts),
        )
        for node, account in found.accounts.nodes.items()
    ]  # fmt: skip
    print_cells(heads, lines)
    click.echo(f"{found.n_rows} entries, the last is {found.head.hex()}")
    if found.fault:
        raise click.ClickException(found.fault)
