"""The interface of all backends."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from sandbox.concurrency.cancellation import CancelToken
from sandbox.packages import Package
from sandbox.request import Request, Response


class Backend(Protocol):
    """The interface for executing programs. Thread-safe.

    Each module of sandbox/backends defines a class Backend with this interface. Its constructor takes the keywords
    `workers`, `isolation` and `seed` of Sandbox; `packages` and `packages_from` if packages are requested; and
    further keywords. It raises BackendUnavailable if the backend cannot start, and ValueError for an invalid
    argument.

    The module also has a function `find_packages(requirements, folder, **options)`, which returns the property
    `packages` of such a Backend without starting it.
    """

    @property
    def workers(self) -> int:
        """The maximum number of concurrent programs."""

    @property
    def layers(self) -> dict[str, str]:
        """The isolation layers: name -> description; "none..." for a missing layer."""

    @property
    def packages(self) -> tuple[Package, ...]:
        """The requested packages and their dependencies."""

    def execute(self, request: Request[Response], cancellation: CancelToken | None = None) -> Response:
        """Wait for a free worker, execute the request there, and return the response.

        cancellation   cancels the request: kills the program, frees its worker, and raises Cancelled

        Raises SandboxError if the sandbox failed, so that the program has no result. Raises ValueError or TypeError for
        an invalid request.
        """

    def submit(self, request: Request[Response], on_response: Callable[[Any], object]) -> Callable[[], None]:
        """Execute a request without waiting; return a function that cancels it.

        on_response   called once, from any thread, with the response or the exception that `execute` would raise
        """

    def execute_many(self, requests: Iterable[Request[Response]]) -> Iterator[tuple[int, Response | Exception]]:
        """Yield the index of each request, and its response or exception, in order of completion.

        `requests` may be infinite, since the consumer's thread reads only a few ahead of the workers. Raises
        SandboxError if no further request can be executed.
        """

    def close(self) -> None:
        """End all workers. Requests in progress raise SandboxError."""
