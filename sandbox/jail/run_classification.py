"""How a run ended: decided by what the kernel and we have measured, never by what a program says of itself.

A program can choose what it prints, its exit status and the signal that ends it. So text on stderr does not show
that memory ran out, and a signal is put down to a limit only if that limit was all but used up.
"""

import signal
from dataclasses import dataclass
from typing import Any

from sandbox.jail.child import RunParams
from sandbox.program import Outcome, RunResult

_NEARLY = 0.9  # the fraction of a limit beyond which a failure is put down to that limit


@dataclass(frozen=True, slots=True)
class ZygoteReport:
    """What the zygote reports of a run.

    status               the program's wait status
    kill_reason          why the zygote ended the run: "time", "memory" or "starved"; "" if the program ended itself
    killed               whether the program died of SIGKILL without being ended by the zygote
    killed_from_outside  whether that signal cannot have come from the run
    end_time             when the program ended, in monotonic seconds
    refused_memory       whether it asked for more memory at once than it may have
    loss_reason          why the program never began; "" if it did
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

    @classmethod
    def from_response(cls, answer: dict[str, Any]) -> "ZygoteReport":
        return cls(**answer)


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """What is known of a run's memory.

    peak_mb         the most that it used, in megabytes
    limit_exceeded  whether it was ended for using more than its limit
    limit_reached   whether memory that it asked for may have been refused
    """

    peak_mb: float
    limit_exceeded: bool
    limit_reached: bool


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run about which everything is known.

    end_time    when it ended, in monotonic seconds
    was_killed  whether it was ended by SIGKILL, for no reason that we know
    """

    result: RunResult
    end_time: float
    was_killed: bool = False


@dataclass(frozen=True, slots=True)
class LostRun:
    """Why nothing is known about a run.

    zygote_lost  whether its zygote was lost together with it
    """

    reason: str
    zygote_lost: bool = False


def find_loss(report: ZygoteReport, memory: MemoryUsage) -> LostRun | None:
    """Return why nothing is known about a run that was reported; None if it can be classified."""
    if report.loss_reason and not memory.limit_exceeded:
        return LostRun(report.loss_reason)
    if report.kill_reason == "starved":
        got = f"{report.cpu_seconds:.2f} s of processor time in {report.wall_seconds:.0f} s"
        return LostRun(f"the machine gave the program {got}; use fewer workers, or end what else keeps it busy")
    return None


def classify(job: RunParams, report: ZygoteReport, exit_code: int, longest_output: int, memory: MemoryUsage) -> Outcome:
    """Classify how a run ended.

    exit_code        minus the number of the signal, if one ended the program
    longest_output   bytes of stdout or stderr, whichever has more
    """
    if memory.limit_exceeded:
        return Outcome.OUT_OF_MEMORY
    if longest_output >= job.output_bytes:
        return Outcome.OUTPUT_LIMIT
    if report.kill_reason == "time" or job.exceeds_cpu_limit(report.cpu_seconds):
        return Outcome.TIMED_OUT
    # _NEARLY allows for a limit that counts differently.
    if exit_code in (-signal.SIGXCPU, -signal.SIGKILL) and report.cpu_seconds > _NEARLY * job.cpu_seconds:
        return Outcome.TIMED_OUT
    if exit_code == -signal.SIGSYS:
        return Outcome.VIOLATION
    if exit_code != 0 and (
        report.refused_memory or (memory.limit_reached and memory.peak_mb > _NEARLY * job.memory_mb)
    ):
        return Outcome.OUT_OF_MEMORY
    return Outcome.SIGNALLED if exit_code < 0 else Outcome.EXITED
