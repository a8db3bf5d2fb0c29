"""`curate serve`"""

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandbox.commands import options
from sandbox.commands.console import report_user_errors, require_extra

if TYPE_CHECKING:
    from sandbox import Limits, SandboxOptions


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0 for a free one.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes that serve HTTP; they share the queue and the workers.",
)
@click.option(
    "--queue", type=click.IntRange(min=0), default=1024, show_default=True, help="Requests that may wait for a worker."
)
@click.option(
    "--max-body-mb",
    type=click.FloatRange(min=0, min_open=True),
    default=32,
    show_default=True,
    help="Size of the largest request, in MB.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the token that clients must send; or set CURATE_TOKEN. Required if others can reach the service.  "
    "[default: no token]",
)
@click.option(
    "--open-metrics",
    is_flag=True,
    help="Serve GET /metrics without a token, like GET /health.  [default: /metrics needs the token]",
)
@click.option(
    "--most-memory-mb",
    "max_memory_mb",
    type=click.IntRange(1, 2**24),
    help="Maximum memory of one run, in MB.  [default: a worker's share of the machine's, at least 4096]",
)
@click.option(
    "--most-wall-seconds",
    "max_wall_seconds",
    type=click.FloatRange(min=0, max=10**5, min_open=True),
    default=3600,
    show_default=True,
    help="Maximum time of one run, in seconds.",
)
@click.option(
    "--most-processes",
    "max_processes",
    type=click.IntRange(1, 2**20),
    default=4096,
    show_default=True,
    help="Maximum number of processes and threads of one run.",
)
@click.option(
    "--most-output-kb",
    "max_output_kb",
    type=click.IntRange(1, 2**22),
    default=64 * 1024,
    show_default=True,
    help="Maximum output of one run, in KB; the service holds it in memory.",
)
@click.option(
    "--most-disk-mb",
    "max_disk_mb",
    type=click.IntRange(1, 2**24),
    help="Maximum space in /tmp of one run, in MB.  [default: the same as its memory]",
)
@options.add_sandbox_options
def command(
    host: str,
    port: int,
    processes: int,
    queue: int,
    max_body_mb: float,
    token_file: Path | None,
    open_metrics: bool,
    max_memory_mb: int | None,
    max_wall_seconds: float,
    max_processes: int,
    max_output_kb: int,
    max_disk_mb: int | None,
    sandbox: "SandboxOptions",
) -> None:
    """Serve the sandbox over HTTP.

    POST /judge takes the records of `curate judge`; POST /run_code takes the requests of SandboxFusion's clients. GET
    /openapi.json describes all paths. After SIGTERM or Ctrl-C, the service finishes the accepted requests before it
    exits; after a second signal, it exits immediately.
    """
    require_extra("serve")
    from sandbox import SandboxError
    from sandbox.service import server
    from sandbox.service.settings import ServiceSettings

    token = _read_token(token_file)
    listeners = _listen(host, port, processes, token)
    url = _format_url(listeners[0])
    with report_user_errors(SandboxError), sandbox.open() as box:
        max_limits = _make_max_limits(
            box.workers,
            memory_mb=max_memory_mb,
            wall_seconds=max_wall_seconds,
            processes=max_processes,
            output_kb=max_output_kb,
            disk_mb=max_disk_mb,
        )
        settings = ServiceSettings(
            max_queued_requests=queue,
            max_body_mb=max_body_mb,
            token=token,
            open_metrics=open_metrics,
            host=host,
            max_limits=max_limits,
        )
        message = f"listening on {url} ({box.workers} workers, {'token' if token else 'no token'})"
        is_complete = server.serve(box, settings, listeners, lambda: click.echo(message))
    if not is_complete:
        raise click.ClickException("the service stopped before all accepted requests got a response")


def _listen(host: str, port: int, processes: int, token: str | None) -> list[socket.socket]:
    """Open a listening socket for each process. Raises ClickException without a token, unless `host` is loopback."""
    from sandbox.service.listener import listen_many
    from sandbox.service.settings import is_loopback

    try:
        if token is None and not is_loopback(host):
            raise click.ClickException(
                f"without a token, anyone who reaches {host} could run programs on this machine. Set one: --token-file"
                " FILE, or CURATE_TOKEN"
            )
        return listen_many(host, port, processes)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}, port {port}: {error.strerror}. Choose another address with --host or --port."
        ) from error


def _format_url(listener: socket.socket) -> str:
    address, port = listener.getsockname()[:2]
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def _make_max_limits(
    workers: int,
    *,
    memory_mb: int | None,
    wall_seconds: float,
    processes: int,
    output_kb: int,
    disk_mb: int | None,
) -> "Limits":
    """Return the upper bounds of the limits of requests."""
    from sandbox.service import request_bounds

    defaults = request_bounds.make_default_max_limits(workers)
    return replace(
        defaults,
        wall_seconds=wall_seconds,
        cpu_seconds=wall_seconds,
        memory_mb=memory_mb or defaults.memory_mb,
        processes=processes,
        output_kb=output_kb,
        disk_mb=disk_mb or memory_mb or defaults.disk_mb,
    )


def _read_token(file: Path | None) -> str | None:
    """Read the service's token from the file or the environment; None without a token."""
    token = file.read_text().strip() if file is not None else os.environ.get("CURATE_TOKEN") or None
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise click.ClickException(
            f"the token in {file or 'CURATE_TOKEN'} must be printable ASCII without spaces. Generate one: openssl rand"
            " -hex 32"
        )
    return token
