"""A submission of which is known what must become of it."""

from dataclasses import dataclass

from sandbox import Judgement, Program, Suite, Verdict

Verdicts = frozenset[Verdict]


@dataclass(frozen=True, slots=True)
class Submission:
    """due: for each case that must be judged the verdicts that are right; one, but for some hostile programs."""

    kind: str
    program: Program
    suite: Suite
    due: tuple[Verdicts, ...]

    def mistake(self, answer: Judgement | Exception) -> str:
        """What is wrong with an answer; "" if nothing is."""
        if isinstance(answer, Exception):
            return f"{self.kind}: no verdict: {type(answer).__name__}: {answer}"
        found = [case.verdict for case in answer.cases]
        worst = next((verdict for verdict in found if verdict is not Verdict.ACCEPTED), Verdict.ACCEPTED)
        right = len(found) == len(self.due) and all(
            verdict in verdicts for verdict, verdicts in zip(found, self.due, strict=True)
        )
        if right and answer.verdict is worst:
            return ""
        wanted = ", ".join(" or ".join(sorted(verdict.value for verdict in verdicts)) for verdicts in self.due)
        details = "; ".join(f"{case.verdict.value} {case.detail[-200:]!r}" for case in answer.cases)
        return f"{self.kind}: due {wanted}; given {answer.verdict.value}: {details}"
