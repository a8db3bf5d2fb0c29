"""A coordinator as an ASGI application.

    POST /...            signed calls, see train/swarm/messages.py
    GET  /runs/...       versions of the weights, for relays
    GET  /page?token=T   status page for the operator
    GET  /health         open to everyone

The headers of a call suffice to check its signature, time, nonce and rate before its body is read. Nonces of unknown
keys are not stored.
"""

import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import anyio
import msgspec
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.service.service_errors import MalformedRequest, SandboxFailed, ServiceError, Unauthorized
from train.asynchronous.messages import Heartbeat, LeaseRequest, ReleaseRequest, ResultStatus, SubmitRequest
from train.errors import RunError
from train.swarm.broadcast.relay import RelayRateLimiter
from train.swarm.client import EARLIER_START
from train.swarm.coordinator.coordinator import Coordinator
from train.swarm.coordinator.intake import Forbidden, NotFound, RetryLater, UploadBudget, read_body
from train.swarm.coordinator.nonces import NonceCache, StaleIncarnation
from train.swarm.coordinator.status import SECURITY_HEADERS, render_status_page
from train.swarm.messages import Ban, JoinRequest, JoinResponse, VerificationResult
from train.swarm.requests import RequestHead, check_signature, read_head, sign_reply
from train.swarm.signatures import BadSignature

log = logging.getLogger(__name__)

_SMALL_BYTES = 64 * 2**10  # maximum size of all bodies except results and verdicts
_DISCARDED_BYTES = 64 * 2**20  # maximum size of a body that is read and discarded
_CALLS_PER_SECOND = 20.0  # mean rate limit of a node
_JOINS_PER_SECOND = 5.0  # mean rate limit of an address
_BURST_SECONDS = 10.0
_THREADS, _TRAINER_THREADS = 16, 8  # threads for calls, and for calls that may block on the trainer
_DECODING_THREADS = 2  # few, since decoding results needs some 20 times the memory of their body

_OPERATOR_PATHS = {"/ban", "/status"}
_LEASE_CALLS = {"file", "verdict"}  # calls whose path ends with the number of a lease
_LEASE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_JOIN = "/join"


@dataclass(frozen=True, slots=True)
class _Call:
    """A request with a verified signature. lease: -1 unless the path names one."""

    request: Request
    head: RequestHead
    signature: bytes
    name: str
    lease: int


