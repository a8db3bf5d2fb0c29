"""An interactive case: a program and its referee run side by side, and the output of each is the input of the other.

Whichever ends first decides: a referee that rejects early, or a program that fails. The judge forwards the program's
output to the referee, and counts its bytes.
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Thread
from typing import TypeVar

from sandbox import referee
from sandbox.errors import ExecutionLost, RefereeError
from sandbox.jail.compile_cache import CompiledProgram
from sandbox.jail.run_classification import FinishedRun, LostRun
from sandbox.jail.run_files import StdioPipes
from sandbox.jail.run_spec import RunSpec
from sandbox.jail.runner import ATTEMPTS, Runner
from sandbox.jail.zygote_client import ZygoteLost
from sandbox.judge import MAX_OUTPUT_BYTES, CaseRun
from sandbox.program import Outcome, RunResult
from sandbox.suite import Referee

Known = TypeVar("Known")

WALL_FACTOR = 3  # a program may take this many times its wall limit in all, since it waits for the referee
REFEREE_FACTOR = 7  # the referee's time limit, as a multiple of the program's, so that the program times out first
# even if the program gets only a twentieth of a processor: 3 * 7 times its CPU limit
REFEREE_GRACE_SECONDS = 30  # added to the referee's time limit
REFEREE_EXIT_SECONDS = 1  # time for a referee to end after a program that has used up its budget
_REFEREE_CPU_SECONDS = 10  # added to a program's wall time
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Participant:
    """The program or its referee, with its runner."""

    run_spec: RunSpec
    compiled: CompiledProgram
    runner: Runner

    def with_time_limits(self, wall_seconds: float, cpu_seconds: float | None = None) -> "Participant":
        return replace(self, run_spec=self.run_spec.with_time_limits(wall_seconds, cpu_seconds))

    def prepare_zygote(self) -> None:
        self.runner.prepare_zygote(self.run_spec)

    def attempt(self, pipes: StdioPipes) -> FinishedRun | LostRun:
        return self.runner.attempt(self.run_spec, self.compiled, pipes)


@dataclass(frozen=True, slots=True)
class InteractionResult:
    """How both sides ended.

    output_exceeded  whether the program exceeded its output limit
    program_output   the program's whole output; empty if longer than MAX_OUTPUT_BYTES
    """

    program: FinishedRun
    referee: FinishedRun
    output_exceeded: bool
    program_output: bytes

    @property
    def referee_ended_first(self) -> bool:
        return self.referee.end_time < self.program.end_time

    @property
    def referee_extra_seconds(self) -> float:
        """Seconds for which the referee was busy after the program's end."""
        return max(0.0, self.referee.result.wall_seconds - self.program.result.wall_seconds)


def run_interactive(
    program: Participant,
    partner: Participant,
    referee_spec: Referee,
    remaining_seconds: float,
    is_sound: Callable[[float | None], bool],
) -> CaseRun:
    """Run a program and its referee side by side; return the program's run and the ruling.

    remaining_seconds           the rest of the submission's budget
    is_sound(cpu_seconds)  returns whether the referee works with trusted input, within this CPU time if one
                           is given; called when it has failed with this program

    Raises ExecutionLost, and RefereeError if the referee crashed or kept the program waiting, and is not sound.
    """
    limit_seconds = program.run_spec.run_params.wall_seconds
    wall_seconds = min(WALL_FACTOR * limit_seconds, remaining_seconds)
    patience_seconds = REFEREE_FACTOR * wall_seconds + REFEREE_GRACE_SECONDS
    hurried = remaining_seconds + REFEREE_EXIT_SECONDS < patience_seconds
    program = program.with_time_limits(wall_seconds)
    partner = partner.with_time_limits(
        min(patience_seconds, remaining_seconds + REFEREE_EXIT_SECONDS), wall_seconds + _REFEREE_CPU_SECONDS
    )
    ended = retry_lost(lambda: prepare_zygotes(program, partner) or run_connected(program, partner))
    result, referee_run = ended.program.result, ended.referee.result
    if ended.output_exceeded:
        return CaseRun(replace(result, outcome=Outcome.OUTPUT_LIMIT), None, ended.referee_extra_seconds)
    try:
        result, ruling = _outcome(result, referee_run, ended.referee_ended_first, limit_seconds, referee_spec)
    except RefereeError as failure:
        waited = _referee_stalled(result, referee_run, limit_seconds)
        if not is_sound(limit_seconds if waited else None):
            raise
        if waited or (hurried and referee_run.outcome is Outcome.TIMED_OUT):
            result, ruling = referee.mark_timed_out(result), None
        else:
            result = replace(result, outcome=Outcome.EXITED, exit_code=0)
            ruling = referee.wrong_answer_result(failure)
    return CaseRun(replace(result, stdout=ended.program_output), ruling, ended.referee_extra_seconds)


def run_scripted(text: bytes, partner: Participant) -> RunResult:
    """Run a referee without a program: send it this text, discard its output, and return how it ended.

    Raises ExecutionLost.
    """
    return retry_lost(lambda: prepare_zygotes(partner) or _run_against_script(text, partner)).result


