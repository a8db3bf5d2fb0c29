"""The command that installs the requirements of an extra. It names them instead of the extra, since a package index
need not have the distribution itself: users install it from a clone or a wheel.
"""

import shlex
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

__all__ = ["install_command"]

_DISTRIBUTION = "curate-code"
_SOURCE_TREE = Path(__file__).parents[1]


def install_command(extra: str) -> str:
    """Return the command that installs an extra's requirements, such as "pip install 'ray>=2.52'"."""
    try:
        from packaging.requirements import Requirement

        requirements = [Requirement(line) for line in requires(_DISTRIBUTION) or ()]
    except (PackageNotFoundError, ImportError):  # an uninstalled source tree
        return f"pip install --editable {shlex.quote(f'{_SOURCE_TREE}[{extra}]')}"
    needed = [line for line in requirements if line.marker is not None and line.marker.evaluate({"extra": extra})]
    for requirement in needed:
        requirement.marker = None
    return shlex.join(["pip", "install", *map(str, needed)])
