"""The error responses of the service, none of them a verdict.

A client may retry after 429, 502, 503 or 504, unless `error` is "ExecutionLost": then the sandbox has retried already.
For other statuses, the cause is the request itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from sandbox.errors import get_error_code


class ServiceError(Exception):
    """An error response. `status` and `error` are machine-readable; the message is for humans."""

    status = HTTPStatus.BAD_REQUEST

    def __init__(self, message: str, *, error: str = "", retry_after: int | None = None) -> None:
        super().__init__(message)
        self.error = error or get_error_code(type(self))
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return ServiceError.__new__, (type(self), *self.args), self.__dict__


class Unauthorized(ServiceError):
    status = HTTPStatus.UNAUTHORIZED


class MisdirectedRequest(ServiceError):
    """The header Host of the request names another host."""

    code = "Misdirected"
    status = HTTPStatus.MISDIRECTED_REQUEST


class CrossOriginRequest(ServiceError):
    """A web page of another site sent the request."""

    code = "CrossOriginRequest"
    status = HTTPStatus.FORBIDDEN


class RequestTimeout(ServiceError):
    code = "RequestTimeout"
    status = HTTPStatus.REQUEST_TIMEOUT


class PayloadTooLarge(ServiceError):
    code = "PayloadTooLarge"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnsupportedMediaType(ServiceError):
    code = "UnsupportedMediaType"
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class MalformedRequest(ServiceError):
    code = "Malformed"
    status = HTTPStatus.UNPROCESSABLE_ENTITY


class TooManyRequests(ServiceError):
    code = "TooManyRequests"
    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, retry_after: int, reason: str = "the queue is full") -> None:
        super().__init__(f"{reason}; try again in {retry_after} s", retry_after=retry_after)


class ServiceShutdown(ServiceError):
    code = "Stopping"
    status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("the service is stopping", retry_after=1)


class SandboxFailed(ServiceError):
    """The sandbox failed, and so did its retries."""

    code = "Failed"
    status = HTTPStatus.SERVICE_UNAVAILABLE


class QueueTimeout(ServiceError):
    """The request waited too long for a worker."""

    code = "Overdue"
    status = HTTPStatus.GATEWAY_TIMEOUT

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"no worker was free in time; try again in {retry_after} s", retry_after=retry_after)


class ClientDisconnected(Exception):
    """The client of a request has disconnected."""


@contextmanager
def translate_parse_errors() -> Iterator[None]:
    """Convert exceptions caused by the content of a request to MalformedRequest."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise MalformedRequest(str(error), error=get_error_code(type(error))) from error
