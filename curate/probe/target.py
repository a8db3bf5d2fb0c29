"""Targets: judges of completions that contain programs."""

from dataclasses import dataclass, field
from typing import Protocol

from sandbox.probes.probe import Convention
from sandbox.suite import Suite


@dataclass(frozen=True, slots=True)
class Score:
    """A judge's result for one completion.

    value   its reward, or None if it is unknown
    fault   reason that it is unknown: "raised", "no number", "crashed", "hung", "unanswered"; empty if the judge
            returned None
    """

    value: float | None
    fault: str = ""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """The properties of an open target.

    kind          "trl", "verl", ..., "curate serve" or "SandboxFusion"
    forms         names of possible forms of its tests; the first that works is used
    conventions   the conventions that it may support
    takes_text    whether it takes whole completions; otherwise programs
    protections   isolation of its process from this machine, by layer; empty for a remote target
    """

    kind: str
    forms: tuple[str, ...] = ("",)
    conventions: tuple[Convention, ...] = tuple(Convention)
    takes_text: bool = True
    protections: dict[str, str] = field(default_factory=dict)


class TargetJudge(Protocol):
    """An open target. Not thread-safe; each thread opens its own."""

    def open(self) -> TargetDescription:
        """Start the target, and return its description. Raises UnusableTarget."""
        ...

    def score(self, completion: str, suite: Suite, form: int, condition: str = "") -> Score:
        """Return the target's score of a completion. A failure of the judge is a score with a fault."""
        ...

    def restart(self) -> None:
        """Discard all state that earlier submissions may have left in the target's process."""
        ...

    def close(self) -> None: ...
