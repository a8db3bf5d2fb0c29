"""`curate doctor`"""

import platform
import sys
from importlib.metadata import version
from typing import Any

import click

from sandbox.commands import options


@click.command("doctor")
@click.option("--backend", default="local", show_default=True, help="Where programs run: local, docker, ray or http.")
@click.option("--address", help="Of the Ray cluster, or the URL of the service.")
@options.isolation
def command(backend: str, address: str | None, isolation: str) -> None:
    """Show what isolates programs, and check it."""
    from sandbox import Sandbox, SandboxError
    from sandbox.conformance import KNOWN_FAILURES, run

    click.echo(f"curate-code {version('curate-code')}, Python {platform.python_version()}, Linux {platform.release()}")
    known = KNOWN_FAILURES.get(backend, {})
    failed = 0
    try:
        with Sandbox(workers=1, backend=backend, isolation=isolation, **_where(backend, address)) as box:
            click.echo(f"\nbackend {backend}: what isolates a run")
            weak = [layer for layer, how in box.layers.items() if how.startswith(("none", "best-effort"))]
            for layer, how in box.layers.items():
                click.echo(f"{'!' if layer in weak else ' '} {layer:<20} {how}")
            if weak:
                click.echo(f"\n! weaker than it can be, or missing: {', '.join(weak)}")
            click.echo("\nself-check")
            for finding in run(box):
                name = finding.check.name
                if finding.holds:
                    click.echo(f"  ok      {name}")
                elif finding.holds is None:
                    click.echo(f"  absent  {name}: {finding.seen}")
                elif name in known:
                    click.echo(f"  known   {name}: {known[name]}")
                else:
                    failed += 1
                    click.echo(f"  FAILED  {name}: {finding.seen}")
    except (SandboxError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"\n{'all checks hold' if not failed else f'{failed} checks failed'}")
    sys.exit(1 if failed else 0)


def _where(backend: str, address: str | None) -> dict[str, Any]:
    """The keyword of a backend that says where it is."""
    if address is None:
        return {}
    keyword = {"ray": "address", "http": "url"}.get(backend)
    if keyword is None:
        raise click.ClickException(f"--address is for the backends ray and http, not {backend}")
    return {keyword: address}
