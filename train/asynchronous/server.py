"""The controller over HTTP, in a thread of rank 0's process, for workers on other machines and in other processes.

    POST /work /answers /beat /leave   the calls of messages.py, as msgpack
    GET  /weights?after=N&wait=S       the newest manifest, or 204 if there is none within S seconds
    GET  /weights/VERSION/NAME         a file of one of the newest two versions; supports range requests
    GET  /run                          the engine spec for workers
    GET  /health                       needs no token

All other paths require the token, if there is one. A body is limited to 64 MiB and two minutes. Errors are JSON with a
message.
"""

import asyncio
import hmac
import logging
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sandbox.service.allowed_hosts import AllowedHosts
from sandbox.service.listener import MAX_CONNECTIONS, listen, raise_descriptor_limit
from sandbox.service.request_body import read_body
from sandbox.service.service_errors import (
    CrossOriginRequest,
    MalformedRequest,
    MisdirectedRequest,
    ServiceError,
    Unauthorized,
    UnsupportedMediaType,
)
from sandbox.service.settings import is_loopback
from train.asynchronous.messages import (
    MSGPACK,
    RUN_HEADER,
    ControllerAPI,
    Heartbeat,
    LeaseRequest,
    ReleaseRequest,
    SubmitRequest,
)
from train.bounded_http import build_bounded_config
from train.errors import ConfigError, ControllerUnreachable, RunError
from train.sampling.engine_spec import EngineSpec
from train.weights.manifest import WeightManifest

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 2**20
_MAX_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.1  # interval of checks for new weights
_BODY_SECONDS = 120.0  # time limit for a whole body
_THREADS = 16  # maximum concurrent calls of the controller, which take its lock and decode completions
_HEAD_SECONDS, _RESPONSE_TIMEOUT_SECONDS, _KEEP_ALIVE_SECONDS = 10.0, 60.0, 60
_START_SECONDS = 30.0
_SHUTDOWN_SECONDS = 6.0  # each worker calls at least every 4 s, and the reply notifies it of the run's end
_STOP_SECONDS = 5.0
_FILES_PER_CONNECTION = 4  # file descriptors: one socket, one file of weights, and two in reserve for the trainer

Message = TypeVar("Message")


