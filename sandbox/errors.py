"""Failures of the sandbox itself. A failed program is a value, never one of these.

SandboxError                 the program has no result: retry it or mask the sample, never score it 0
    BackendUnavailable       the backend cannot start with these options; the message has a remedy
        CannotIsolate        the machine lacks the requested isolation
    ExecutionLost            a run was lost, and a bounded number of retries failed
        KilledExternally     a SIGKILL came from neither the sandbox nor the program
    Cancelled                the caller cancelled the request

RefereeError                 a ValueError: the suite's own checker or interactor failed. The program has no verdict; fix
                             the suite
"""


class SandboxError(Exception):
    """The sandbox failed, so the program has no result."""


def get_error_code(kind: type[BaseException]) -> str:
    """Return an exception class's name on the wire: its own `code`, else the class name."""
    code: str = vars(kind).get("code", kind.__name__)
    return code


class BackendUnavailable(SandboxError):
    """The backend cannot start with these options on this machine."""


class CannotIsolate(BackendUnavailable):
    """The machine lacks a requirement of the isolation level."""


class ExecutionLost(SandboxError):
    """A run and its retries were lost: a worker exited, hung, or got no CPU time."""


class KilledExternally(ExecutionLost):
    """An operator, or the OOM killer of another cgroup, sent SIGKILL to a run. A dispatcher retries it once."""

    code = "KilledExternally"


class Cancelled(SandboxError):
    """The caller cancelled its request; see sandbox/concurrency/cancellation.py."""


class RefereeError(ValueError):
    """The suite's own checker or interactor crashed, timed out, or gave no valid ruling."""

    code = "RefereeError"
