"""Define the command `curate relay`."""

import os
import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

import click

from sandbox.commands.console import report_user_errors, require_extra
from train.commands.options import validate_urls
from train.errors import TrainError

if TYPE_CHECKING:
    import threading

    from train.swarm.broadcast.relay import RelayApp, RelayRateLimiter


@click.command("relay")
@click.option(
    "--from", "sources", multiple=True, metavar="URL", callback=validate_urls,
    help="URL of a relay, coordinator or bucket to fetch the weights from. Can be given several times.  "
    "[default: those in the invite]",
)  # fmt: skip
@click.option(
    "--invite", default="", metavar="TEXT",
    help="Invite of a swarm, in place of --from, --run and --public-key.  [default: none]",
)  # fmt: skip
@click.option(
    "--controller", default="", metavar="URL",
    help="URL of the run's controller (workers.listen), to serve as the run's first relay.  [default: fetch from other "
    "relays]",
)  # fmt: skip
@click.option(
    "--key", type=click.Path(dir_okay=False, path_type=Path),
    help="File with the key that signs the weights, for --controller; created if missing.  [default: none]",
)  # fmt: skip
@click.option("--run", default="", metavar="NAME", help="Name of the run.  [default: with --controller, the run's own]")
@click.option(
    "--public-key", default="", metavar="HEX",
    help="Public key of the run, which signs the weights.  [default: that in the invite]",
)  # fmt: skip
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), default="relay", show_default=True,
    help="Folder for the weights.",
)  # fmt: skip
@click.option(
    "--listen", default="0.0.0.0:8710", show_default=True, metavar="HOST:PORT",
    help="Address to serve on; port 0 selects a free port.",
)  # fmt: skip
@click.option(
    "--keep", type=click.IntRange(min=1), default=5, show_default=True,
    help="Number of versions to keep, in addition to the bases of their deltas.",
)  # fmt: skip
@click.option(
    "--megabytes-per-second", type=click.FloatRange(min=0, min_open=True), default=200.0, show_default=True,
    help="Mean rate limit of downloads for each client address, in megabytes.",
)  # fmt: skip
@click.option(
    "--requests-per-second", type=click.FloatRange(min=1), default=100.0, show_default=True,
    help="Mean rate limit of requests for each client address.",
)  # fmt: skip
def command(
    sources: tuple[str, ...], invite: str, controller: str, key: Path | None, run: str, public_key: str, folder: Path,
    listen: str, keep: int, megabytes_per_second: float, requests_per_second: float,
) -> None:  # fmt: skip
    """Serve a run's weights over HTTP as a relay.

    A relay keeps the newest versions in a folder, as files that nginx could serve as well. It needs neither torch nor a
    GPU, and holds no secret, since the run signs the weights. With --controller it is the origin, which signs the
    trainer's weights. It runs until Ctrl-C or SIGTERM.
    """
    require_extra("relay")
    if bool(sources) + bool(invite) + bool(controller) != 1:
        raise click.UsageError("give one of --from, --invite and --controller")
    with report_user_errors(TrainError):
        from train.swarm.broadcast.relay import RelayRateLimiter, format_listener_url, open_listener, serve

        with open_listener(listen) as listener, ExitStack() as locks:
            # Print the host name instead of a wildcard address, to which other machines cannot connect.
            url = re.sub(r"//(0\.0\.0\.0|\[::\]):", f"//{gethostname()}:", format_listener_url(listener))
            if controller:
                make_app, follow, greeting = _open_origin(controller, key, run, folder, keep, url, locks)
            else:
                make_app, follow, greeting = _open_mirror(sources, invite, run, public_key, folder, keep, locks)
            files = make_app(RelayRateLimiter(requests_per_second, megabytes_per_second * 1e6))
            serve(files, listener, follow, lambda: click.echo(f"{greeting}; serves on {url}"))


# A factory of the relay's application, its main loop, and its first message.
_Parts = tuple["Callable[[RelayRateLimiter], RelayApp]", "Callable[[threading.Event], None]", str]


def _open_mirror(
    sources: tuple[str, ...], invite: str, run: str, public_key: str, folder: Path, keep: int, locks: ExitStack
) -> _Parts:
    """Return the parts of a relay that mirrors other relays. `locks` holds the lock on its folder."""
    from train.swarm.broadcast.manifest import RUN_PATTERN
    from train.swarm.broadcast.mirror import POLL_SECONDS, Mirror
    from train.swarm.broadcast.relay import RelayApp
    from train.swarm.broadcast.relay_client import RelayClient
    from train.swarm.broadcast.relay_selector import MAX_CONCURRENT_FOR_RELAYS, RelaySelector
    from train.swarm.folder import lock_folder
    from train.swarm.invites import read_invite
    from train.swarm.signatures import parse_public_key

    if invite:
        read = read_invite(invite)
        sources, run, public = (read.coordinator, *read.relays), read.run, read.public_key
    else:
        if not run or not public_key:
            raise click.UsageError(
                "--from needs --run and --public-key, with which the relay verifies the signatures of the weights"
            )
        if not RUN_PATTERN.fullmatch(run):
            raise click.BadParameter(
                f"{run[:80]!r} is not a run name. Use letters, digits and the characters _ . -", param_hint="--run"
            )
        public = parse_public_key(public_key)
    download = RelayClient(RelaySelector(sources, max_concurrent=MAX_CONCURRENT_FOR_RELAYS), run, public)
    locks.enter_context(lock_folder(folder, "relay", "--folder"))
    mirror = Mirror(folder, run, public, download, keep=keep, note=click.echo)
    return (
        partial(RelayApp, folder, find_partial_file=mirror.find_partial_file),
        lambda stop: mirror.sync_until_stopped(stop, interval_seconds=POLL_SECONDS),
        f"relay of {run}, which fetches from {', '.join(sources)}",
    )


def _open_origin(
    controller: str, key: Path | None, run: str, folder: Path, keep: int, url: str, locks: ExitStack
) -> _Parts:
    """Return the parts of the origin of a run. `locks` holds the lock on its folder."""
    from train.asynchronous.client import ControllerClient
    from train.asynchronous.rollout_process import TOKEN_VARIABLE, LocalFirstSource
    from train.swarm.broadcast.broadcaster import Broadcaster, wait_for_engine_spec
    from train.swarm.broadcast.manifest import sanitize_run_name
    from train.swarm.broadcast.origin import Origin
    from train.swarm.broadcast.relay import RelayApp
    from train.swarm.folder import lock_folder
    from train.swarm.signatures import create_key_file, public_key_bytes, read_key

    if key is None:
        raise click.UsageError("--controller needs --key, the key that signs the weights")
    client = ControllerClient(controller, os.environ.get(TOKEN_VARIABLE) or None)
    locks.enter_context(lock_folder(folder, "relay", "--folder"))
    spec = wait_for_engine_spec(client, lambda message: click.echo(message, err=True))
    private = read_key(key) if key.exists() else create_key_file(key)
    name = sanitize_run_name(run or spec.run)
    store = (folder / "store").resolve()
    origin = Origin(f"file://{store}", name, private, keep=keep)
    source = LocalFirstSource(client.url, client.headers, folder / "fetched")
    broadcaster = Broadcaster(client, source, origin, folder / "copies", note=click.echo)
    public = public_key_bytes(private).hex()
    return (
        partial(RelayApp, store),
        broadcaster.publish_until_stopped,
        f"first relay of {name}\nfurther relays: curate relay --from {url} --run {name} --public-key {public}\n"
        f"workers: curate rollout --controller {controller} --relay {url} --public-key {public}\nit is ready",
    )
