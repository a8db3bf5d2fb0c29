"""The exceptions that curate raises on purpose. A caller need catch only the first."""

from pathlib import Path


class CurateError(Exception):
    """The work cannot go on: the message says what is wrong and what to type next."""


class OutputInUseError(CurateError):
    """Another command is writing to this file or folder."""

    def __init__(self, out: Path) -> None:
        super().__init__(f"another command is writing to {out}. Wait for it, or choose another --out.")


class PlanMismatchError(CurateError):
    """The output folder holds a dataset or an export that was made otherwise; the caller may ask to replace it."""
