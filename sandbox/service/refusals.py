"""What is answered when there is no verdict. None of it says anything about a program.

A client may repeat what was answered 429, 502, 503 or 504, unless the answer's `error` says that the sandbox has tried
time and again already: "ExecutionLost" and its like. Other errors are the request's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus


class Refusal(Exception):
    """No verdict; `status` and `error` are for programs, the words are for people."""

    status = HTTPStatus.BAD_REQUEST

    def __init__(self, words: str, *, error: str = "", retry_after: int | None = None) -> None:
        super().__init__(words)
        self.error = error or type(self).__name__
        self.retry_after = retry_after


class Unauthorized(Refusal):
    status = HTTPStatus.UNAUTHORIZED


class Misdirected(Refusal):
    """Sent to a name that the service does not go by."""

    status = HTTPStatus.MISDIRECTED_REQUEST


class ForeignPage(Refusal):
    """Sent by a page of another site in somebody's browser."""

    status = HTTPStatus.FORBIDDEN


class TooSlow(Refusal):
    status = HTTPStatus.REQUEST_TIMEOUT


class TooLarge(Refusal):
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class NotJson(Refusal):
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class Malformed(Refusal):
    status = HTTPStatus.UNPROCESSABLE_ENTITY


class TooMany(Refusal):
    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, retry_after: int, words: str = "the queue is full") -> None:
        super().__init__(f"{words}; try again in {retry_after} s", retry_after=retry_after)


class Stopping(Refusal):
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("the service is stopping", retry_after=1)


class Failed(Refusal):
    """The sandbox failed, its own repeats too."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class Overdue(Refusal):
    """The request has waited too long for a worker."""

    status = HTTPStatus.GATEWAY_TIMEOUT

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"no worker came free in time; try again in {retry_after} s", retry_after=retry_after)


class Gone(Exception):
    """The client has gone: nobody will read an answer."""


@contextmanager
def malformed() -> Iterator[None]:
    """What a request's own content makes something raise becomes Malformed."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise Malformed(str(error), error=type(error).__name__) from error
