"""Define the command `curate ledger`."""

import re
from pathlib import Path

import click

from sandbox.commands.console import report_user_errors
from train.commands.options import print_cells

_DIGEST = re.compile("[0-9a-fA-F]{64}")


@click.group("ledger")
def command() -> None:
    """Show the ledger of a swarm: work, credit and penalties per node."""


@command.command("audit")
@click.argument("folder", metavar="FOLDER|FILE", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--seen", default="", metavar="DIGEST", help="Digest of an entry that was published once.  [default: none]"
)
@click.option("--public-key", default="", metavar="HEX", help="Public key of the run.  [default: that in FOLDER]")
def audit_command(folder: Path, seen: str, public_key: str) -> None:
    """Check the ledger of the coordinator in FOLDER, or a copy of its file, and print what it adds up to.

    Every entry is signed by the run, and names the one before it. An audit finds what was changed, dropped or moved;
    with --seen, such as a digest from the status page, also what was cut off at the end. The exit status is 1 if
    something is wrong.
    """
    from train.errors import ConfigError, TrainError
    from train.swarm.folder import SwarmFolder
    from train.swarm.ledger.audit import audit_ledger
    from train.swarm.ledger.ledger import read_rows
    from train.swarm.signatures import parse_public_key, public_key_bytes, read_key

    with report_user_errors(TrainError):
        if folder.is_dir():
            path = SwarmFolder(folder).ledger_path
        elif public_key:
            path = folder
        else:
            raise ConfigError("the file of a ledger alone does not tell who signed it: give --public-key HEX")
        if not path.exists():
            raise ConfigError(f"{folder} does not have the ledger of a coordinator, {path.name}")
        if seen and not _DIGEST.fullmatch(seen):
            raise ConfigError(f"--seen is a digest of 64 hexadecimal digits, unlike {seen[:80]!r}")
        key = parse_public_key(public_key) if public_key else public_key_bytes(read_key(SwarmFolder(folder).key_path))
        found = audit_ledger(read_rows(path), key, seen_head=bytes.fromhex(seen))
    heads = ("node", "state", "given", "accepted", "reputation", "earned", "stake", "reasons")
    lines = [
        (
            node.hex()[:16], account.state, str(account.n_leases), str(account.verdict_counts.get("accepted", 0)),
            f"{account.reputation:.2f}", str(account.earned), str(account.stake),
            ", ".join(f"{reason} {n}" for reason, n in sorted(account.reason_counts.items())),
        )
        for node, account in found.accounts.nodes.items()
    ]  # fmt: skip
    print_cells(heads, lines)
    click.echo(f"{found.n_rows} entries, the last is {found.head.hex()}")
    if found.fault:
        raise click.ClickException(found.fault)
