"""The service as an ASGI application."""

import base64
import hmac
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from sandbox import messages
from sandbox.box import Sandbox
from sandbox.maxima import bounds_of
from sandbox.service import judge_routes, openapi, run_routes
from sandbox.service.executor import Work
from sandbox.service.hosts import Hosts
from sandbox.service.refusals import ForeignPage, Gone, Misdirected, Refusal, Unauthorized
from sandbox.service.request_body import Asking
from sandbox.service.settings import Settings

NAME = "curate"
_OPEN = {"/v1/ping"}  # to all, token or not
_GONE = 499  # nobody reads it, but it is counted

Handler = Callable[[Work, Asking, Request], Awaitable[Response]]


class App:
    """Serves one Sandbox, which stays the caller's."""

    def __init__(self, box: Sandbox, settings: Settings) -> None:
        self.work = Work(box, settings)
        self._hosts = Hosts(settings.host, token=settings.token is not None)
        self._token = settings.token.encode() if settings.token is not None else None
        self._version = _version()
        asked: dict[str, Handler] = {
            "/judge": judge_routes.judge,
            "/run_code": run_routes.run_code,
            "/run": run_routes.run,
            "/judge_suite": run_routes.run,
        }
        told = {
            "/v1/ping": self._ping,
            "/health": self._health,
            "/metrics": self._metrics,
            "/openapi.json": self._openapi,
        }
        routes = [Route(path, _Endpoint(self, handler), methods=["POST"]) for path, handler in asked.items()]
        routes += [Route(path, endpoint) for path, endpoint in told.items()]
        handlers = {Refusal: _refused, Gone: _gone, HTTPException: _no_such_thing}
        self._app = Starlette(routes=routes, exception_handlers=handlers)
        self._app.router.redirect_slashes = False
        self._paths = {*asked, *told}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["path"] in self._paths else "other"

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.work.measures.responses.labels(path, message["status"]).inc()
            await send(message)

        try:
            self._hosts.check(scope["headers"])
            if path not in _OPEN and not self._has_token(scope):
                raise Unauthorized("send the service's token: Authorization: Bearer TOKEN")
        except (Misdirected, ForeignPage, Unauthorized) as refusal:
            await _refused(Request(scope), refusal)(scope, receive, counted)
        else:
            await self._app(scope, receive, counted)

    def _has_token(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        kind, _, sent = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":  # as clients send that are given http://anyone:TOKEN@host
            try:
                sent = base64.b64decode(sent, validate=True).partition(b":")[2]
            except ValueError:
                return False
        return kind.lower() in (b"bearer", b"basic") and hmac.compare_digest(sent.strip(), self._token)

    def asking(self, request: Request) -> Asking:
        return Asking(request, self.work)

    async def _ping(self, request: Request) -> Response:
        return _json("pong")

    async def _health(self, request: Request) -> Response:
        line, box = self.work.line, self.work.box
        status = {
            "service": NAME,
            "version": self._version,
            "status": "draining" if line.draining else "serving",
            "workers": box.workers,
            "most": bounds_of(self.work.bounds.most),
            "layers": box.layers,
            "waiting": line.waiting,
            "running": line.running,
        }
        return _json(status, 503 if line.draining else 200)

    async def _metrics(self, request: Request) -> Response:
        return Response(self.work.measures.text(), media_type=self.work.measures.content_type)

    async def _openapi(self, request: Request) -> Response:
        return _json(openapi.document(self._version, self.work.bounds.most))


class _Endpoint:
    """A handler as an ASGI application: the request is held until its answer is sent."""

    def __init__(self, app: App, handler: Handler) -> None:
        self._app = app
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        with self._app.asking(request) as asking:
            response = await self._handler(self._app.work, asking, request)
            await response(scope, receive, send)


def _version() -> str:
    try:
        return version("curate-code")
    except PackageNotFoundError:  # run from a copy that is not installed
        return "unknown"


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    if isinstance(error, Unauthorized):
        headers["www-authenticate"] = "Bearer"
    return _json({"detail": str(error), "error": error.error}, error.status, headers)


def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=_GONE)


def _no_such_thing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = f"{request.method} {request.scope['path']}: {error.detail}; see /openapi.json"
    return _json({"detail": words, "error": error.detail}, error.status_code, error.headers)


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(messages.dumps(content), status, headers, "application/json")
