"""The command `curate`: a group of the commands of all packages, imported on first use for a fast start.

Each package lists its commands in `COMMANDS` of its `commands` folder. The entry NAME is the function `command` of the
module NAME; MODULE:NAME is the function NAME of MODULE. Names of commands have hyphens in place of underscores.
"""

import os
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import click

_HERE = Path(__file__).resolve().parents[2]
_PACKAGES = ("sandbox", "rewards", "curate", "train")


class _Commands(click.Group):
    """A group that loads commands on demand, and lists each with the first sentence of its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(list_command_modules())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load_command(cmd_name) if cmd_name in list_command_modules() else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, _extract_first_sentence(load_command(name))) for name in self.list_commands(ctx)]
            )


@cache
def list_command_modules() -> dict[str, str]:
    """Return the module of each command, by name. Raises ClickException if foreign packages shadow curate's."""
    _refuse_foreign_packages()
    folders = [f"{package}.commands" for package in _PACKAGES if find_spec(f"{package}.commands")]
    modules = [f"{folder}.{name}" for folder in folders for name in import_module(folder).COMMANDS]
    return {re.split("[.:]", module)[-1].replace("_", "-"): module for module in modules}


def load_command(name: str) -> click.Command:
    """Import and return a command.

    Raises KeyError for an unknown name, or ClickException as `list_command_modules` does.
    """
    module, _, function = list_command_modules()[name].partition(":")
    command: click.Command = getattr(import_module(module), function or "command")
    return command


def _extract_first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").split()).partition(". ")[0].removesuffix(".") + "."


def _show_version(context: click.Context, option: click.Parameter, is_set: bool) -> None:
    if is_set:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"curate-code {version('curate-code')}, {_describe_origin()}")
        except PackageNotFoundError:
            raise click.ClickException(f"{_HERE} is a source tree that is not installed. Type: make setup") from None
        context.exit()


def _describe_origin() -> str:
    """Return a text with the git commit of the installed distribution or, without one, the source folder."""
    try:
        return f"built from commit {(_HERE / 'curate' / 'commit.txt').read_text().strip()}"
    except FileNotFoundError:
        return f"in {_HERE}"


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
def main() -> None:
    """Turn raw programming problems into datasets whose rewards can be trusted.

    `curate COMMAND --help` explains a command and all of its options.
    """


def _refuse_foreign_packages() -> None:
    """Raise ClickException if other modules shadow curate's packages.

    SandboxFusion's server is also a package `sandbox`, and many projects have a `train.py`.
    """
    for name in _PACKAGES:
        spec = find_spec(name)
        origin = spec and spec.origin
        if not origin or Path(origin).resolve().parent.parent != _HERE:
            raise click.ClickException(
                f"another package named {name} shadows curate's: {origin}. If it is a file of yours, remove its folder "
                "from PYTHONPATH. If it is an installed package, install curate-code in a separate environment."
            )


def run() -> None:
    """Run the program `curate`."""
    # For child processes of libraries: vLLM starts `python -m`, which would import from the working folder.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    main(prog_name="curate")
