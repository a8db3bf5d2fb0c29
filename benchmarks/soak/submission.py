"""A submission with known right verdicts."""

from dataclasses import dataclass

from sandbox import Judgement, Program, Suite, Verdict

Verdicts = frozenset[Verdict]


@dataclass(frozen=True, slots=True)
class SoakSubmission:
    """A program, its suite, and its right verdicts.

    expected_verdicts: the right verdicts of each judged case; only some hostile programs have more than one
    """

    kind: str
    program: Program
    suite: Suite
    expected_verdicts: tuple[Verdicts, ...]

    def find_mistake(self, response: Judgement | Exception) -> str:
        """Return the mistake in a response; "" if there is none."""
        if isinstance(response, Exception):
            return f"{self.kind}: no verdict: {type(response).__name__}: {response}"
        verdicts = [case.verdict for case in response.cases]
        worst = next((verdict for verdict in verdicts if verdict is not Verdict.ACCEPTED), Verdict.ACCEPTED)
        right = len(verdicts) == len(self.expected_verdicts) and all(
            verdict in due for verdict, due in zip(verdicts, self.expected_verdicts, strict=True)
        )
        if right and response.verdict is worst:
            return ""
        expected = ", ".join(" or ".join(sorted(verdict.value for verdict in due)) for due in self.expected_verdicts)
        details = "; ".join(f"{case.verdict.value} {case.detail[-200:]!r}" for case in response.cases)
        return f"{self.kind}: expected {expected}, got {response.verdict.value}: {details}"
