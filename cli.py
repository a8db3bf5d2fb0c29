"""The `curate` command. Each of its commands is a file in the `commands` folder of the package that does the work."""

import sys
from importlib.util import find_spec
from pathlib import Path

import click

# Check this before any import of ours: other packages are named sandbox as well, such as SandboxFusion's server.
_sandbox = find_spec("sandbox")
if (
    _sandbox is None
    or _sandbox.origin is None
    or Path(_sandbox.origin).resolve().parents[1] != Path(__file__).resolve().parent
):
    sys.exit(
        f"Error: another package named sandbox hides ours: {_sandbox and _sandbox.origin}. SandboxFusion's server is "
        "one; install curate-code in an environment of its own."
    )

from curate.commands import build_dataset, decontaminate, diff, export, inspect, push, sources, stats  # noqa: E402
from sandbox.commands import doctor, judge, serve  # noqa: E402
from train.commands import difficulty, evaluate, plot, train  # noqa: E402


@click.group()
def main() -> None:
    """Turn raw programming problems into datasets whose rewards can be trusted."""


for _module in (build_dataset, decontaminate, diff, export, inspect, push, sources, stats):
    main.add_command(_module.command)
for _module in (doctor, judge, serve):
    main.add_command(_module.command)
for _module in (difficulty, evaluate, plot, train):
    main.add_command(_module.command)

if __name__ == "__main__":  # torchrun -m cli
    main()