class ControllerServer:
    """An HTTP server for a controller of this process. It runs until `close`.

    listen_to   HOST:PORT; port 0 selects a free port
    token       that workers must send; None only if no other machine can reach the address
    run         name of the run, unchanged by resumption
    spec        engine spec for workers
    fail        called with the error if the server fails

    Raises ConfigError if the address cannot be used, or other machines can reach it without a token.
    """

    def __init__(
        self, controller: ControllerAPI, listen_to: str, *, token: str | None, run: str, spec: EngineSpec,
        fail: Callable[[RunError], None] = lambda error: None,
    ) -> None:  # fmt: skip
        self._fail = fail
        host, port = _parse_address(listen_to)
        try:
            if token is None and not is_loopback(host):
                raise ConfigError(
                    f"workers.listen = {listen_to!r} can be reached from other machines, so it needs a token: set the "
                    "environment variable CURATE_TOKEN here and where the workers are started"
                )
            self._listener = listen(host, port)
        except OSError as error:
            raise ConfigError(f"workers.listen: cannot listen on {listen_to}: {error}") from error
        max_connections = min(MAX_CONNECTIONS, raise_descriptor_limit() // _FILES_PER_CONNECTION)
        self._app = ControllerApp(controller, spec, run=run, host=host, token=token)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}"
        self._server = uvicorn.Server(
            build_bounded_config(
                self._app,
                head_seconds=_HEAD_SECONDS,
                response_seconds=_RESPONSE_TIMEOUT_SECONDS,
                keep_alive_seconds=_KEEP_ALIVE_SECONDS,
                stop_seconds=int(_STOP_SECONDS),
                max_connections=max_connections,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="controller-http", daemon=True)
        self._thread.start()
        until = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                self._listener.close()
                raise RunError(f"the server for workers did not start on {self.url}")
            time.sleep(0.01)

    def close(self, *, run_ended: bool = True) -> None:
        """Stop the server; call this after the controller's `close`.

        If the run has ended, first wait until all live workers are notified.
        """
        until = time.monotonic() + _SHUTDOWN_SECONDS
        while run_ended and not self._app.all_workers_notified(_SHUTDOWN_SECONDS) and time.monotonic() < until:
            time.sleep(0.05)
        self._app.stop()
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(run_ended=error is None)

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        except Exception as error:
            log.exception("the server for workers has failed")
            self._fail(RunError(f"the server for workers has failed ({error}). Continue with --resume."))
        finally:
            self._listener.close()


def replace_wildcard(url: str, host: str = "") -> str:
    """Replace a wildcard address in the URL of a listener by `host`; by the loopback address if empty."""
    return url.replace("//0.0.0.0:", f"//{host or '127.0.0.1'}:").replace("//[::]:", f"//{host or '[::1]'}:")


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"workers.listen must be HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


class WrongRun(ServiceError):
    """A call by a worker of another run."""

    status = HTTPStatus.CONFLICT


class WeightsNotFound(ServiceError):
    status = HTTPStatus.NOT_FOUND


class RunStopped(ServiceError):
    status = HTTPStatus.SERVICE_UNAVAILABLE


class ControllerApp:
    """The controller as an ASGI application.

    run    name of the run, unchanged by resumption
    host   name or address that the service is bound to
    token  that workers must send as `Authorization: Bearer TOKEN`; None serves everyone
    spec   engine spec for GET /run
    """

    def __init__(self, controller: ControllerAPI, spec: EngineSpec, *, run: str, host: str, token: str | None) -> None:
        self._controller = controller
        self._spec = spec
        self._run = run
        self._token = None if token is None else token.encode()
        self._hosts = AllowedHosts(host, token=token is not None)
        self._limiter: anyio.CapacityLimiter | None = None  # created later, in the event loop
        self._has_ended = False
        self._sent_manifests: dict[int, WeightManifest] = {}  # newest two manifests sent to workers, by version
        self._lookup_time = 0.0  # time of the last look-up of `_newest`
        self._newest: WeightManifest | None = None
        self._last_calls: dict[str, float] = {}  # by worker: time of its last call; no entry once notified of the end
        self._app = Starlette(
            routes=[
                Route("/health", self._report_health),
                Route("/run", self._send_engine_spec),
                Route("/weights", self._send_newest_manifest),
                Route("/weights/{version}/{name}", self._send_weight_file),
                Route("/work", self._request_leases, methods=["POST"]),
                Route("/answers", self._submit_results, methods=["POST"]),
                Route("/beat", self._receive_heartbeat, methods=["POST"]),
                Route("/leave", self._release, methods=["POST"]),
            ],
            exception_handlers={ServiceError: _respond_with_refusal, 404: _respond_not_found, 405: _respond_not_found},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            self._hosts.check(scope["headers"])
            if scope["path"] != "/health":
                self._check(request)
        except (MisdirectedRequest, CrossOriginRequest, Unauthorized, WrongRun) as refusal:
            await (await _respond_with_refusal(request, refusal))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def stop(self) -> None:
        self._has_ended = True

    def all_workers_notified(self, seconds: float) -> bool:
        """Return whether every worker that called within the last `seconds` was notified of the run's end."""
        return all(time.monotonic() - last_call > seconds for last_call in list(self._last_calls.values()))

    def _check(self, request: Request) -> None:
        kind, _, sent = request.headers.get("authorization", "").partition(" ")
        if self._token is not None and not (
            kind.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), self._token)
        ):
            raise Unauthorized("the token is missing or wrong: set CURATE_TOKEN to that of the run")
        if (run := request.headers.get(RUN_HEADER)) and run != self._run:
            raise WrongRun(f"this address now serves run {self._run}, not {run}; restart the worker")

    async def _report_health(self, request: Request) -> Response:
        return JSONResponse({"service": "curate", "status": "controller"})

    async def _send_engine_spec(self, request: Request) -> Response:
        return _encode_response(self._spec)

    async def _request_leases(self, request: Request) -> Response:
        message = await _read_message(request, LeaseRequest)
        response = await self._call(lambda: self._controller.request_leases(message))
        self._record_call(message.worker, response.run_ended)
        return _encode_response(response)

    async def _submit_results(self, request: Request) -> Response:
        message = await _read_message(request, SubmitRequest)
        return _encode_response(await self._call(lambda: self._controller.submit_results(message)))

    async def _receive_heartbeat(self, request: Request) -> Response:
        message = await _read_message(request, Heartbeat)
        response = await self._call(lambda: self._controller.heartbeat(message))
        self._record_call(message.worker, response.run_ended)
        return _encode_response(response)

    async def _release(self, request: Request) -> Response:
        message = await _read_message(request, ReleaseRequest)
        await self._call(lambda: self._controller.release(message))
        if message.leases is None:
            self._last_calls.pop(message.worker, None)
        return Response(status_code=204)

    async def _send_newest_manifest(self, request: Request) -> Response:
        after, wait_seconds = _read_number(request, "after", -1), _read_number(request, "wait", 0.0)
        if not isfinite(wait_seconds):
            raise MalformedRequest(f"wait must be a finite number of seconds, not {wait_seconds}")
        until = time.monotonic() + min(wait_seconds, _MAX_WAIT_SECONDS)
        manifest: WeightManifest | None = await self._call(lambda: self._controller.wait_for_weights(after, 0.0))
        while manifest is None or manifest.version == after:
            if time.monotonic() >= until or self._has_ended or await request.is_disconnected():
                return Response(status_code=204)
            await asyncio.sleep(_POLL_SECONDS)
            manifest = await self._look_up_newest()
        self._retain_manifest(manifest)
        return _encode_response(manifest)

    async def _look_up_newest(self) -> WeightManifest | None:
        """Return the newest manifest, looked up once per _POLL_SECONDS for all waiting workers.

        None while another task looks it up.
        """
        if time.monotonic() - self._lookup_time >= _POLL_SECONDS:
            self._lookup_time, self._newest = time.monotonic(), None
            self._newest = await self._call(lambda: self._controller.wait_for_weights(-1, 0.0))
        return self._newest

    async def _send_weight_file(self, request: Request) -> Response:
        version, name = request.path_params["version"], request.path_params["name"]
        newest: WeightManifest | None = await self._call(lambda: self._controller.wait_for_weights(-1, 0.0))
        if newest is not None:
            self._retain_manifest(newest)
        manifest = next((sent for each, sent in self._sent_manifests.items() if str(each) == version), None)
        if manifest is None or name not in {file.name for file in manifest.files}:
            raise WeightsNotFound(
                f"there is no file {name} of weights {version}; the newest weights are "
                f"{'none' if newest is None else newest.version}"
            )
        path = Path(manifest.folder) / name
        if not path.is_file():
            raise WeightsNotFound(f"the file {name} of weights {version} was removed")
        return FileResponse(path, media_type="application/octet-stream")

    def _retain_manifest(self, newest: WeightManifest) -> None:
        """Retain this manifest and the previous version's: a download may take longer than a step."""
        self._sent_manifests = {each: sent for each, sent in self._sent_manifests.items() if each == newest.version - 1}
        self._sent_manifests[newest.version] = newest

    def _record_call(self, worker: str, run_ended: bool) -> None:
        self._has_ended = self._has_ended or run_ended
        if run_ended:
            self._last_calls.pop(worker, None)
        else:
            self._last_calls[worker] = time.monotonic()

    async def _call(self, call: Callable[[], Any]) -> Any:
        self._limiter = self._limiter or anyio.CapacityLimiter(_THREADS)
        try:
            return await anyio.to_thread.run_sync(call, limiter=self._limiter)
        except ControllerUnreachable as error:
            raise RunStopped(str(error), retry_after=5) from error


async def _read_message(request: Request, kind: type[Message]) -> Message:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != MSGPACK:
        raise UnsupportedMediaType(f"the body must be msgpack; send the header content-type: {MSGPACK}")
    body = await read_body(request, MAX_BODY_BYTES, _BODY_SECONDS, advice="; send fewer completions per request")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, OverflowError, RecursionError) as error:
        raise MalformedRequest(
            f"the body is not of type {kind.__name__}: {error}. Trainer and worker must have the same version of curate"
        ) from error


def _read_number(request: Request, name: str, default: Any) -> Any:
    try:
        return type(default)(request.query_params.get(name, default))
    except ValueError:
        raise MalformedRequest(f"{name} must be a number, not {request.query_params[name][:80]!r}") from None


def _encode_response(message: Any) -> Response:
    return Response(msgspec.msgpack.encode(message), media_type=MSGPACK)


async def _respond_with_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    return JSONResponse({"detail": str(error), "error": error.error}, error.status, headers)


async def _respond_not_found(request: Request, error: Exception) -> Response:
    detail = f"{request.method} {request.url.path} is not a call of a controller"
    return JSONResponse({"detail": detail, "error": "Unknown"}, getattr(error, "status_code", 404))
