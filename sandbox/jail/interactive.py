"""An interactive case: a program and its referee run side by side, and the output of each is the input of the other.

Whichever ends first decides: a referee that rejects while the program still talks, or a program that fails. What the
program says passes through us, and we count it.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Thread
from typing import TypeVar

from sandbox import referee
from sandbox.cases import Referee
from sandbox.errors import ExecutionLost, RefereeFailed
from sandbox.jail.compiled import Compiled
from sandbox.jail.order import Order
from sandbox.jail.outcome import Finished, Lost
from sandbox.jail.run_files import Pipes
from sandbox.jail.runner import ATTEMPTS, Runner
from sandbox.jail.zygotes import ZygoteLost
from sandbox.judge import MAX_OUTPUT_BYTES, Ran
from sandbox.program import Outcome, RunResult

Known = TypeVar("Known")

THINKING = 3  # a program may take this many times its wall limit in all, since it waits while the referee thinks
LINGERING = 7  # a referee may take this many times as long as its program: it must not be the first to be given up,
# not even if the machine gives the program only a twentieth of a processor: that is 3 * 7 times its CPU limit
LINGERING_SECONDS = 30  # a referee may take this much longer
LEAVING_SECONDS = 1  # time for a referee to end after a program that has used up its budget
_REFEREE_CPU_SECONDS = 10  # more than a program has wall time
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Side:
    """The program or its referee: what is run, and by which runner."""

    order: Order
    compiled: Compiled
    runner: Runner

    def within(self, wall_seconds: float, cpu_seconds: float | None = None) -> "Side":
        return replace(self, order=self.order.within(wall_seconds, cpu_seconds))

    def make_ready(self) -> None:
        self.runner.make_ready(self.order)

    def attempt(self, pipes: Pipes) -> Finished | Lost:
        return self.runner.attempt(self.order, self.compiled, pipes)


@dataclass(frozen=True, slots=True)
class Talk:
    """How both sides ended.

    flooded   whether the program said more than it may
    said      all that the program said; empty if it is longer than an output that is kept
    """

    program: Finished
    partner: Finished
    flooded: bool
    said: bytes

    @property
    def partner_ended_first(self) -> bool:
        return self.partner.ended < self.program.ended

    @property
    def partner_seconds(self) -> float:
        """The seconds for which the partner was busy after the program's end."""
        return max(0.0, self.partner.result.wall_seconds - self.program.result.wall_seconds)


def talk(
    program: Side,
    partner: Side,
    judge: Referee,
    left_seconds: float,
    is_sound: Callable[[float | None], bool],
) -> Ran:
    """Run a program and its referee side by side, and say what became of the program.

    left_seconds           what is left of the submission's budget
    is_sound(cpu_seconds)  returns whether the referee works with a partner that we trust, within this CPU time if one
                           is given; called when it has failed with this program

    Raises ExecutionLost, and RefereeFailed if the referee crashed or kept the program waiting, and is not sound.
    """
    limit_seconds = program.order.job.wall_seconds
    wall_seconds = min(THINKING * limit_seconds, left_seconds)
    patience_seconds = LINGERING * wall_seconds + LINGERING_SECONDS
    hurried = left_seconds + LEAVING_SECONDS < patience_seconds
    program = program.within(wall_seconds)
    partner = partner.within(min(patience_seconds, left_seconds + LEAVING_SECONDS), wall_seconds + _REFEREE_CPU_SECONDS)
    ended = until_known(lambda: make_ready(program, partner) or side_by_side(program, partner))
    result, answer = ended.program.result, ended.partner.result
    if ended.flooded:
        return Ran(replace(result, outcome=Outcome.OUTPUT_LIMIT), None, ended.partner_seconds)
    try:
        result, ruling = _outcome(result, answer, ended.partner_ended_first, limit_seconds, judge)
    except RefereeFailed as failure:
        waited = _kept_waiting(result, answer, limit_seconds)
        if not is_sound(limit_seconds if waited else None):
            raise
        if waited or (hurried and answer.outcome is Outcome.TIMED_OUT):
            result, ruling = referee.as_timed_out(result), None
        else:
            result = replace(result, outcome=Outcome.EXITED, exit_code=0)
            ruling = referee.ruling_of_failure(failure)
    return Ran(replace(result, stdout=ended.said), ruling, ended.partner_seconds)


def recite(text: bytes, partner: Side) -> RunResult:
    """Return how a referee ends if it talks only to us: we send this text, read all that it says and never reply to it.

    Raises ExecutionLost.
    """
    return until_known(lambda: make_ready(partner) or _with_us(text, partner)).result


