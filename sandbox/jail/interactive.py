"""An interactive case: a program and its referee run side by side, each one's standard output the other's input.

Who ends first decides: a referee that rejects while the program still talks, or a program that fails. What the program
says passes through us, who count it.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Thread

from sandbox import referee
from sandbox.cases import Referee
from sandbox.errors import ExecutionLost, RefereeFailed
from sandbox.jail.compiled import Compiled
from sandbox.jail.runner import ATTEMPTS, Order, Pipes, Runner
from sandbox.jail.zygotes import ZygoteLost
from sandbox.judge import Ran
from sandbox.program import Outcome, RunResult

_THINKING = 3  # times its wall limit a program has in all: it waits while the referee thinks
_LINGERING = 6  # times that, and then some, a referee has: it is not to be the first that is given up
_LINGERING_SECONDS = 30
_LEAVING_SECONDS = 1  # that a referee has to end after a program that has used up its budget
_REFEREE_CPU_SECONDS = 10  # more than a program has wall time
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: what is run, and by which runner."""

    order: Order
    compiled: Compiled
    runner: Runner

    def within(self, wall_seconds: float, cpu_seconds: float | None = None) -> "Side":
        return replace(self, order=self.order.within(wall_seconds, cpu_seconds))

    def make_ready(self) -> None:
        self.runner.make_ready(self.order)

    def attempt(self, pipes: Pipes) -> RunResult | str:
        return self.runner.attempt(self.order, self.compiled, pipes)


@dataclass(frozen=True, slots=True)
class _Talk:
    """How both ended, or why that is not known; whether the program said more than it may."""

    result: RunResult | str
    answer: RunResult | str
    flooded: bool


def talk(
    program: Side,
    partner: Side,
    judge: Referee,
    left_seconds: float,
    is_sound: Callable[[float | None], bool],
) -> Ran:
    """left_seconds: of the submission's budget. is_sound(cpu_seconds): whether the referee gets along with a partner
    that we trust, and within this time, if one is given; asked when it has failed with this one.

    Raises ExecutionLost, and RefereeFailed if the referee crashed or kept the program waiting, and is not sound.
    """
    limit_seconds = program.order.job.wall_seconds
    wall_seconds = min(_THINKING * limit_seconds, left_seconds)
    patience_seconds = _LINGERING * wall_seconds + _LINGERING_SECONDS
    hurried = left_seconds + _LEAVING_SECONDS < patience_seconds
    program = program.within(wall_seconds)
    partner = partner.within(
        min(patience_seconds, left_seconds + _LEAVING_SECONDS), wall_seconds + _REFEREE_CPU_SECONDS
    )
    reason = ""
    for _ in range(ATTEMPTS):
        try:  # both by this thread, which outlives them: a zygote dies with the thread that started it
            program.make_ready()
            partner.make_ready()
        except ZygoteLost as error:
            reason = str(error)
            continue
        ended = _side_by_side(program, partner)
        if isinstance(ended.result, RunResult) and isinstance(ended.answer, RunResult):
            result, answer = ended.result, ended.answer
            referee_seconds = max(0.0, answer.wall_seconds - result.wall_seconds)
            if ended.flooded:
                return Ran(replace(result, outcome=Outcome.OUTPUT_LIMIT), None, referee_seconds)
            referee_first = partner.runner.ended < program.runner.ended
            try:
                result, said = _outcome(result, answer, referee_first, limit_seconds, judge)
            except RefereeFailed as failure:
                waited = _kept_waiting(result, answer, limit_seconds)
                if not is_sound(limit_seconds if waited else None):
                    raise
                if waited or (hurried and answer.outcome is Outcome.TIMED_OUT):
                    result, said = referee.kept_busy(result), None
                else:
                    result = replace(result, outcome=Outcome.EXITED, exit_code=0)
                    said = referee.no_fault_of_its(failure)
            return Ran(result, said, referee_seconds)
        reason = ended.result if isinstance(ended.result, str) else str(ended.answer)
    raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {reason}")


