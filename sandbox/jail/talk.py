"""An interactive case: a program and its referee run side by side, each one's standard output the other's input.

Who ends first decides: a referee that rejects while the program still talks, or a program that fails. What the program
says passes through us, who count it.
"""

import contextlib
import os
from dataclasses import dataclass, replace
from threading import Thread

from sandbox import referee
from sandbox.cases import Referee
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
_PIECE = 1 << 16
_LEFT_ALONE = "EOFError"  # what a Python referee dies of when its program has said too little


@dataclass(frozen=True, slots=True)
class _Talk:
    """How both ended, or why that is not known; whether the program said more than it may."""

    result: RunResult | str
    answer: RunResult | str
    flooded: bool


def talk(
    order: Order,
    compiled: Compiled,
    runner: Runner,
    theirs: Order,
    referees: Compiled,
    partner: Runner,
    judge: Referee,
) -> Ran:
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
        ended = _side_by_side(order, compiled, runner, theirs, referees, partner)
        if isinstance(ended.result, RunResult) and isinstance(ended.answer, RunResult):
            if ended.flooded:
                return replace(ended.result, outcome=Outcome.OUTPUT_LIMIT), None
            referee_first = partner.ended < runner.ended
            return _outcome(ended.result, ended.answer, referee_first, limit_seconds, judge)
        reason = ended.result if isinstance(ended.result, str) else str(ended.answer)
    raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {reason}")


def _side_by_side(
    order: Order, compiled: Compiled, runner: Runner, theirs: Order, referees: Compiled, partner: Runner
) -> _Talk:
    (program_reads, referee_writes), (we_read, program_writes), (referee_reads, we_write) = (
        os.pipe(),
        os.pipe(),
        os.pipe(),
    )
    for descriptor in (program_reads, program_writes, referee_reads, referee_writes):
        os.fchmod(descriptor, 0o666)  # for who opens /dev/stdin
    unheard = os.dup(program_reads)  # what a referee says to a program that has ended is no error of the referee's
    answers: list[RunResult | str] = []
    failures: list[BaseException] = []
    floods: list[bool] = []

    def referee_runs() -> None:
        try:
            answers.append(partner.attempt(theirs, referees, Pipes(referee_reads, referee_writes)))
        except BaseException as error:  # for the thread that waits for us
            failures.append(error)

    threads = [
        Thread(target=referee_runs, daemon=True),
        Thread(target=lambda: floods.append(_pass_on(we_read, we_write, order.job.output_bytes)), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        result = runner.attempt(order, compiled, Pipes(program_reads, program_writes))
    finally:
        while os.read(unheard, _PIECE):
            pass
        os.close(unheard)
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return _Talk(result, answers[0], floods[0])


def _pass_on(source: int, sink: int, at_most: int) -> bool:
    """Hand on what comes until one side is gone; whether it was more than allowed."""
    passed = 0
    try:
        with contextlib.suppress(BrokenPipeError):
            while passed <= at_most and (count := os.splice(source, sink, _PIECE)):
                passed += count
    finally:
        os.close(sink)
        os.close(source)
    return passed > at_most


def _outcome(result: RunResult, answer: RunResult, referee_first: bool, limit_seconds: float, judge: Referee) -> Ran:
    if not referee_first and referee.crashed(answer, judge):
        last = answer.stderr.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
        if last.startswith(_LEFT_ALONE):  # not its fault: the program should have said more
            said = referee.Ruling(0.0, "the program ended before the referee")
            return result, said if result.outcome is Outcome.EXITED and result.exit_code == 0 else None
    if result.outcome is Outcome.EXITED and result.exit_code == 0:
        return result, referee.ruling(answer, judge)
    if referee_first:
        said = referee.ruling(answer, judge)
        if said.score < 1:  # what the program did without a partner does not matter
            return replace(result, outcome=Outcome.EXITED, exit_code=0), said
    if result.outcome is Outcome.TIMED_OUT and answer.cpu_seconds > limit_seconds:
        raise RefereeFailed(f"it used {answer.cpu_seconds:.1f} s of CPU time while the program waited")
    return result, None
