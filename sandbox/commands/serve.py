"""`curate serve`"""

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import click

from sandbox.commands import options


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 takes a free one.")
@options.workers
@click.option(
    "--queue", type=click.IntRange(min=0), default=1024, show_default=True, help="Requests that may wait for a worker."
)
@click.option(
    "--max-body-mb",
    type=click.FloatRange(min=0, min_open=True),
    default=32,
    show_default=True,
    help="Size of the largest request.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the token that clients must send; or set CURATE_TOKEN. Needed where others can reach the service.",
)
@click.option(
    "--most-memory-mb",
    type=click.IntRange(1, 2**24),
    help="Memory that may be asked for one run; by default a worker's share of what the machine has, or 4096.",
)
@click.option(
    "--most-wall-seconds",
    type=click.FloatRange(min=0, max=10**5, min_open=True),
    default=3600,
    show_default=True,
    help="Time that may be asked for one run.",
)
@click.option(
    "--most-processes",
    type=click.IntRange(1, 2**20),
    default=4096,
    show_default=True,
    help="Processes and threads that may be asked for one run.",
)
@click.option(
    "--most-output-kb",
    type=click.IntRange(1, 2**22),
    default=64 * 1024,
    show_default=True,
    help="Output that may be asked for one run; the service holds it in memory.",
)
@click.option(
    "--most-disk-mb",
    type=click.IntRange(1, 2**24),
    help="Space in /tmp that may be asked for one run; by default as much as memory.",
)
@options.isolation
def command(
    host: str,
    port: int,
    workers: int | None,
    queue: int,
    max_body_mb: float,
    token_file: Path | None,
    most_memory_mb: int | None,
    most_wall_seconds: float,
    most_processes: int,
    most_output_kb: int,
    most_disk_mb: int | None,
    isolation: str,
) -> None:
    """Judge and run programs for others, over HTTP.

    POST /judge takes records as `curate judge` does; POST /run_code speaks SandboxFusion. The whole is described at
    /openapi.json. SIGTERM and Ctrl-C let what was accepted finish; a second one ends at once.
    """
    missing = [name for name in ("prometheus_client", "starlette", "uvicorn", "httptools") if find_spec(name) is None]
    if missing:
        raise click.ClickException(f"{', '.join(missing)} not installed. Type: pip install 'curate-code[serve]'")
    from sandbox import Sandbox, SandboxError
    from sandbox.service import bounds, server
    from sandbox.service.settings import Settings, is_loopback

    token = _token(token_file)
    try:
        if token is None and not is_loopback(host):
            raise click.ClickException(
                f"whoever reaches {host} could run programs here; give a token: --token-file FILE, or set CURATE_TOKEN"
            )
        listener = server.listen(host, port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on {host}, port {port}: {error.strerror}. Choose others with --host and --port."
        ) from error
    address, port = listener.getsockname()[:2]
    url = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
    try:
        with listener, Sandbox(workers, isolation=isolation) as box:
            most = bounds.default_most(box.workers)
            most = replace(
                most,
                wall_seconds=most_wall_seconds,
                cpu_seconds=most_wall_seconds,
                memory_mb=most_memory_mb or most.memory_mb,
                processes=most_processes,
                output_kb=most_output_kb,
                disk_mb=most_disk_mb or most_memory_mb or most.disk_mb,
            )
            settings = Settings(queue=queue, max_body_mb=max_body_mb, token=token, host=host, most=most)
            words = f"listening on {url} ({box.workers} workers, {'token' if token else 'no token'})"
            done = server.serve(box, settings, listener, lambda: click.echo(words))
    except SandboxError as error:
        raise click.ClickException(str(error)) from error
    if not done:
        raise click.ClickException("stopped before all that was accepted was answered")


def _token(file: Path | None) -> str | None:
    """The service's token, from a file or the environment."""
    token = file.read_text().strip() if file is not None else os.environ.get("CURATE_TOKEN") or None
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise click.ClickException(
            f"the token in {file or 'CURATE_TOKEN'} must be one word of ASCII. Make one: openssl rand -hex 32"
        )
    return token
