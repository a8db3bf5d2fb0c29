"""The exceptions of curate; CurateError is the base class."""

from pathlib import Path


class CurateError(Exception):
    """An error that ends a command. Its message has the cause and a remedy."""


class OutputInUseError(CurateError):
    """Another command is writing to this file or folder."""

    def __init__(self, out: Path) -> None:
        super().__init__(f"another command is writing to {out}. Wait for it, or choose another --out.")


class PlanMismatchError(CurateError):
    """The output folder has a dataset or an export of another plan; `overwrite` replaces it."""
