"""A submission with known right verdicts."""

from dataclasses import dataclass

from sandbox import Judgement, Program, Suite, Verdict

Verdicts = frozenset[Verdict]


@dataclass(frozen=True, slots=True)
class SoakSubmission:
    """A program, its suite, and its right verdicts.

    due: for each case that must be judged, the right verdicts; only some hostile programs have more than one
    """

    kind: str
    program: Program
    suite: Suite
    expected_verdicts: tuple[Verdicts, ...]

    def mistake(self, answer: Judgement | Exception) -> str:
        """Return the mistake in a response; "" if there is none."""
        if isinstance(answer, Exception):
            return f"{self.kind}: no verdict: {type(answer).__name__}: {answer}"
        verdicts = [case.verdict for case in answer.cases]
        worst = next((verdict for verdict in verdicts if verdict is not Verdict.ACCEPTED), Verdict.ACCEPTED)
        right = len(verdicts) == len(self.expected_verdicts) and all(
            verdict in due for verdict, due in zip(verdicts, self.expected_verdicts, strict=True)
        )
        if right and answer.verdict is worst:
            return ""
        expected = ", ".join(" or ".join(sorted(verdict.value for verdict in due)) for due in self.expected_verdicts)
        details = "; ".join(f"{case.verdict.value} {case.detail[-200:]!r}" for case in answer.cases)
        return f"{self.kind}: expected {expected}, got {answer.verdict.value}: {details}"
