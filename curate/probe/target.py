"""The interface of targets, the judges that the probes test."""

from dataclasses import dataclass, field
from typing import Protocol

from sandbox.probes.probe import Convention
from sandbox.suite import Suite


@dataclass(frozen=True, slots=True)
class Score:
    """A judge's result for one completion.

    value   the reward; None if unknown
    fault   why the reward is unknown: "raised", "no number", "crashed", "hung" or "unanswered"; empty if the judge
            returned None
    detail  an explanation for the user
    """

    value: float | None
    fault: str = ""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """The properties of an open target.

    kind          "trl", "verl", ..., "curate serve" or "SandboxFusion"
    forms         names of the formats of tests to try; the calibration selects the best
    conventions   conventions of problems to try
    accepts_text  whether it accepts whole completions; otherwise only programs
    protections   isolation of its process from this machine, by layer; empty for a remote target
    """

    kind: str
    forms: tuple[str, ...] = ("",)
    conventions: tuple[Convention, ...] = tuple(Convention)
    accepts_text: bool = True
    protections: dict[str, str] = field(default_factory=dict)


class TargetJudge(Protocol):
    """A connection to a target. Not thread-safe; each thread opens its own."""

    def open(self) -> TargetDescription:
        """Start the target, and return its description. Raises UnusableTarget."""
        ...

    def score(self, completion: str, suite: Suite, form: int, condition: str = "") -> Score:
        """Return the target's score of a completion. A failure of the judge is a score with a fault.

        form       index in the target's `forms`
        condition  outage to simulate during the call; empty for none
        """
        ...

    def restart(self) -> None:
        """Discard all state of earlier submissions in the target's process."""
        ...

    def close(self) -> None: ...
