"""What every judge offers, and what it returns."""

from dataclasses import dataclass
from typing import Any, Protocol

from sandbox import Sandbox


class NoVerdictError(Exception):
    """Nothing is known about an answer, for a reason that lies in the exercise; another attempt would end the same."""


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """What a judge says about an answer.

    verdict   "accepted", another value of sandbox.Verdict, or a word of rewards.reward: there was nothing to judge
    parts     verdicts on the parts of the tests that were judged, by name, where a suite has such parts
    """

    verdict: str
    parts: tuple[tuple[str, str], ...] = ()


class Judge(Protocol):
    """Judges answers to one exercise. Many threads call it at once."""

    @property
    def identity(self) -> list[Any]:
        """JSON values that name all that a verdict depends on, except the answer."""
        ...

    def judge(self, answer: str, sandbox: Sandbox) -> JudgeResult:
        """Judge the text of an answer. Raises SandboxError and NoVerdictError: then nothing is known about the
        answer."""
        ...
