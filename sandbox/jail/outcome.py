"""How a run ended: decided by what the kernel and we have measured, never by what a program says of itself.

What it prints, its exit status and the signal that it died of are its own to choose. So a word on stderr is no sign
of memory, and a signal is one of a limit only if that limit was all but used up.
"""

import signal
from dataclasses import dataclass
from typing import Any

from sandbox.jail.child import Job
from sandbox.program import Outcome

_NEARLY = 0.9  # of a limit: beyond it a failure is put down to that limit


@dataclass(frozen=True, slots=True)
class Memory:
    """What is known of a run's memory. exceeded: it was ended for using more than its limit. hit: it cannot be ruled
    out that something it asked for was refused."""

    peak_mb: float
    exceeded: bool
    hit: bool


def outcome_of(job: Job, answer: dict[str, Any], exit_code: int, longest_output: int, memory: Memory) -> Outcome:
    """answer: the zygote's. exit_code: minus the number of the signal, if one ended the program. longest_output: bytes
    of stdout or stderr, whichever has more."""
    if memory.exceeded:
        return Outcome.OUT_OF_MEMORY
    if longest_output >= job.output_bytes:
        return Outcome.OUTPUT_LIMIT
    # The last hundredth covers how coarsely the kernel counts; _NEARLY, that its own limit counts otherwise.
    if answer["ended_by"] == "time" or answer["cpu_seconds"] > job.cpu_seconds + 0.01:
        return Outcome.TIMED_OUT
    if exit_code in (-signal.SIGXCPU, -signal.SIGKILL) and answer["cpu_seconds"] > _NEARLY * job.cpu_seconds:
        return Outcome.TIMED_OUT
    if exit_code == -signal.SIGSYS:
        return Outcome.VIOLATION
    if exit_code != 0 and memory.hit and memory.peak_mb > _NEARLY * job.memory_mb:
        return Outcome.OUT_OF_MEMORY
    return Outcome.SIGNALLED if exit_code < 0 else Outcome.EXITED