def retry_lost(attempt: Callable[[], Known | LostRun]) -> Known:
    """Repeat an attempt that the sandbox loses. Raises ExecutionLost if every attempt is lost."""
    lost = LostRun("")
    for _ in range(ATTEMPTS):
        ended = attempt()
        if not isinstance(ended, LostRun):
            return ended
        lost = ended
    raise ExecutionLost(f"a run was lost {ATTEMPTS} times: {lost.reason}")


def prepare_zygotes(*sides: Participant) -> LostRun | None:
    """Start the required zygotes; return why one was lost. Called in a long-lived thread, since a zygote ends with the
    thread that started it.
    """
    try:
        for side in sides:
            side.prepare_zygote()
    except ZygoteLost as error:
        return LostRun(str(error))
    return None


def _run_against_script(text: bytes, partner: Participant) -> FinishedRun | LostRun:
    (referee_reads, we_write), (we_read, referee_writes) = os.pipe(), os.pipe()
    threads = [
        Thread(target=_write_text, args=(we_write, text), daemon=True),
        Thread(target=_drain, args=(we_read,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        return partner.attempt(StdioPipes(referee_reads, referee_writes))
    finally:
        for thread in threads:
            thread.join()


def run_connected(program: Participant, partner: Participant) -> InteractionResult | LostRun:
    """Run both until both have ended. Raises as Participant.attempt does."""
    (program_reads, referee_writes), (we_read, program_writes), (referee_reads, we_write) = (
        os.pipe(),
        os.pipe(),
        os.pipe(),
    )
    for descriptor in (program_reads, program_writes, referee_reads, referee_writes):
        os.fchmod(descriptor, 0o666)  # for a program that opens /dev/stdin
    # Keeps the pipe open, so that a referee gets no SIGPIPE after the program's end. Reopened rather than duplicated: a
    # duplicate would share its flags with the program, which may make it non-blocking.
    unheard = os.open(f"/proc/self/fd/{program_reads}", os.O_RDONLY | os.O_CLOEXEC)
    referee_runs: list[FinishedRun | LostRun] = []
    failures: list[BaseException] = []
    heard: list[tuple[bool, bytes]] = []

    def run_referee() -> None:
        try:
            referee_runs.append(partner.attempt(StdioPipes(referee_reads, referee_writes)))
        except BaseException as error:  # raised by the main thread
            failures.append(error)

    at_most = program.run_spec.run_params.output_bytes
    threads = [
        Thread(target=run_referee, daemon=True),
        Thread(target=lambda: heard.append(_forward(we_read, we_write, at_most)), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        result = program.attempt(StdioPipes(program_reads, program_writes))
    finally:
        _drain(unheard)
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    referee_run = referee_runs[0]
    if isinstance(result, LostRun):
        return result
    return referee_run if isinstance(referee_run, LostRun) else InteractionResult(result, referee_run, *heard[0])


def _forward(source: int, sink: int, at_most: int) -> tuple[bool, bytes]:
    """Forward data until one side is gone; return whether it exceeded the limit, and the data if it is short.

    Copies rather than splices: a splice keeps packets separate, and its pages may change afterwards.
    """
    passed, said = 0, b""
    try:
        with contextlib.suppress(BrokenPipeError):
            while passed <= at_most and (piece := os.read(source, _CHUNK_BYTES)):
                passed += len(piece)
                said = said + piece if passed <= MAX_OUTPUT_BYTES else b""
                _write(sink, piece)
    finally:
        os.close(sink)
        os.close(source)
    return passed > at_most, said


def _write_text(sink: int, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        _write(sink, text)
    os.close(sink)


def _drain(source: int) -> None:
    """Read and discard everything up to EOF."""
    while os.read(source, _CHUNK_BYTES):
        pass
    os.close(source)


def _write(sink: int, text: bytes) -> None:
    while text:
        text = text[os.write(sink, text) :]


def _outcome(
    result: RunResult, referee_run: RunResult, referee_first: bool, limit_seconds: float, judge: Referee
) -> tuple[RunResult, referee.RefereeResult | None]:
    """Return the program's run, adjusted for its verdict, and the referee's ruling if it counts. Raises
    RefereeError."""
    ended_well = result.outcome is Outcome.EXITED and result.exit_code == 0
    if not referee_first and referee.hit_eof(referee_run, judge):  # the program's output ended too early
        return result, referee.RefereeResult(0.0, "the program ended before the referee") if ended_well else None
    if ended_well:
        return result, referee.read_result(referee_run, judge)
    if referee_first:
        ruling = referee.read_result(referee_run, judge)
        if ruling.score < 1:  # the program's outcome after its rejection does not count
            return replace(result, outcome=Outcome.EXITED, exit_code=0), ruling
    if _referee_stalled(result, referee_run, limit_seconds):
        raise RefereeError(f"it used {referee_run.cpu_seconds:.1f} s of CPU time while the program waited")
    return result, None


def _referee_stalled(result: RunResult, referee_run: RunResult, limit_seconds: float) -> bool:
    return result.outcome is Outcome.TIMED_OUT and referee_run.cpu_seconds > limit_seconds
