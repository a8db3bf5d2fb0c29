"""A worker's HTTP client for the controller."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from sandbox.http_client import HttpClient, ServerUnreachable
from train.asynchronous.messages import (
    MSGPACK,
    RUN_HEADER,
    Heartbeat,
    HeartbeatResponse,
    LeaseRequest,
    LeaseResponse,
    ReleaseRequest,
    ResultStatus,
    SubmitRequest,
)
from train.errors import ConfigError, ControllerUnreachable, RunError
from train.sampling.engine_spec import EngineSpec
from train.weights.manifest import WeightManifest

_CONNECT_SECONDS = 10.0
_RESPONSE_TIMEOUT_SECONDS = 60.0
_RETRYABLE_STATUSES = {408, 429, 500, 502, 503, 504}
Message = TypeVar("Message")


class ControllerCalls(ABC):
    """A worker's calls (`ControllerAPI` in messages.py) over any transport, without retries."""

    @abstractmethod
    def call(self, path: str, message: Any, kind: Any) -> Any:
        """Send a message, and return the reply decoded as type `kind`; None if it is empty."""

    def request_leases(self, request: LeaseRequest) -> LeaseResponse:
        return self.call("/work", request, LeaseResponse)  # type: ignore[no-any-return]

    def submit_results(self, request: SubmitRequest) -> list[ResultStatus]:
        return self.call("/answers", request, list[ResultStatus])  # type: ignore[no-any-return]

    def heartbeat(self, beat: Heartbeat) -> HeartbeatResponse:
        return self.call("/beat", beat, HeartbeatResponse)  # type: ignore[no-any-return]

    def release(self, request: ReleaseRequest) -> None:
        self.call("/leave", request, type(None))


class ControllerClient(ControllerCalls):
    """Thread-safe HTTP client for a controller, without retries.

    url    http://HOST:PORT
    token  the run's token, or None

    Raises ConfigError for an invalid URL.
    """

    def __init__(self, url: str, token: str | None = None, *, reply_seconds: float = _RESPONSE_TIMEOUT_SECONDS) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        try:
            self._client = HttpClient(url, headers=headers, connect_seconds=_CONNECT_SECONDS)
        except ValueError as error:
            raise ConfigError(f"--controller must be http://HOST:PORT: {error}") from error
        self.url = self._client.url
        self._reply_seconds = reply_seconds

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every request: a live view, since `fetch_engine_spec` adds a header."""
        return self._client.headers

    def fetch_engine_spec(self) -> EngineSpec:
        """Fetch the engine spec, and send the name of its run as a header of all later calls."""
        spec = self._send_request("GET", "/run", EngineSpec)
        self._client.headers[RUN_HEADER] = spec.run
        return spec

    def call(self, path: str, message: Any, kind: Any) -> Any:
        """Send a message. Raises ControllerUnreachable, and RunError if the controller refuses this worker."""
        return self._send_request("POST", path, kind, message)

    def wait_for_weights(self, known_version: int, wait_seconds: float) -> WeightManifest | None:
        path = f"/weights?after={known_version}&wait={wait_seconds:g}"
        return self._send_request("GET", path, WeightManifest | None, extra_seconds=wait_seconds)  # type: ignore[arg-type]

    def close(self) -> None:
        self._client.close()

    def _send_request(
        self, method: str, path: str, kind: type[Message], message: Any = None, *, extra_seconds: float = 0.0
    ) -> Message:
        body = None if message is None else msgspec.msgpack.encode(message)
        try:
            reply = self._client.request(
                method,
                path,
                body,
                read_seconds=self._reply_seconds + extra_seconds,
                headers={} if message is None else {"content-type": MSGPACK},
            )
        except ServerUnreachable as error:
            raise ControllerUnreachable(f"the controller at {self.url} cannot be reached: {error}") from error
        if reply.status in _RETRYABLE_STATUSES:
            raise ControllerUnreachable(
                f"the controller at {self.url} returns HTTP {reply.status}: {reply.get_error_message()}"
            )
        if reply.status == 204:
            return None  # type: ignore[return-value]
        if reply.status != 200:
            raise RunError(f"the controller at {self.url} refuses this worker: {reply.get_error_message()}")
        try:
            return msgspec.msgpack.decode(reply.body, type=kind)
        except msgspec.DecodeError as error:
            raise RunError(
                f"cannot decode the reply of {self.url}{path}: {error}. Trainer and worker must have the same version "
                "of curate."
            ) from error
