"""Interactive cases: a program and its referee run concurrently, and the output of each is the input of the other.

The first failure decides the verdict: an early rejection by the referee, or a failure of the program. The judge
forwards the program's output to the referee, and counts its bytes.
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
from sandbox.jail.run_spec import RunSpec
from sandbox.jail.zygote_client import ZygoteLost
from sandbox.judge import MAX_OUTPUT_BYTES, CaseRun
from sandbox.judging.run_files import StdioPipes
from sandbox.judging.runner import MAX_ATTEMPTS, Runner
from sandbox.program import Outcome, RunResult
from sandbox.suite import Referee

Result = TypeVar("Result")

WALL_FACTOR = 3  # total wall time of a program, with its waits for the referee, as a multiple of its limit
# The referee's wall time limit, as a multiple of the program's. The program times out first even with a twentieth of a
# processor, since 3 * 7 > 20.
REFEREE_FACTOR = 7
REFEREE_GRACE_SECONDS = 30  # added to the referee's wall time limit
REFEREE_EXIT_SECONDS = 1  # grace period for a referee to exit after the submission's budget
_REFEREE_CPU_SECONDS = 10  # CPU time of the referee, in addition to the program's wall time limit
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Participant:
    """One of two connected programs: a submission, or its referee or tests."""

    run_spec: RunSpec
    compiled: CompiledProgram
    runner: Runner

    def with_time_limits(self, wall_seconds: float, cpu_seconds: float | None = None) -> "Participant":
        return replace(self, run_spec=self.run_spec.with_time_limits(wall_seconds, cpu_seconds))

    def attempt(self, pipes: StdioPipes) -> FinishedRun | LostRun:
        return self.runner.attempt(self.run_spec, self.compiled, pipes)


@dataclass(frozen=True, slots=True)
class InteractionResult:
    """The results of a program, and of its referee or tests.

    output_exceeded  whether the program exceeded its output limit
    program_output   the program's complete output; empty if longer than MAX_OUTPUT_BYTES
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
        """Wall seconds of the referee after the program's end."""
        return max(0.0, self.referee.result.wall_seconds - self.program.result.wall_seconds)


def run_interactive(
    program: Participant,
    counterpart: Participant,
    referee_spec: Referee,
    remaining_seconds: float,
    is_sound: Callable[[float | None], bool],
) -> CaseRun:
    """Run a program connected to its referee; return the program's run and the ruling.

    remaining_seconds      the remaining time budget of the submission
    is_sound(cpu_seconds)  runs a failed referee on trusted input; returns whether it gives a ruling within this CPU
                           time (None for no limit)

    Raises ExecutionLost, and RefereeError if the suite is at fault: an unsound referee failed or stalled the program.
    """
    limit_seconds = program.run_spec.run_params.wall_seconds
    wall_seconds = min(WALL_FACTOR * limit_seconds, remaining_seconds)
    timeout_seconds = REFEREE_FACTOR * wall_seconds + REFEREE_GRACE_SECONDS
    is_shortened = remaining_seconds + REFEREE_EXIT_SECONDS < timeout_seconds
    program = program.with_time_limits(wall_seconds)
    counterpart = counterpart.with_time_limits(
        min(timeout_seconds, remaining_seconds + REFEREE_EXIT_SECONDS), wall_seconds + _REFEREE_CPU_SECONDS
    )
    results = retry_lost_run(lambda: prepare_zygotes(program, counterpart) or run_connected(program, counterpart))
    result, referee_run = results.program.result, results.referee.result
    if results.output_exceeded:
        return CaseRun(replace(result, outcome=Outcome.OUTPUT_LIMIT), None, results.referee_extra_seconds)
    try:
        result, ruling = _reconcile_runs(result, referee_run, results.referee_ended_first, limit_seconds, referee_spec)
    except RefereeError as failure:
        has_stalled = _has_referee_stalled(result, referee_run, limit_seconds)
        if not is_sound(limit_seconds if has_stalled else None):
            raise
        if has_stalled or (is_shortened and referee_run.outcome is Outcome.TIMED_OUT):
            result, ruling = referee.mark_timed_out(result), None
        else:
            result = replace(result, outcome=Outcome.EXITED, exit_code=0)
            ruling = referee.make_wrong_answer_result(failure)
    return CaseRun(replace(result, stdout=results.program_output), ruling, results.referee_extra_seconds)


def run_scripted(text: bytes, counterpart: Participant) -> RunResult:
    """Run a referee with this input, discard its output, and return its result. Raises ExecutionLost."""
    return retry_lost_run(lambda: prepare_zygotes(counterpart) or _run_against_script(text, counterpart)).result


def retry_lost_run(attempt: Callable[[], Result | LostRun]) -> Result:
    """Repeat a run until it is not lost, and return its result. Raises ExecutionLost after MAX_ATTEMPTS."""
    lost = LostRun("")
    for _ in range(MAX_ATTEMPTS):
        result = attempt()
        if not isinstance(result, LostRun):
            return result
        lost = result
    raise ExecutionLost(f"a run was lost {MAX_ATTEMPTS} times: {lost.reason}")


