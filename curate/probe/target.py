"""Targets: anybody's judge of answers that are programs."""

from dataclasses import dataclass, field
from typing import Protocol

from sandbox.probes.probe import Convention
from sandbox.suite import Suite


@dataclass(frozen=True, slots=True)
class Score:
    """The answer of a judge to one completion.

    value   its reward, or None if it is unknown
    fault   why there is none: "raised", "no number", "crashed", "hung", "unanswered"; empty if the judge gave None
    """

    value: float | None
    fault: str = ""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """The facts about a target that are known before it is probed.

    kind          "trl", "verl", ..., "curate serve" or "SandboxFusion"
    forms         the names of the forms in which it may take tests; the first that works is used
    conventions   the forms of problems that it may support
    takes_text    whether it takes whole completions; otherwise programs
    protections   what protects this machine from programs that it runs, by layer; empty if that is its own affair
    """

    kind: str
    forms: tuple[str, ...] = ("",)
    conventions: tuple[Convention, ...] = tuple(Convention)
    takes_text: bool = True
    protections: dict[str, str] = field(default_factory=dict)


class TargetJudge(Protocol):
    """A target that is open. One thread at a time calls it; each thread opens its own."""

    def open(self) -> TargetDescription:
        """Make the target ready, and return what is known of it. Raises UnusableTarget."""
        ...

    def score(self, completion: str, suite: Suite, form: int, condition: str = "") -> Score:
        """Return what the target says of a completion; a judge that fails is a value as well."""
        ...

    def restart(self) -> None:
        """Forget everything that earlier submissions may have left in the target's process."""
        ...

    def close(self) -> None: ...
