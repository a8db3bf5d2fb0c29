"""Has submissions judged and keeps the books: each one answered, once, and rightly."""

from collections import Counter
from collections.abc import Iterable, Iterator

from benchmarks.soak.submission import Submission
from sandbox import Judgement, Program, Sandbox, Suite


class Tally:
    """waiting: the submissions that are asked for and not yet answered, by their index."""

    def __init__(self) -> None:
        self.runs = self.submissions = 0
        self.verdicts: Counter[str] = Counter()
        self.mistakes: list[str] = []
        self.waiting: dict[int, Submission] = {}

    def judge(self, box: Sandbox, submissions: Iterable[Submission]) -> Iterator[Submission]:
        """The submissions as they are answered. A run is a case that was executed."""

        def pairs() -> Iterator[tuple[Program, Suite]]:
            for index, submission in enumerate(submissions):
                self.waiting[index] = submission
                yield submission.program, submission.suite

        for index, answer in box.judge_each(pairs(), run_all=True):
            submission = self.waiting.pop(index, None)
            if submission is None:
                self.mistakes.append(f"submission {index} was answered twice")
                continue
            self.submissions += 1
            self._book(submission, answer)
            yield submission
        self.mistakes += [f"{submission.kind}: never answered" for submission in self.waiting.values()]
        self.waiting.clear()

    def _book(self, submission: Submission, answer: Judgement | Exception) -> None:
        if mistake := submission.mistake(answer):
            self.mistakes.append(mistake)
        if isinstance(answer, Judgement):
            self.runs += len(answer.cases)
            self.verdicts.update(case.verdict.value for case in answer.cases)
