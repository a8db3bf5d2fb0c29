"""Versions of installed distributions, and the command that installs the requirements of one of curate's extras.

The command lists the requirements, since curate itself is on no package index.
"""

import shlex
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

DISTRIBUTION = "curate-code"
_SOURCE_TREE = Path(__file__).parents[1]


def find_installed_version(*names: str) -> str | None:
    """Return the version of the first of these distributions that is installed; None if none is."""
    for name in names:
        with suppress(PackageNotFoundError):
            return version(name)
    return None


def format_install_command(extra: str) -> str:
    """Return the command that installs an extra's requirements, such as "pip install 'ray>=2.52'"."""
    try:
        from packaging.requirements import Requirement

        requirements = [Requirement(line) for line in requires(DISTRIBUTION) or ()]
    except (PackageNotFoundError, ImportError):  # curate runs from a source tree that is not installed
        return f"pip install --editable {shlex.quote(f'{_SOURCE_TREE}[{extra}]')}"
    needed = [line for line in requirements if line.marker is not None and line.marker.evaluate({"extra": extra})]
    for requirement in needed:
        requirement.marker = None
    return shlex.join(["pip", "install", *map(str, needed)])
