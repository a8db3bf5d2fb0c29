"""What a coordinator refuses; protocol/client.py says what a node makes of each status."""

from http import HTTPStatus

from sandbox.service.service_errors import ServiceError


class NotJoined(ServiceError):
    """The node has to join, or to join again."""

    status = HTTPStatus.CONFLICT


class Forbidden(ServiceError):
    """The node may not take part, now and later."""

    status = HTTPStatus.FORBIDDEN


class NotFound(ServiceError):
    status = HTTPStatus.NOT_FOUND


class RetryLater(ServiceError):
    """The node asks too much or too early."""

    status = HTTPStatus.TOO_MANY_REQUESTS

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, retry_after=retry_after)