def recite(text: bytes, partner: Side) -> RunResult:
    """How a referee ends that talks to nobody but us, who say this, hear it out and answer nothing.

    Raises ExecutionLost.
    """
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            partner.make_ready()
        except ZygoteLost as error:
            reason = str(error)
            continue
        (referee_reads, we_write), (we_read, referee_writes) = os.pipe(), os.pipe()
        threads = [
            Thread(target=_say, args=(we_write, text), daemon=True),
            Thread(target=_hear_out, args=(we_read,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            answer = partner.attempt(Pipes(referee_reads, referee_writes))
        finally:
            for thread in threads:
                thread.join()
        if isinstance(answer, RunResult):
            return answer
        reason = answer
    raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {reason}")


def _side_by_side(program: Side, partner: Side) -> _Talk:
    (program_reads, referee_writes), (we_read, program_writes), (referee_reads, we_write) = (
        os.pipe(),
        os.pipe(),
        os.pipe(),
    )
    for descriptor in (program_reads, program_writes, referee_reads, referee_writes):
        os.fchmod(descriptor, 0o666)  # for who opens /dev/stdin
    # What a referee says to a program that has ended is no error of the referee's. Opened anew rather than duplicated:
    # whoever shares an open file with a program shares its flags, and the program may make it one that does not block.
    unheard = os.open(f"/proc/self/fd/{program_reads}", os.O_RDONLY | os.O_CLOEXEC)
    answers: list[RunResult | str] = []
    failures: list[BaseException] = []
    floods: list[bool] = []

    def referee_runs() -> None:
        try:
            answers.append(partner.attempt(Pipes(referee_reads, referee_writes)))
        except BaseException as error:  # for the thread that waits for us
            failures.append(error)

    at_most = program.order.job.output_bytes
    threads = [
        Thread(target=referee_runs, daemon=True),
        Thread(target=lambda: floods.append(_pass_on(we_read, we_write, at_most)), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        result = program.attempt(Pipes(program_reads, program_writes))
    finally:
        _hear_out(unheard)
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return _Talk(result, answers[0], floods[0])


def _pass_on(source: int, sink: int, at_most: int) -> bool:
    """Hand on what comes until one side is gone; whether it was more than allowed.

    Copied rather than spliced: packets stay packets in a splice, and pages may change after they were passed on.
    """
    passed = 0
    try:
        with contextlib.suppress(BrokenPipeError):
            while passed <= at_most and (piece := os.read(source, _PIECE)):
                passed += len(piece)
                _write(sink, piece)
    finally:
        os.close(sink)
        os.close(source)
    return passed > at_most


def _say(sink: int, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        _write(sink, text)
    os.close(sink)


def _hear_out(source: int) -> None:
    """Read to the end what nobody wants to know."""
    while os.read(source, _PIECE):
        pass
    os.close(source)


def _write(sink: int, text: bytes) -> None:
    while text:
        text = text[os.write(sink, text) :]


def _outcome(
    result: RunResult, answer: RunResult, referee_first: bool, limit_seconds: float, judge: Referee
) -> tuple[RunResult, referee.Ruling | None]:
    """Raises RefereeFailed."""
    ended_well = result.outcome is Outcome.EXITED and result.exit_code == 0
    if not referee_first and referee.left_alone(answer, judge):  # the program should have said more
        return result, referee.Ruling(0.0, "the program ended before the referee") if ended_well else None
    if ended_well:
        return result, referee.ruling(answer, judge)
    if referee_first:
        said = referee.ruling(answer, judge)
        if said.score < 1:  # what the program did without a partner does not matter
            return replace(result, outcome=Outcome.EXITED, exit_code=0), said
    if _kept_waiting(result, answer, limit_seconds):
        raise RefereeFailed(f"it used {answer.cpu_seconds:.1f} s of CPU time while the program waited")
    return result, None


def _kept_waiting(result: RunResult, answer: RunResult, limit_seconds: float) -> bool:
    return result.outcome is Outcome.TIMED_OUT and answer.cpu_seconds > limit_seconds
