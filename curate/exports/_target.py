"""The interface of an export target, which is a module of this folder."""

import pkgutil
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from curate import exports
from curate.exports._options import ExportOptions
from curate.problem import Problem


class ExportTarget(Protocol):
    """The format of a trainer or a tool. The problems that it is given contain only the tests for a reward to run.

    A target that can run only a limited number of tests also has settle(options), which returns the options with this
    limit, or raises CurateError if more tests were requested.
    """

    @property
    def EXCLUSION_REASONS(self) -> Mapping[str, str]:
        """The fixed words for reasons why problems are left out, with their meanings."""

    def unsupported_reason(self, problem: Problem, options: ExportOptions) -> str | None:
        """Return the reason why this format cannot express the problem, one of EXCLUSION_REASONS; None if it can."""

    def write(self, problems: Iterable[Problem], folder: Path, options: ExportOptions) -> None:
        """Write the files and a README.md that explains how to use them."""


def target_names() -> list[str]:
    """Return the names of all targets, which are the names of the files in curate/exports."""
    names = (module.name for module in pkgutil.iter_modules(exports.__path__))
    return sorted(name for name in names if not name.startswith("_"))


def load_target(name: str) -> ExportTarget:
    """Return the target with this name, which must be one of target_names()."""
    return cast(ExportTarget, import_module(f"curate.exports.{name}"))


def apply_target_limits(target: ExportTarget, options: ExportOptions) -> ExportOptions:
    """Return the options with the limits of this target. Raises CurateError if they request more than it can run."""
    settled: ExportOptions = target.apply_target_limits(options) if hasattr(target, "apply_target_limits") else options
    return settled
