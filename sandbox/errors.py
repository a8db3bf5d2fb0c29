"""What can go wrong with the sandbox itself. A program that fails is a value, never one of these.

SandboxError                 we know nothing about the program: retry it or mask the sample, never score it 0
    BackendUnavailable       this machine cannot give what was asked for; the message says what to change
        CannotIsolate        it refuses the isolation that was asked for
    ExecutionLost            a worker died or went silent and a bounded number of repeats did not help
        KilledExternally    somebody other than the sandbox or the program itself killed the program
    Cancelled                the caller cancelled the request

RefereeError                the suite's own checker or interactor failed, a ValueError: the suite has to be mended, and
                             nothing is known about the program
"""


class SandboxError(Exception):
    """The sandbox failed; nothing is known about the program."""


def error_code(kind: type[BaseException]) -> str:
    """Return the name of an exception on the wire: its `code` if it has one of its own, else the name of the class."""
    code: str = vars(kind).get("code", kind.__name__)
    return code


class BackendUnavailable(SandboxError):
    """The backend cannot be started as asked on this machine."""


class CannotIsolate(BackendUnavailable):
    """The machine refuses something that a level of isolation needs."""


class ExecutionLost(SandboxError):
    """A run was lost and so were its retries: a worker died, hung, or got no CPU time."""


class KilledExternally(ExecutionLost):
    """A SIGKILL came neither from the sandbox nor from the program's own processes, but from an operator, or because
    memory ran out elsewhere. A worker reports it at once; a pool raises it only if it happens twice."""

    code = "KilledExternally"


class Cancelled(SandboxError):
    """The caller cancelled its request; see sandbox/concurrency/cancellation.py."""


class RefereeError(ValueError):
    """The suite's own checker or interactor crashed, was too slow, or cannot be understood."""

    code = "RefereeError"
