"""An interactive case: a program and its referee run side by side, each one's standard output the other's input.

Who ends first decides: a referee that rejects while the program still talks, or a program that fails.
"""

import os
from dataclasses import replace
from threading import Thread

from sandbox import referee
from sandbox.cases import Convention
from sandbox.errors import ExecutionLost, RefereeFailed
from sandbox.jail.compiled import Compiled
from sandbox.jail.runner import ATTEMPTS, Order, Pipes, Runner
from sandbox.jail.spawn import ZygoteLost
from sandbox.judge import Ran
from sandbox.program import Outcome, RunResult

_THINKING = 3  # times its wall limit a program has in all: it waits while the referee thinks
_LINGERING = 6  # times that, and then some, a referee has: it is not to be the first that is given up
_LINGERING_SECONDS = 30
_REFEREE_CPU_SECONDS = 10  # more than a program has wall time


def talk(order: Order, compiled: Compiled, runner: Runner, theirs: Order, referees: Compiled, partner: Runner) -> Ran:
    """Raises ExecutionLost, and RefereeFailed if the referee crashed or kept the program waiting."""
    limit_seconds = order.job.wall_seconds
    order = order.within(_THINKING * limit_seconds)
    wall_seconds = order.job.wall_seconds
    theirs = theirs.within(_LINGERING * wall_seconds + _LINGERING_SECONDS, wall_seconds + _REFEREE_CPU_SECONDS)
    reason = ""
    for _ in range(ATTEMPTS):
        try:  # both by this thread, which outlives them: a zygote dies with the thread that started it
            runner.make_ready(order)
            partner.make_ready(theirs)
        except ZygoteLost as error:
            reason = str(error)
            continue
        result, answer = _side_by_side(order, compiled, runner, theirs, referees, partner)
        if isinstance(result, RunResult) and isinstance(answer, RunResult):
            rejected_first = partner.ended < runner.ended
            return _outcome(result, answer, rejected_first, limit_seconds)
        reason = result if isinstance(result, str) else str(answer)
    raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {reason}")


def _side_by_side(
    order: Order, compiled: Compiled, runner: Runner, theirs: Order, referees: Compiled, partner: Runner
) -> tuple[RunResult | str, RunResult | str]:
    (program_reads, referee_writes), (referee_reads, program_writes) = os.pipe(), os.pipe()
    answers: list[RunResult | str] = []
    failures: list[BaseException] = []

    def referee_runs() -> None:
        try:
            answers.append(partner.attempt(theirs, referees, Pipes(referee_reads, referee_writes)))
        except BaseException as error:  # for the thread that waits for us
            failures.append(error)

    thread = Thread(target=referee_runs, daemon=True)
    thread.start()
    try:
        result = runner.attempt(order, compiled, Pipes(program_reads, program_writes))
    finally:
        thread.join()
    if failures:
        raise failures[0]
    return result, answers[0]


def _outcome(result: RunResult, answer: RunResult, referee_ended_first: bool, limit_seconds: float) -> Ran:
    convention = Convention.TESTLIB
    if result.outcome is Outcome.EXITED and result.exit_code == 0:
        return result, referee.ruling(answer, convention)
    if referee_ended_first:
        said = referee.ruling(answer, convention)
        if said.score < 1:  # what the program did without a partner does not matter
            return replace(result, outcome=Outcome.EXITED, exit_code=0), said
    if result.outcome is Outcome.TIMED_OUT and answer.cpu_seconds > limit_seconds:
        raise RefereeFailed(f"it used {answer.cpu_seconds:.1f} s of CPU time while the program waited")
    return result, None
