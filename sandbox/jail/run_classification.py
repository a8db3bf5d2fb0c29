"""Classification of a run's outcome, by measurements of the kernel and the sandbox only.

A program controls its output, exit status and final signal. So stderr is no evidence of a memory failure, and a signal
proves an exceeded limit only if the usage was near the limit.
"""

import signal
from dataclasses import dataclass

from sandbox.jail.child import RunParams
from sandbox.program import Outcome, RunResult

_NEAR_LIMIT = 0.9  # fraction of a limit beyond which it explains a failure; the kernel's own measurements differ


@dataclass(frozen=True, slots=True)
class ZygoteReport:
    """The zygote's report of a run.

    status               the program's wait status
    kill_reason          why the zygote killed the run: "time", "memory" or "starved"; "" if it did not
    killed               whether a SIGKILL that the zygote did not send ended the program
    killed_from_outside  whether no process of the run can have sent that SIGKILL
    end_time             monotonic time of the program's end, in seconds
    refused_memory       whether the zygote denied an allocation beyond the limit
    loss_reason          why the program did not start; "" if it did
    """

    status: int
    kill_reason: str
    killed: bool
    killed_from_outside: bool
    cpu_seconds: float
    wall_seconds: float
    end_time: float
    max_resident_mb: float
    refused_memory: bool
    loss_reason: str = ""


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """A run's memory usage.

    limit_exceeded  whether the kernel or the zygote killed the run because it exceeded its limit
    limit_reached   whether the kernel may have denied an allocation
    """

    peak_mb: float
    limit_exceeded: bool
    limit_reached: bool


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run with an outcome.

    end_time    monotonic time of the program's end, in seconds
    was_killed  whether a SIGKILL for a reason other than a limit ended it
    """

    result: RunResult
    end_time: float
    was_killed: bool = False


@dataclass(frozen=True, slots=True)
class LostRun:
    """A run without an outcome, and the reason.

    zygote_lost  whether its zygote exited or did not respond
    """

    reason: str
    zygote_lost: bool = False


def find_loss(report: ZygoteReport, memory: MemoryUsage) -> LostRun | None:
    """Return a LostRun with the reason if the run has no outcome; None if it has one."""
    if report.loss_reason and not memory.limit_exceeded:
        return LostRun(report.loss_reason)
    if report.kill_reason == "starved":
        share = f"{report.cpu_seconds:.2f} s of processor time in {report.wall_seconds:.0f} s"
        return LostRun(f"the machine gave the program {share}; use fewer workers, or stop other load")
    return None


def classify(
    params: RunParams, report: ZygoteReport, exit_code: int, longest_output: int, memory: MemoryUsage
) -> Outcome:
    """Classify how a run ended.

    exit_code        the exit status, or minus the signal number
    longest_output   bytes of the longer of stdout and stderr
    """
    if memory.limit_exceeded:
        return Outcome.OUT_OF_MEMORY
    if longest_output >= params.output_bytes:
        return Outcome.OUTPUT_LIMIT
    if report.kill_reason == "time" or params.exceeds_cpu_limit(report.cpu_seconds):
        return Outcome.TIMED_OUT
    if exit_code in (-signal.SIGXCPU, -signal.SIGKILL) and report.cpu_seconds > _NEAR_LIMIT * params.cpu_seconds:
        return Outcome.TIMED_OUT
    if exit_code == -signal.SIGSYS:
        return Outcome.VIOLATION
    if exit_code != 0 and (
        report.refused_memory or (memory.limit_reached and memory.peak_mb > _NEAR_LIMIT * params.memory_mb)
    ):
        return Outcome.OUT_OF_MEMORY
    return Outcome.SIGNALLED if exit_code < 0 else Outcome.EXITED
