"""`curate doctor`"""

import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click

from sandbox.commands import options
from sandbox.commands.console import report_user_errors

if TYPE_CHECKING:
    from sandbox import Sandbox, SandboxOptions
    from sandbox.conformance import CheckResult


_STYLES: dict[str, dict[str, Any]] = {"ok": {"fg": "green"}, "FAILED": {"fg": "red", "bold": True}}


@click.command("doctor")
@options.sandbox_options
def command(sandbox: "SandboxOptions") -> None:
    """Show the isolation layers of this machine and test them."""
    from sandbox import SandboxError

    click.echo(f"curate-code {version('curate-code')}, Python {platform.python_version()}, Linux {platform.release()}")
    one_worker = replace(sandbox, workers=sandbox.workers or 1)
    with report_user_errors(SandboxError, ValueError), one_worker.open() as box:
        _show_layers(sandbox.backend, box.layers)
        _show_packages(box)
        n_failed = _check(sandbox.backend, box)
    click.echo(f"\n{'all checks hold' if not n_failed else f'{n_failed} checks failed'}")
    sys.exit(1 if n_failed else 0)


def _show_layers(backend: str, layers: Mapping[str, str]) -> None:
    click.echo(f"\nbackend {backend}: what isolates a run")
    weak = [layer for layer, how in layers.items() if how.startswith(("none", "best-effort"))]
    for layer, how in layers.items():
        click.echo(f"{'!' if layer in weak else ' '} {layer:<20} {how}")
    if weak:
        click.echo(f"\n! weaker than it can be, or missing: {', '.join(weak)}")


def _show_packages(box: "Sandbox") -> None:
    if box.packages:
        click.echo("\npackages: what programs can import besides the standard library")
        for package in box.packages:
            why = "" if package.requested else "  needed by another"
            click.echo(f"  {package.name:<20} {package.version:<12} sha256 {package.digest[:16]}{why}")


def _check(backend: str, box: "Sandbox") -> int:
    """Run the self-check, show its findings, and return the number of checks that failed."""
    from sandbox.conformance import KNOWN_FAILURES, run

    click.echo("\nself-check")
    known = KNOWN_FAILURES.get(backend, {})
    n_failed = 0
    for finding in run(box):
        if finding.passed is False and finding.check.name not in known:
            n_failed += 1
        click.echo(_line(finding, known))
    return n_failed


def _styled(word: str) -> str:
    return click.style(word, **_STYLES.get(word.strip(), {}))  # click leaves the style out where there is no terminal


def _line(finding: "CheckResult", known_failures: Mapping[str, str]) -> str:
    name = finding.check.name
    if finding.passed:
        return f"  {_styled('ok      ')}{name}"
    if finding.passed is None:
        return f"  {_styled('absent  ')}{name}: {finding.actual}"
    if name in known_failures:
        return f"  {_styled('known   ')}{name}: {known_failures[name]}"
    return f"  {_styled('FAILED  ')}{name}: {finding.actual}"