def prepare_zygotes(*participants: Participant) -> LostRun | None:
    """Start the required zygotes, since a start would delay the interaction; return a LostRun if one is lost."""
    try:
        for participant in participants:
            participant.runner.prepare_zygote(participant.run_spec)
    except ZygoteLost as error:
        return LostRun(str(error))
    return None


def _run_against_script(text: bytes, counterpart: Participant) -> FinishedRun | LostRun:
    (referee_reads, judge_writes), (judge_reads, referee_writes) = os.pipe(), os.pipe()
    threads = [
        Thread(target=_write_and_close, args=(judge_writes, text), daemon=True),
        Thread(target=_drain_and_close, args=(judge_reads,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        return counterpart.attempt(StdioPipes(referee_reads, referee_writes))
    finally:
        for thread in threads:
            thread.join()


def run_connected(program: Participant, counterpart: Participant) -> InteractionResult | LostRun:
    """Run both, connected by pipes, until they exit. Raises KilledExternally."""
    (program_reads, referee_writes), (judge_reads, program_writes) = os.pipe(), os.pipe()
    referee_reads, judge_writes = os.pipe()
    for descriptor in (program_reads, program_writes, referee_reads, referee_writes):
        os.fchmod(descriptor, 0o666)  # a program with another uid may open /dev/stdin
    # An open reader prevents SIGPIPE in the referee after the program's exit. It is not a duplicate, which the program
    # could make non-blocking.
    idle_reader = os.open(f"/proc/self/fd/{program_reads}", os.O_RDONLY | os.O_CLOEXEC)
    referee_runs: list[FinishedRun | LostRun] = []
    failures: list[BaseException] = []
    forwarded: list[tuple[bool, bytes]] = []

    def run_referee() -> None:
        try:
            referee_runs.append(counterpart.attempt(StdioPipes(referee_reads, referee_writes)))
        except BaseException as error:  # for the main thread to raise
            failures.append(error)

    max_bytes = program.run_spec.run_params.output_bytes
    threads = [
        Thread(target=run_referee, daemon=True),
        Thread(target=lambda: forwarded.append(_forward(judge_reads, judge_writes, max_bytes)), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        result = program.attempt(StdioPipes(program_reads, program_writes))
    finally:
        _drain_and_close(idle_reader)
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    referee_run = referee_runs[0]
    if isinstance(result, LostRun):
        return result
    return referee_run if isinstance(referee_run, LostRun) else InteractionResult(result, referee_run, *forwarded[0])


def _forward(source: int, sink: int, max_bytes: int) -> tuple[bool, bytes]:
    """Forward data until EOF, EPIPE or the limit, then close both descriptors.

    Returns whether the data exceeded max_bytes, and the data; b"" if longer than MAX_OUTPUT_BYTES. Does not use splice:
    it preserves packet boundaries, and the program could change spliced pages.
    """
    n_bytes, output = 0, b""
    try:
        with contextlib.suppress(BrokenPipeError):
            while n_bytes <= max_bytes and (chunk := os.read(source, _CHUNK_BYTES)):
                n_bytes += len(chunk)
                output = output + chunk if n_bytes <= MAX_OUTPUT_BYTES else b""
                _write_all(sink, chunk)
    finally:
        os.close(sink)
        os.close(source)
    return n_bytes > max_bytes, output


def _write_and_close(pipe_fd: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        _write_all(pipe_fd, data)
    os.close(pipe_fd)


def _drain_and_close(pipe_fd: int) -> None:
    while os.read(pipe_fd, _CHUNK_BYTES):
        pass
    os.close(pipe_fd)


def _write_all(pipe_fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe_fd, data) :]


def _reconcile_runs(
    result: RunResult, referee_run: RunResult, referee_first: bool, limit_seconds: float, referee_spec: Referee
) -> tuple[RunResult, referee.RefereeResult | None]:
    """Return the program's run and the referee's ruling; None for a ruling if the run alone decides.

    After an early rejection, the run is a successful exit, so that the ruling decides. Raises RefereeError.
    """
    has_succeeded = result.outcome is Outcome.EXITED and result.exit_code == 0
    if not referee_first and referee.has_hit_eof(referee_run, referee_spec):
        return result, referee.RefereeResult(0.0, "the program ended before the referee") if has_succeeded else None
    if has_succeeded:
        return result, referee.read_result(referee_run, referee_spec)
    if referee_first:
        ruling = referee.read_result(referee_run, referee_spec)
        if ruling.score < 1:
            return replace(result, outcome=Outcome.EXITED, exit_code=0), ruling
    if _has_referee_stalled(result, referee_run, limit_seconds):
        raise RefereeError(f"it used {referee_run.cpu_seconds:.1f} s of CPU time while the program waited")
    return result, None


def _has_referee_stalled(result: RunResult, referee_run: RunResult, limit_seconds: float) -> bool:
    return result.outcome is Outcome.TIMED_OUT and referee_run.cpu_seconds > limit_seconds
