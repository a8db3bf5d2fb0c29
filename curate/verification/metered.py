"""A sandbox that adds up what it spends on one problem."""

from collections.abc import Sequence

from sandbox import Judgement, Limits, Program, RunResult, Sandbox, Suite


class MeteredSandbox:
    """Judges and runs programs, and adds up the CPU seconds that they use. Each object is for one problem and thread.

    Each method raises the same exceptions as the method of `Sandbox` with the same name.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.spent_seconds = 0.0

    def judge(self, program: Program, suite: Suite, *, run_all: bool = False) -> Judgement:
        judgement = self._sandbox.judge(program, suite, run_all=run_all)
        self.spent_seconds += cpu_seconds(judgement)
        return judgement

    def judge_many(self, pairs: Sequence[tuple[Program, Suite]], *, run_all: bool = False) -> list[Judgement]:
        """Judge all pairs and return the judgements in the same order.

        They are judged in one request, because on a cluster each request adds latency.
        """
        judgements = dict(self._sandbox.judge_many(pairs, run_all=run_all))
        self.spent_seconds += sum(map(cpu_seconds, judgements.values()))
        return [judgements[index] for index in range(len(pairs))]

    def run(self, program: Program, stdin: str, limits: Limits) -> RunResult:
        result = self._sandbox.run(program, stdin, limits)
        self.spent_seconds += result.cpu_seconds
        return result


def cpu_seconds(judgement: Judgement) -> float:
    """Return the total CPU seconds that the runs of a judgement used."""
    return sum(case.cpu_seconds for case in judgement.cases)
