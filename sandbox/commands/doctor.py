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
@options.add_sandbox_options
def command(sandbox: "SandboxOptions") -> None:
    """Show the isolation layers of this machine and test them."""
    from sandbox import SandboxError

    click.echo(f"curate-code {version('curate-code')}, Python {platform.python_version()}, Linux {platform.release()}")
    one_worker = replace(sandbox, workers=sandbox.workers or 1)
    with report_user_errors(SandboxError, ValueError), one_worker.open() as box:
        _show_layers(sandbox.backend, box.layers)
        _show_packages(box)
        n_failed = _run_checks(sandbox.backend, box)
    click.echo(f"\n{'all checks passed' if not n_failed else f'failed checks: {n_failed}'}")
    sys.exit(1 if n_failed else 0)


def _show_layers(backend: str, layers: Mapping[str, str]) -> None:
    click.echo(f"\nbackend {backend}: isolation layers of a run")
    weak = [layer for layer, description in layers.items() if description.startswith(("none", "best-effort"))]
    for layer, description in layers.items():
        click.echo(f"{'!' if layer in weak else ' '} {layer:<20} {description}")
    if weak:
        click.echo(f"\n! degraded or missing: {', '.join(weak)}")


def _show_packages(box: "Sandbox") -> None:
    if box.packages:
        click.echo("\npackages that programs can import besides the standard library:")
        for package in box.packages:
            why = "" if package.requested else "  dependency"
            click.echo(f"  {package.name:<20} {package.version:<12} sha256 {package.digest[:16]}{why}")


def _run_checks(backend: str, box: "Sandbox") -> int:
    """Run and show the self-checks; return the number of failed ones."""
    from sandbox.conformance import KNOWN_FAILURES, run

    click.echo("\nself-check")
    known_failures = KNOWN_FAILURES.get(backend, {})
    n_failed = 0
    for result in run(box):
        if result.passed is False and result.check.name not in known_failures:
            n_failed += 1
        click.echo(_format_result(result, known_failures))
    return n_failed


def _apply_style(word: str) -> str:
    return click.style(word, **_STYLES.get(word.strip(), {}))  # click.echo removes the style if stdout is no terminal


def _format_result(result: "CheckResult", known_failures: Mapping[str, str]) -> str:
    name = result.check.name
    if result.passed:
        return f"  {_apply_style('ok      ')}{name}"
    if result.passed is None:
        return f"  {_apply_style('absent  ')}{name}: {result.actual}"
    if name in known_failures:
        return f"  {_apply_style('known   ')}{name}: {known_failures[name]}"
    return f"  {_apply_style('FAILED  ')}{name}: {result.actual}"
