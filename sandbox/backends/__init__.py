"""Where programs run, one file each. The file's name is the backend's name in Sandbox(backend=...).

A backend is a class Backend, made with the keywords workers (int or None), isolation, seed and those of its own:
    workers                  programs that run at once
    layers                   what isolates a run: name -> how
    ask(*request, cancellation=None)
                             the answer to one request; for any number of threads. Once its Cancellation says so, the
                             program is killed, its worker serves others, and Cancelled is raised
    ask_many(requests)       (index, answer) as they finish; an answer may be the exception that its ask would raise.
                             Reads its requests, in the thread that consumes it, only a little ahead of the workers.
                             Raises SandboxError where nothing more can be answered
    close()                  end all; asks in progress raise SandboxError
Requests:
    ("run", Program, Invocation, Limits)      answered by a RunResult
    ("judge", Program, Suite, run_all)        answered by a Judgement
Asking raises SandboxError if the sandbox failed, ValueError or TypeError if the request itself is wrong.
"""

import os
from functools import cache


@cache
def names() -> tuple[str, ...]:
    """Names of all backends, sorted."""
    files = (entry.name for entry in os.scandir(__path__[0]))
    return tuple(sorted(name[:-3] for name in files if name.endswith(".py") and not name.startswith("_")))


def check(name: str) -> None:
    """Raises ValueError, naming the choices, where there is no such backend."""
    if name not in names():
        raise ValueError(f"no backend {name!r}; choose one of {', '.join(names())}")
