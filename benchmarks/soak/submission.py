"""Submissions with known right verdicts, and a tally of the responses to them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sandbox import Judgement, Program, Sandbox, Suite, Verdict

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


class Tally:
    """Counts of runs, submissions and verdicts, and the mistakes.

    waiting: submissions without a response, by index
    """

    def __init__(self) -> None:
        self.runs = self.submissions = 0
        self.verdicts: Counter[str] = Counter()
        self.mistakes: list[str] = []
        self.waiting: dict[int, SoakSubmission] = {}

    def judge(self, box: Sandbox, submissions: Iterable[SoakSubmission]) -> Iterator[SoakSubmission]:
        """Yield the submissions in order of completion. Each executed case counts as a run."""

        def take_pairs() -> Iterator[tuple[Program, Suite]]:
            for index, submission in enumerate(submissions):
                self.waiting[index] = submission
                yield submission.program, submission.suite

        for index, response in box.judge_many_with_errors(take_pairs(), run_all=True):
            submission = self.waiting.pop(index, None)
            if submission is None:
                self.mistakes.append(f"submission {index} got two responses")
                continue
            self.submissions += 1
            self._record(submission, response)
            yield submission
        self.mistakes += [f"{submission.kind}: no response" for submission in self.waiting.values()]
        self.waiting.clear()

    def _record(self, submission: SoakSubmission, response: Judgement | Exception) -> None:
        if mistake := submission.find_mistake(response):
            self.mistakes.append(mistake)
        if isinstance(response, Judgement):
            self.runs += len(response.cases)
            self.verdicts.update(case.verdict.value for case in response.cases)
