"""The options of the sandbox, shared by all commands that run programs."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

BACKENDS = ("local", "docker", "ray", "http")  # not backends.list_names(), whose import would slow down every command
_OPTIONS = (
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        help="Where programs run: on this machine, in containers of a Docker engine, on the nodes of a Ray cluster, "
        "or at the service of `curate serve`.  [default: local]",
    ),
    click.option(
        "--address",
        metavar="ADDRESS",
        help="With --backend http: URL of the service. With --backend ray: HOST:PORT of the head node, or auto.  "
        "[default for ray: auto]",
    ),
    click.option(
        "--image",
        metavar="NAME",
        help="With --backend docker: name of the containers' image.  [default: the image of `make sandbox-image`]",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        help="Maximum number of concurrent programs; with --backend ray, per node.  [default: one per usable core]",
    ),
    click.option(
        "--isolation",
        type=click.Choice(["full", "best-effort"]),
        help="Without namespaces and Landlock, full fails; best-effort warns and judges anyway.  [default: full]",
    ),
    click.option(
        "--package",
        "packages",
        multiple=True,
        metavar="NAME",
        help="A package that programs can import besides the standard library and numpy: pandas, 'scipy>=1.11'. It "
        "must be installed where programs run, or be in the image. Can be given several times.",
    ),
    click.option(
        "--packages-from",
        metavar="FOLDER",
        help="Folder of the packages, from `pip install --target FOLDER`.  [default: this environment]",
    ),
)
NAMES = ("backend", "address", "image", "workers", "isolation", "packages", "packages_from")

Command = Callable[..., Any]


def add_sandbox_options(command: Command) -> Command:
    """Add the options of the sandbox to a command. Its parameter `sandbox` gets them as a SandboxOptions."""

    @add_sandbox_overrides
    @wraps(command)
    def call_with_options(*arguments: Any, sandbox: dict[str, Any], **others: Any) -> Any:
        from sandbox import SandboxOptions

        try:
            options = SandboxOptions(**sandbox)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        return command(*arguments, sandbox=options, **others)

    return call_with_options


def add_sandbox_overrides(command: Command) -> Command:
    """Add the options of the sandbox to a command, for commands that also read them from a configuration file.

    Its parameter `sandbox` gets a dict of the options that the user has passed.
    """

    @wraps(command)
    def call_with_overrides(*arguments: Any, **others: Any) -> Any:
        chosen = {name: others.pop(name) for name in NAMES}
        overrides = {name: value for name, value in chosen.items() if value not in (None, ())}
        return command(*arguments, sandbox=overrides, **others)

    decorated: Command = call_with_overrides
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
