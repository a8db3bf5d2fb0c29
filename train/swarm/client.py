"""Client for signed calls to a coordinator. It rejects replies without the run's signature."""

import io
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandbox.http_client import HttpClient, ServerUnreachable
from train.errors import CallDeferred, ConfigError, ControllerUnreachable, RunError
from train.swarm.broadcast.request import replace_nonprintable
from train.swarm.folder import SwarmFolder
from train.swarm.invites import Invite
from train.swarm.messages import JoinRequest, JoinResponse
from train.swarm.requests import (
    INCARNATION_BYTES,
    SIGNATURE,
    UNKNOWN_INCARNATION,
    check_reply,
    create_head,
    sign_request,
)
from train.swarm.settings import SwarmSettings, check_engine_options, read_settings
from train.swarm.signatures import BadSignature, public_key_bytes, read_key

_CONNECT_SECONDS = 10.0
_RESPONSE_TIMEOUT_SECONDS = 60.0
_MIN_UPLOAD_RATE = 50_000  # bytes per second, as in coordinator/intake.py
_MAX_BYTES = 64 * 2**20  # maximum size of a reply to `call`
JOIN_FIRST, EARLIER_START = HTTPStatus.CONFLICT, HTTPStatus.MISDIRECTED_REQUEST
# Statuses of permanent refusals. After other statuses, a retry may succeed.
_FINAL = {
    HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY,
}  # fmt: skip

Reply = TypeVar("Reply")


class JoinRequired(CallDeferred):
    """A call by a node that the coordinator has dropped; the node must join again with its invite."""


class ResourceGone(RunError):
    """HTTP 404 from a coordinator, such as for the file of an ended lease."""


class SignedClient:
    """A thread-safe client for a coordinator, without retries.

    key  private key of the node, or of the run for the operator

    Raises ConfigError if the invite names no URL.
    """

    def __init__(
        self, invite: Invite, key: Ed25519PrivateKey, *, reply_seconds: float = _RESPONSE_TIMEOUT_SECONDS
    ) -> None:
        self.invite, self.node = invite, public_key_bytes(key)
        try:
            self._client = HttpClient(invite.coordinator, connections=4, connect_seconds=_CONNECT_SECONDS)
        except ValueError as error:
            raise ConfigError(f"the invite cannot be used: {error}. Ask for another one") from error
        self._key, self._url, self._reply_seconds = key, self._client.url, reply_seconds
        self._incarnation = UNKNOWN_INCARNATION

    def call(self, path: str, message: Any, kind: type[Reply]) -> Reply:
        """Send a message, None for an empty body, and return the reply; None if it is empty.

        Raises JoinRequired, CallDeferred and ControllerUnreachable if a retry may succeed, ResourceGone and RunError
        for a permanent refusal.
        """
        content = self._reply(path, b"" if message is None else msgspec.msgpack.encode(message), _MAX_BYTES)
        if not content:
            return None  # type: ignore[return-value]
        try:
            return msgspec.msgpack.decode(content, type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise RunError(
                f"cannot decode the reply of {self._url}{path}: {error}. Coordinator and node must have the same "
                "version of curate."
            ) from error

    def fetch(self, path: str, max_bytes: int) -> bytes:
        """Return a reply of at most `max_bytes` without decoding it. Raises the errors of `call`."""
        return self._reply(path, b"", max_bytes)

    @property
    def name(self) -> str:
        return self.node.hex()

    def close(self) -> None:
        self._client.close()

    def _reply(self, path: str, body: bytes, max_bytes: int) -> bytes:
        status, content = self._exchange_signed(path, body, max_bytes)
        if status == EARLIER_START:
            self._incarnation = _read_incarnation(content)
            status, content = self._exchange_signed(path, body, max_bytes)
        if status in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
            return content
        if status == JOIN_FIRST:
            raise JoinRequired(_read_refusal_message(content))
        if status == HTTPStatus.NOT_FOUND:
            raise ResourceGone(_read_refusal_message(content))
        if status in _FINAL:
            raise RunError(f"the coordinator at {self._url} refuses this node: {_read_refusal_message(content)}")
        error = CallDeferred if status == HTTPStatus.TOO_MANY_REQUESTS else ControllerUnreachable
        raise error(f"the coordinator at {self._url} returns HTTP {status}: {_read_refusal_message(content)}")

    def _exchange_signed(self, path: str, body: bytes, max_bytes: int) -> tuple[int, bytes]:
        """Return status and content of a reply signed by the run.

        Raises ControllerUnreachable if there is none.
        """
        headers = sign_request(create_head(path, self.invite.run, self.node, body, self._incarnation), self._key)
        signature = bytes.fromhex(headers[SIGNATURE])
        headers |= {"content-type": "application/octet-stream", "content-length": str(len(body))}
        try:
            reply = self._client.request(
                "POST",
                path,
                io.BytesIO(body),  # a stream, since on slow uplinks the timeout then applies to each piece
                read_seconds=self._reply_seconds,
                max_seconds=self._reply_seconds + len(body) / _MIN_UPLOAD_RATE,
                max_bytes=max_bytes,
                headers=headers,
                unpack=False,
            )
        except (ServerUnreachable, ValueError) as error:  # ValueError: the server does not speak HTTP
            raise ControllerUnreachable(f"the coordinator at {self._url} cannot be reached: {error}") from error
        try:
            check_reply(signature, reply.status, reply.body, reply.headers, self.invite.public_key)
        except BadSignature as error:
            # A proxy can send this, so the node retries instead of exiting.
            raise ControllerUnreachable(
                f"the coordinator at {self._url} returns HTTP {reply.status}, without its signature ({error}): "
                f"{_read_refusal_message(reply.body)}"
            ) from None
        return reply.status, reply.body


def _read_refusal_message(content: bytes) -> str:
    """Return the message of a refusal, with nonprintable characters replaced."""
    try:
        return replace_nonprintable(str(msgspec.json.decode(content)["detail"]), 1000)
    except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError, RecursionError):
        return repr(content[:200])


def _read_incarnation(content: bytes) -> bytes:
    try:
        start = bytes.fromhex(msgspec.json.decode(content)["start"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
        return UNKNOWN_INCARNATION
    return start if len(start) == INCARNATION_BYTES else UNKNOWN_INCARNATION


def join(client: SignedClient, *, engine: str, hardware: str = "") -> SwarmSettings:
    """Join or rejoin, and return the swarm's settings.

    engine    as in `JoinRequest`
    hardware  description for the operator

    Raises ControllerUnreachable if the coordinator is unreachable, and RunError if it refuses this node.
    """
    invite = client.invite
    joined = client.call("/join", JoinRequest(invite.text.encode("ascii"), engine, hardware), JoinResponse)
    try:
        settings = read_settings(joined.settings, invite.run, invite.public_key)
        check_engine_options(settings.engine)
        return settings
    except (BadSignature, ConfigError, msgspec.MsgspecError) as error:
        raise RunError(f"the settings of {invite.run} cannot be used: {error}") from error


UNREACHABLE_HINT = "If the coordinator has stopped, type the command that started it again."


def create_operator_client(folder: SwarmFolder) -> SignedClient:
    """Return a client for the coordinator of this folder. Raises ConfigError if it is not a coordinator's."""
    address, key = folder.read_address(), read_key(folder.key_path)
    return SignedClient(
        Invite(address.run, address.local_url, address.relays, public_key_bytes(key), "node", 0.0, b""),
        key,
        reply_seconds=30.0,
    )
