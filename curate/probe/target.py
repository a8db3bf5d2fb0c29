"""Targets of probes: judges of completions with programs."""

from dataclasses import dataclass, field
from typing import Protocol

from sandbox.probes.probe import Convention
from sandbox.suite import Suite


@dataclass(frozen=True, slots=True)
class Score:
    """A judge's result for one completion.

    value   the reward; None if unknown
    fault   reason of an unknown reward: "raised", "no number", "crashed", "hung" or "unanswered"; empty if the judge
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
    forms         names of possible forms of its tests; the calibration selects the best
    conventions   possible conventions
    takes_text    whether it takes whole completions; otherwise programs
    protections   isolation of its process from this machine, by layer; empty for a remote target
    """

    kind: str
    forms: tuple[str, ...] = ("",)
    conventions: tuple[Convention, ...] = tuple(Convention)
    takes_text: bool = True
    protections: dict[str, str] = field(default_factory=dict)


class TargetJudge(Protocol):
    """A connection to a target. Not thread-safe; each thread opens its own."""

    def open(self) -> TargetDescription:
        """Start the target, and return its description. Raises UnusableTarget."""
        ...

    def score(self, completion: str, suite: Suite, form: int, condition: str = "") -> Score:
        """Return the target's score of a completion. A failure of the judge is a score with a fault.

        form       index of the form of the tests
        condition  outage to simulate during the call; empty for none
        """
        ...

    def restart(self) -> None:
        """Discard all state of earlier submissions in the target's process."""
        ...

    def close(self) -> None: ...
