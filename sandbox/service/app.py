"""The service as an ASGI application."""

import base64
import hmac
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from sandbox import json_codec
from sandbox.extras import DISTRIBUTION, find_installed_version
from sandbox.limit_bounds import list_bounds
from sandbox.service import judge_routes, openapi, prometheus, request_codec
from sandbox.service.allowed_hosts import AllowedHosts
from sandbox.service.dispatcher_client import DispatcherClient
from sandbox.service.request_body import IncomingRequest, RequestReader
from sandbox.service.request_bounds import RequestBounds
from sandbox.service.request_codec import JudgeBatch
from sandbox.service.responses import make_json_response
from sandbox.service.service_errors import (
    ClientDisconnected,
    CrossOriginRequest,
    MisdirectedRequest,
    SandboxFailed,
    ServiceError,
    ServiceShutdown,
    Unauthorized,
)
from sandbox.service.settings import ServiceSettings

NAME = "curate"
_PUBLIC_PATHS = {"/v1/ping", "/health"}  # paths that need no token, for probes of orchestrators
_CLIENT_CLOSED_REQUEST = 499  # status in the metrics for a request whose client has disconnected

Handler = Callable[[DispatcherClient, IncomingRequest, Request], Awaitable[Response]]


class ServiceApp:
    """The HTTP interface of a dispatcher.

    draining   whether the service is shutting down
    """

    def __init__(self, dispatcher: DispatcherClient, settings: ServiceSettings, bounds: RequestBounds) -> None:
        self.draining = False
        self._dispatcher = dispatcher
        self._bounds = bounds
        reader = RequestReader(dispatcher, settings, bounds)
        self._hosts = AllowedHosts(settings.host, token=settings.token is not None)
        self._token = settings.token.encode() if settings.token is not None else None
        self._public_paths = _PUBLIC_PATHS | ({"/metrics"} if settings.open_metrics else set())
        self._version = find_installed_version(DISTRIBUTION) or "unknown"  # "unknown" if curate is not installed
        post_handlers: dict[str, Handler] = {
            "/judge": judge_routes.judge,
            "/run_code": _run_code,
            "/run": _run,
            "/judge_suite": _run,
        }
        get_endpoints = {
            "/v1/ping": self._ping,
            "/health": self._report_health,
            "/metrics": self._report_metrics,
            "/openapi.json": self._report_openapi_document,
        }
        routes = [
            Route(path, _Endpoint(dispatcher, reader, handler), methods=["POST"])
            for path, handler in post_handlers.items()
        ]
        routes += [Route(path, endpoint) for path, endpoint in get_endpoints.items()]
        handlers = {
            ServiceError: _make_error_response,
            ClientDisconnected: _make_disconnect_response,
            HTTPException: _make_http_error_response,
        }
        self._app = Starlette(routes=routes, exception_handlers=handlers)
        self._app.router.redirect_slashes = False
        self._paths = {*post_handlers, *get_endpoints}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["path"] in self._paths else "other"

        async def count_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._dispatcher.count(path, message["status"])
            await send(message)

        try:
            self._hosts.check(scope["headers"])
            if path not in self._public_paths and not self._has_token(scope):
                raise Unauthorized("the token is missing or wrong; send the header Authorization: Bearer TOKEN")
        except (MisdirectedRequest, CrossOriginRequest, Unauthorized) as error:
            await _make_error_response(Request(scope), error)(scope, receive, count_and_send)
        else:
            await self._app(scope, receive, count_and_send)

    def _has_token(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        kind, _, sent = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":  # from clients with http://anyone:TOKEN@host
            try:
                sent = base64.b64decode(sent, validate=True).partition(b":")[2]
            except ValueError:
                return False
        return kind.lower() in (b"bearer", b"basic") and hmac.compare_digest(sent.strip(), self._token)

    async def _ping(self, request: Request) -> Response:
        return _make_json_response("pong")

    async def _report_health(self, request: Request) -> Response:
        authorized = self._has_token(request.scope)
        about: dict[str, Any] = {
            "service": NAME,
            "status": "draining" if self.draining else "serving",
            "authorized": authorized,
        }
        if authorized:
            about |= {"version": self._version, "most": list_bounds(self._bounds.max_limits)}
            about |= await self._dispatcher.describe()
        return _make_json_response(about, 503 if self.draining else 200)

    async def _report_metrics(self, request: Request) -> Response:
        return Response(await self._dispatcher.fetch_metrics(), media_type=prometheus.CONTENT_TYPE)

    async def _report_openapi_document(self, request: Request) -> Response:
        return _make_json_response(openapi.build_document(self._version, self._bounds.max_limits))


class _Endpoint:
    """An ASGI application that calls a handler."""

    def __init__(self, dispatcher: DispatcherClient, reader: RequestReader, handler: Handler) -> None:
        self._dispatcher = dispatcher
        self._reader = reader
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with IncomingRequest(request, self._reader) as incoming:
            response = await self._handler(self._dispatcher, incoming, request)
            await response(scope, receive, send)


async def _run_code(dispatcher: DispatcherClient, incoming: IncomingRequest, request: Request) -> Response:
    try:
        return await _run(dispatcher, incoming, request, incoming.settings.queue_timeout_seconds)
    except (SandboxFailed, ServiceShutdown) as error:
        error.status = HTTPStatus.GATEWAY_TIMEOUT  # which clients retry; see sandboxfusion.py
        raise


async def _run(
    dispatcher: DispatcherClient, incoming: IncomingRequest, request: Request, timeout_seconds: float | None = None
) -> Response:
    """Handle /run and /judge_suite; the path determines the type of the parsed request."""
    parsed = await incoming.read()
    assert not isinstance(parsed, JudgeBatch)
    result: Any = await dispatcher.execute(incoming, parsed, timeout_seconds=timeout_seconds)
    return make_json_response(request_codec.encode(incoming.path, None, parsed, result))


def _make_error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return _make_json_response({"detail": str(error), "error": error.error}, error.status, headers)


def _make_disconnect_response(request: Request, error: Exception) -> Response:
    return Response(status_code=_CLIENT_CLOSED_REQUEST)


def _make_http_error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.scope['path']}: {error.detail}; see /openapi.json"
    return _make_json_response({"detail": message, "error": error.detail}, error.status_code, error.headers)


def _make_json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_codec.dumps(content), status, headers, "application/json")
