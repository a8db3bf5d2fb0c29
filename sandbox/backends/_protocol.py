"""The interface of all backends."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from sandbox.concurrency.cancellation import CancelToken
from sandbox.packages import Package
from sandbox.request import Request, Response


class Backend(Protocol):
    """A place where programs run. All methods may be called by any number of threads.

    Each module of sandbox/backends has one class with this interface, named Backend. It is constructed with the
    keywords `workers` (int or None), `isolation` and `seed`, which mean the same as for Sandbox; with `packages` and
    `packages_from` if packages are asked for; and with further keywords of its own. Constructing it raises
    BackendUnavailable if the backend cannot give what is asked for, and ValueError if an argument is wrong.

    The module also has a function `find_packages(words, folder, **own)`, which returns what the property `packages` of
    such a Backend would be, without starting it.
    """

    @property
    def workers(self) -> int:
        """The number of programs that run at once."""

    @property
    def layers(self) -> dict[str, str]:
        """The layers that isolate a run: name -> how. A value that begins with "none" means a missing layer."""

    @property
    def packages(self) -> tuple[Package, ...]:
        """The requested packages and their dependencies."""

    def execute(self, request: Request[Response], cancellation: CancelToken | None = None) -> Response:
        """Wait for a free worker, have it carry out the request, and return the response.

        cancellation   once it is cancelled, the program is killed, its worker serves others, and Cancelled is raised

        Raises SandboxError if the sandbox failed: then nothing is known about the program. Raises ValueError or
        TypeError if the request itself is wrong.
        """

    def submit(self, request: Request[Response], done: Callable[[Any], object]) -> Callable[[], None]:
        """Do the same as execute, without waiting; return what cancels the request.

        done   is called once, soon and from any thread, with the response or the exception that `execute` would raise
        """

    def execute_many(self, requests: Iterable[Request[Response]]) -> Iterator[tuple[int, Response | Exception]]:
        """Yield (index, response or the exception that `execute` would raise) for each request, in order of completion.

        The requests are read in the thread that consumes the responses, only a few ahead of the workers, so there may
        be infinitely many. Raises SandboxError if no further request can be answered.
        """

    def close(self) -> None:
        """End all workers. Requests in progress raise SandboxError."""
