"""A sandbox that adds up what it spends on one problem."""

from collections.abc import Sequence

from sandbox import CaseJudgement, Judgement, Limits, Program, RefereeError, RunResult, Sandbox, Suite, Verdict


class MeteredSandbox:
    """Judges and runs programs, and adds up the CPU seconds that they use. Each object is for one problem and thread.

    Each method raises the same exceptions as the method of `Sandbox` with the same name, except for RefereeError: see
    `judged`.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.spent_seconds = 0.0

    def judge(self, program: Program, suite: Suite, *, run_all: bool = False) -> Judgement:
        judgement = judge_for_build(self._sandbox, program, suite, run_all=run_all)
        self.spent_seconds += cpu_seconds(judgement)
        return judgement

    def judge_many(self, pairs: Sequence[tuple[Program, Suite]], *, run_all: bool = False) -> list[Judgement]:
        """Judge all pairs and return the judgements in the same order.

        They are judged in one request, because on a cluster each request adds latency.
        """
        judgements: dict[int, Judgement] = {}
        for index, answer in self._sandbox.judge_many_with_errors(pairs, run_all=run_all):
            if isinstance(answer, Exception):
                answer = _rejected(answer, pairs[index][1])
            judgements[index] = answer
        self.spent_seconds += sum(map(cpu_seconds, judgements.values()))
        return [judgements[index] for index in range(len(pairs))]

    def run(self, program: Program, stdin: str, limits: Limits) -> RunResult:
        result = self._sandbox.run(program, stdin, limits)
        self.spent_seconds += result.cpu_seconds
        return result


def judge_for_build(
    sandbox: Sandbox, program: Program, suite: Suite, *, run_all: bool = False, keep_outputs: bool = False
) -> Judgement:
    """Judge a program for a build, where a wrong answer is a solution on which the suite's own referee fails.

    Nothing is known about such a solution, but it cannot be a reference, and the other solutions go on.
    """
    try:
        return sandbox.judge(program, suite, run_all=run_all, keep_outputs=keep_outputs)
    except RefereeError as failure:
        return _rejected(failure, suite)


def _rejected(error: Exception, suite: Suite) -> Judgement:
    """Return the judgement for a solution on which a referee has failed. Raises any other exception."""
    if not isinstance(error, RefereeError):
        raise error
    case = CaseJudgement(Verdict.WRONG_ANSWER, 0.0, 0.0, 0.0, str(error))
    return Judgement(Verdict.WRONG_ANSWER, (case,), len(suite.cases))


def cpu_seconds(judgement: Judgement) -> float:
    """Return the total CPU seconds that the runs of a judgement used."""
    return sum(case.cpu_seconds for case in judgement.cases)
