"""Judging of submissions, each of which must get exactly one right response."""

from collections import Counter
from collections.abc import Iterable, Iterator

from benchmarks.soak.submission import SoakSubmission
from sandbox import Judgement, Program, Sandbox, Suite


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