class CoordinatorApp:
    """The coordinator as an ASGI application.

    key         private key of the run, which signs replies
    start       8 random bytes that identify this incarnation
    files       application for paths below /runs/
    page_token  token of the status page
    """

    def __init__(
        self, coordinator: Coordinator, key: Ed25519PrivateKey, *, start: bytes, files: ASGIApp, page_token: str,
        calls_per_second: float = _CALLS_PER_SECOND,
    ) -> None:  # fmt: skip
        self._coordinator, self._key, self._files, self._page_token = coordinator, key, files, page_token.encode()
        self._run = coordinator.settings.run
        self._nonces = NonceCache(start)
        self._rates = RelayRateLimiter(calls_per_second, 1e12, burst_seconds=_BURST_SECONDS)
        self._joins = RelayRateLimiter(_JOINS_PER_SECOND, 1e12, burst_seconds=_BURST_SECONDS)
        self._upload_budget = UploadBudget()
        self._uploading: set[bytes] = set()
        self._threads, self._trainer_threads = anyio.CapacityLimiter(_THREADS), anyio.CapacityLimiter(_TRAINER_THREADS)
        self._decoding_threads = anyio.CapacityLimiter(_DECODING_THREADS)
        # Message type and handler of each call.
        self._calls: Mapping[str, tuple[Any, Callable[[_Call, Any], Any]]] = {
            "work": (LeaseRequest, lambda call, message: coordinator.request_leases(call.head.node, message)),
            "beat": (Heartbeat, lambda call, message: coordinator.heartbeat(call.head.node, message)),
            "leave": (ReleaseRequest, lambda call, message: coordinator.release(call.head.node, message)),
            "step": (None, lambda call, _: coordinator.get_latest_version()),
            "job": (None, lambda call, _: coordinator.assign_job(call.head.node)),
            "file": (None, lambda call, _: coordinator.read_file(call.head.node, call.lease)),
            "ban": (Ban, lambda call, message: coordinator.ban(message)),
            "status": (None, lambda call, _: coordinator.get_status()),
        }
        self._other_calls: Mapping[str, Callable[[_Call], Awaitable[Any]]] = {
            "join": self._join, "answers": self._accept_results, "verdict": self._accept_verdict
        }  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"].startswith("/runs/"):
            await self._files(scope, receive, send)
            return
        request = Request(scope, receive)
        reply = await (self._handle_signed(request) if scope["method"] == "POST" else self._serve_page(request))
        await reply(scope, receive, send)

    # --- pages ---

    async def _serve_page(self, request: Request) -> Response:
        path = request.scope["path"]
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("this path accepts only POST\n", HTTPStatus.METHOD_NOT_ALLOWED)
        if path == "/health":
            return JSONResponse({"service": "curate", "status": "coordinator"})
        if path != "/page":
            return PlainTextResponse("not found\n", HTTPStatus.NOT_FOUND)
        if not hmac.compare_digest(request.query_params.get("token", "").encode(), self._page_token):
            return PlainTextResponse("curate swarm status FOLDER prints the address of this page\n", 403)
        status = await self._call(self._coordinator.get_status)
        return HTMLResponse(render_status_page(status), headers=SECURITY_HEADERS)

    # --- calls ---

    async def _handle_signed(self, request: Request) -> Response:
        """Handle a call. Sign the reply only if the signature of the call is valid."""
        try:
            call = self._verify(request)
        except ServiceError as refusal:
            return _respond_with_refusal(refusal)
        try:
            self._admit(call)
            content = await self._other_calls.get(call.name, self._run_handler)(call)
            body = content if isinstance(content, bytes) else _encode(content)
            status = HTTPStatus.OK if body else HTTPStatus.NO_CONTENT
            reply = Response(body, status, media_type="application/octet-stream")
        except StaleIncarnation as error:
            reply = JSONResponse({"detail": str(error), "start": self._nonces.start.hex()}, EARLIER_START)
        except ServiceError as refusal:
            reply = _respond_with_refusal(refusal)
        except RunError as error:
            reply = _respond_with_refusal(SandboxFailed(str(error), retry_after=5))
        reply.headers.update(sign_reply(call.signature, reply.status_code, bytes(reply.body), self._key))
        return reply

    def _verify(self, request: Request) -> _Call:
        """Verify the path and signature of a call. Raises ServiceError."""
        path = request.scope["path"]
        name, _, last = path.removeprefix("/").partition("/")
        is_call = name in self._calls or name in self._other_calls
        is_path = _LEASE.fullmatch(last) if name in _LEASE_CALLS else is_call and not last
        if request.scope["query_string"] or not is_path:
            raise NotFound(f"{path[:100]!r} is not a call of a coordinator")
        try:
            head, signature = read_head(path, request.headers)
            if head.run != self._run:
                raise BadSignature(f"this coordinator serves the run {self._run}, not {head.run[:100]!r}")
            if not self._coordinator.has_member(head.node):
                self._limit_joins(request, path)
            check_signature(head, signature)
        except (BadSignature, ValueError) as error:
            raise Unauthorized(str(error)) from None
        return _Call(request, head, signature, name, int(last or -1))

    def _limit_joins(self, request: Request, path: str) -> None:
        """Allow unknown keys only to join, at a bounded rate. Raises BadSignature and RetryLater."""
        if path != _JOIN:
            raise BadSignature("unknown key; join first")
        if wait := self._joins.try_charge(request.client.host if request.client else "", 0):
            raise RetryLater("too many joins from this address", max(1, round(wait)))

    def _admit(self, call: _Call) -> None:
        """Refuse replayed, stale and too frequent calls. Raises StaleIncarnation and ServiceError."""
        head, now = call.head, time.time()
        if (call.request.scope["path"] in _OPERATOR_PATHS) != self._coordinator.is_operator(head.node):
            raise Forbidden("the key of the run must sign the operator's calls, and only those")
        self._nonces.check(head, now)
        if wait := self._rates.try_charge(head.node.hex(), 0):
            raise RetryLater("this node exceeds its rate limit", max(1, round(wait)))
        if self._coordinator.has_member(head.node):
            self._nonces.record(head, now)

    async def _run_handler(self, call: _Call) -> Any:
        kind, handler = self._calls[call.name]
        body = await _read_signed_body(call, _SMALL_BYTES)
        message = None if kind is None else _decode(body, kind)
        _check_worker(call, message)
        threads = self._trainer_threads if call.name == "work" else self._threads
        return await anyio.to_thread.run_sync(lambda: handler(call, message), limiter=threads)

    async def _join(self, call: _Call) -> JoinResponse:
        node, was_member = call.head.node, self._coordinator.has_member(call.head.node)
        message = _decode(await _read_signed_body(call, _SMALL_BYTES), JoinRequest)
        response: JoinResponse = await self._call(lambda: self._coordinator.join(node, message))
        if not was_member:
            self._nonces.record(call.head, time.time())
        return response

    async def _accept_results(self, call: _Call) -> list[ResultStatus]:
        node, coordinator = call.head.node, self._coordinator
        if node in self._uploading:
            raise RetryLater("another upload of results by this node is in progress", 2)
        self._uploading.add(node)
        try:
            max_bytes = await self._call(lambda: coordinator.begin_upload(node))
            if max_bytes is None:
                await read_body(call.request, _DISCARDED_BYTES, keep=False)
                raise NotFound("this node has held no lease since the coordinator started; its results are stale")
            with self._upload_budget.reserve(max_bytes):
                body = await _read_signed_body(call, max_bytes)
                return await anyio.to_thread.run_sync(lambda: self._submit(call, body), limiter=self._decoding_threads)
        finally:
            self._uploading.discard(node)

    def _submit(self, call: _Call, body: bytes) -> list[ResultStatus]:
        try:
            message = _decode(body, SubmitRequest)
        except MalformedRequest:
            self._coordinator.reject_body(call.head.node)
            raise
        _check_worker(call, message)
        return self._coordinator.submit_results(call.head.node, message)

    async def _accept_verdict(self, call: _Call) -> None:
        node, coordinator = call.head.node, self._coordinator
        max_bytes = await self._call(lambda: coordinator.get_max_verdict_bytes(node, call.lease))
        if max_bytes is None:  # another verifier has the file, or its lease has ended
            await read_body(call.request, _DISCARDED_BYTES, keep=False)
            return
        with self._upload_budget.reserve(max_bytes):
            verified = _decode(await _read_signed_body(call, max_bytes), VerificationResult)
            await self._call(lambda: coordinator.submit_verdict(node, call.lease, verified))

    async def _call(self, call: Callable[[], Any]) -> Any:
        return await anyio.to_thread.run_sync(call, limiter=self._threads)


def _check_worker(call: _Call, message: Any) -> None:
    """Raise Forbidden if a message names a worker other than its signer."""
    if getattr(message, "worker", call.head.node.hex()) != call.head.node.hex():
        raise Forbidden("a worker's name must be its public key in hexadecimal")


async def _read_signed_body(call: _Call, max_bytes: int) -> bytes:
    """Read the body of a call as `read_body` does. Raises Unauthorized if its digest is not the signed one."""
    body = await read_body(call.request, max_bytes)
    if blake3(body).digest() != call.head.digest:
        raise Unauthorized("the body does not have the signed digest")
    return body


def _encode(content: Any) -> bytes:
    return b"" if content is None else msgspec.msgpack.encode(content)


def _decode(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedRequest(
            f"the body is not of type {kind.__name__}: {error}. Coordinator and node must have the same version of "
            "curate"
        ) from None


def _respond_with_refusal(refusal: ServiceError) -> Response:
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    return JSONResponse({"detail": str(refusal), "error": refusal.error}, refusal.status, headers)