def until_known(attempt: Callable[[], Known | Lost]) -> Known:
    """Repeat an attempt that the sandbox loses. Raises ExecutionLost if every attempt is lost."""
    lost = Lost("")
    for _ in range(ATTEMPTS):
        ended = attempt()
        if not isinstance(ended, Lost):
            return ended
        lost = ended
    raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {lost.reason}")


def make_ready(*sides: Side) -> Lost | None:
    """Start the zygotes that are needed; return why one was lost.

    This thread starts all of them, since a zygote dies with the thread that started it and this thread lives on.
    """
    try:
        for side in sides:
            side.make_ready()
    except ZygoteLost as error:
        return Lost(str(error))
    return None


def _with_us(text: bytes, partner: Side) -> Finished | Lost:
    (referee_reads, we_write), (we_read, referee_writes) = os.pipe(), os.pipe()
    threads = [
        Thread(target=_say, args=(we_write, text), daemon=True),
        Thread(target=_hear_out, args=(we_read,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        return partner.attempt(Pipes(referee_reads, referee_writes))
    finally:
        for thread in threads:
            thread.join()


def side_by_side(program: Side, partner: Side) -> Talk | Lost:
    """Run both until both have ended. Raises as Side.attempt does."""
    (program_reads, referee_writes), (we_read, program_writes), (referee_reads, we_write) = (
        os.pipe(),
        os.pipe(),
        os.pipe(),
    )
    for descriptor in (program_reads, program_writes, referee_reads, referee_writes):
        os.fchmod(descriptor, 0o666)  # for a program that opens /dev/stdin
    # Keeps the pipe open, so that a referee gets no error if it talks to a program that has ended. Opened anew rather
    # than duplicated: a duplicate would share its flags with the program, which may make it non-blocking.
    unheard = os.open(f"/proc/self/fd/{program_reads}", os.O_RDONLY | os.O_CLOEXEC)
    answers: list[Finished | Lost] = []
    failures: list[BaseException] = []
    heard: list[tuple[bool, bytes]] = []

    def referee_runs() -> None:
        try:
            answers.append(partner.attempt(Pipes(referee_reads, referee_writes)))
        except BaseException as error:  # for the thread that waits for us
            failures.append(error)

    at_most = program.order.job.output_bytes
    threads = [
        Thread(target=referee_runs, daemon=True),
        Thread(target=lambda: heard.append(_pass_on(we_read, we_write, at_most)), daemon=True),
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
    answer = answers[0]
    if isinstance(result, Lost):
        return result
    return answer if isinstance(answer, Lost) else Talk(result, answer, *heard[0])


def _pass_on(source: int, sink: int, at_most: int) -> tuple[bool, bytes]:
    """Pass data on until one side is gone; return whether there was more than is allowed, and all of it if it is short.

    The data is copied, not spliced: a splice keeps packets separate, and its pages may change after they are passed on.
    """
    passed, said = 0, b""
    try:
        with contextlib.suppress(BrokenPipeError):
            while passed <= at_most and (piece := os.read(source, _PIECE)):
                passed += len(piece)
                said = said + piece if passed <= MAX_OUTPUT_BYTES else b""
                _write(sink, piece)
    finally:
        os.close(sink)
        os.close(source)
    return passed > at_most, said


def _say(sink: int, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        _write(sink, text)
    os.close(sink)


def _hear_out(source: int) -> None:
    """Read to the end, and drop what was read."""
    while os.read(source, _PIECE):
        pass
    os.close(source)


def _write(sink: int, text: bytes) -> None:
    while text:
        text = text[os.write(sink, text) :]


def _outcome(
    result: RunResult, answer: RunResult, referee_first: bool, limit_seconds: float, judge: Referee
) -> tuple[RunResult, referee.Ruling | None]:
    """Return the program's run as its verdict needs it, and the referee's ruling if it counts. Raises RefereeFailed."""
    ended_well = result.outcome is Outcome.EXITED and result.exit_code == 0
    if not referee_first and referee.left_alone(answer, judge):  # the program should have said more
        return result, referee.Ruling(0.0, "the program ended before the referee") if ended_well else None
    if ended_well:
        return result, referee.ruling(answer, judge)
    if referee_first:
        ruling = referee.ruling(answer, judge)
        if ruling.score < 1:  # what the program did without a partner does not matter
            return replace(result, outcome=Outcome.EXITED, exit_code=0), ruling
    if _kept_waiting(result, answer, limit_seconds):
        raise RefereeFailed(f"it used {answer.cpu_seconds:.1f} s of CPU time while the program waited")
    return result, None


def _kept_waiting(result: RunResult, answer: RunResult, limit_seconds: float) -> bool:
    return result.outcome is Outcome.TIMED_OUT and answer.cpu_seconds > limit_seconds
