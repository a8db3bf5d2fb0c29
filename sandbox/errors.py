"""Failures of the sandbox itself. A failed program is a value, never one of these.

SandboxError                 the program has no result: retry it or mask the sample, never score it 0
    BackendUnavailable       the backend cannot start with these options; the message has a remedy
        CannotIsolate        the machine does not support the requested isolation
    ExecutionLost            a run was lost, and so were its retries
        KilledExternally     another process sent SIGKILL to a run
    Cancelled                the caller cancelled the request

RefereeError                 a ValueError: the suite's own checker or interactor failed. The program has no verdict; fix
                             the suite
"""


class SandboxError(Exception):
    """The sandbox failed, so the program has no result."""


def get_error_code(kind: type[BaseException]) -> str:
    """Return the name of an exception class in responses of the service: its attribute `code`, or else its own name."""
    code: str = vars(kind).get("code", kind.__name__)
    return code


class BackendUnavailable(SandboxError):
    """The backend cannot start with these options on this machine."""


class CannotIsolate(BackendUnavailable):
    """The machine does not support the isolation level."""


class ExecutionLost(SandboxError):
    """A run and its retries were lost: the worker exited, hung, or got no CPU time."""


class KilledExternally(ExecutionLost):
    """A run got SIGKILL, for example from an operator or from the kernel's OOM killer. The backend retries it once."""

    code = "KilledExternally"


class Cancelled(SandboxError):
    """The caller cancelled its request; see sandbox/concurrency/cancellation.py."""


class RefereeError(ValueError):
    """The suite's own checker or interactor crashed, timed out, or gave no valid ruling."""

    code = "RefereeError"
