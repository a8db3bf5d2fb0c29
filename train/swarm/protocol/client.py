"""Call a coordinator: signed requests, and replies that are believed only if the run has signed them."""

import io
import time
from http import HTTPStatus
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec
import urllib3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from urllib3.exceptions import HTTPError

from train.errors import ControllerUnreachable, RunError
from train.swarm.protocol.invites import Invite
from train.swarm.protocol.replies import check_reply
from train.swarm.protocol.requests import INCARNATION_BYTES, SIGNATURE, UNKNOWN_INCARNATION, new_head, sign_request
from train.swarm.signatures import BadSignature, public_key_bytes

_CONNECT_SECONDS = 10.0
_RESPONSE_TIMEOUT_SECONDS = 60.0
_MAX_BYTES = 64 * 2**20  # of a reply that is a message
_CHUNK_BYTES = 2**18
JOIN_FIRST, EARLIER_START = HTTPStatus.CONFLICT, HTTPStatus.MISDIRECTED_REQUEST
# The run refuses the node, or what it sends, and would do so again. After all others the call may succeed later.
_FINAL = {
    HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY,
}  # fmt: skip

Reply = TypeVar("Reply")


class JoinRequired(ControllerUnreachable):
    """The coordinator does not count this node among those that live: it has to join again, with its invite."""


class ResourceGone(RunError):
    """What was asked for is not there, or is not this node's any more, such as the file of a lease that is over."""


class SignedClient:
    """Calls a coordinator, each call once. Several threads may use it.

    key   the node's own; or that of the run, for the operator
    pool  connections; by default its own
    """

    def __init__(
        self, invite: Invite, key: Ed25519PrivateKey, *, pool: urllib3.PoolManager | None = None,
        reply_seconds: float = _RESPONSE_TIMEOUT_SECONDS,
    ) -> None:  # fmt: skip
        self.invite, self.node = invite, public_key_bytes(key)
        self._key, self._url = key, invite.coordinator.rstrip("/")
        self._pool = pool or urllib3.PoolManager(maxsize=4, block=False)
        self._reply_seconds = reply_seconds
        self._start = UNKNOWN_INCARNATION

    @overload
    def call(self, path: str, message: Any, kind: type[Reply]) -> Reply: ...
    @overload
    def call(self, path: str, message: Any, kind: UnionType) -> Any: ...
    def call(self, path: str, message: Any, kind: Any) -> Any:
        """Send a message, and return the reply. `message` None is an empty body, and an empty reply is None.

        Raises JoinRequired, ControllerUnreachable (it may work later), ResourceGone and RunError (it is refused for
        good).
        """
        return self.send(path, b"" if message is None else msgspec.msgpack.encode(message), kind)

    @overload
    def send(self, path: str, body: bytes, kind: type[Reply]) -> Reply: ...
    @overload
    def send(self, path: str, body: bytes, kind: UnionType) -> Any: ...
    def send(self, path: str, body: bytes, kind: Any) -> Any:
        """Send bytes as they are, and return the reply. Raises what `call` raises."""
        content = self._reply(path, body, _MAX_BYTES)
        if not content:
            return None
        try:
            return msgspec.msgpack.decode(content, type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise RunError(
                f"cannot read what {self._url}{path} answers: {error}. Coordinator and node must have the same version "
                "of curate."
            ) from error

    def fetch(self, path: str, max_bytes: int) -> bytes:
        """Return a reply as it is, of at most so many bytes. Raises what `call` raises."""
        return self._reply(path, b"", max_bytes)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _reply(self, path: str, body: bytes, max_bytes: int) -> bytes:
        status, content = self._signed_exchange(path, body, max_bytes)
        if status == EARLIER_START:
            self._start = _start_in(content)
            status, content = self._signed_exchange(path, body, max_bytes)
        if status in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
            return content
        if status == JOIN_FIRST:
            raise JoinRequired(_words(content))
        if status == HTTPStatus.NOT_FOUND:
            raise ResourceGone(_words(content))
        if status in _FINAL:
            raise RunError(f"the coordinator at {self._url} refuses this node: {_words(content)}")
        raise ControllerUnreachable(f"the coordinator at {self._url} answers {status}: {_words(content)}")

    def _signed_exchange(self, path: str, body: bytes, max_bytes: int) -> tuple[int, bytes]:
        """Return status and content of a reply that the run has signed.

        Raises ControllerUnreachable if there is none.
        """
        headers = sign_request(new_head(path, self.invite.run, self.node, body, self._start), self._key)
        status, content, signature = self._exchange(path, body, headers, max_bytes)
        try:
            check_reply(
                bytes.fromhex(headers[SIGNATURE]), status, content, {SIGNATURE: signature}, self.invite.public_key
            )
        except BadSignature as error:
            # Whoever stands between the two can write this, so it must not end a node.
            raise ControllerUnreachable(
                f"the coordinator at {self._url} answers {status}, without its signature ({error}): {_words(content)}"
            ) from None
        return status, content

    def _exchange(self, path: str, body: bytes, headers: dict[str, str], max_bytes: int) -> tuple[int, bytes, str]:
        """Return status, content and signature of the reply. Raises ControllerUnreachable if there is none in time."""
        reply, is_whole = None, False
        try:
            reply = self._pool.request(
                "POST",
                self._url + path,
                body=io.BytesIO(body),  # in pieces, each of which may take as long as a connection: uplinks are slow
                headers={**headers, "content-type": "application/octet-stream", "content-length": str(len(body))},
                preload_content=False,
                decode_content=False,
                redirect=False,
                retries=False,
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=self._reply_seconds),
            )
            until, content = time.monotonic() + self._reply_seconds, bytearray()
            while chunk := reply.read1(_CHUNK_BYTES):
                content += chunk
                if len(content) > max_bytes:
                    raise ControllerUnreachable(f"{self._url}{path} answers with more than {max_bytes} bytes")
                if time.monotonic() > until:
                    raise ControllerUnreachable(f"{self._url}{path} answers too slowly")
            is_whole = True
            return reply.status, bytes(content), reply.headers.get(SIGNATURE, "")
        except (HTTPError, ValueError) as error:
            raise ControllerUnreachable(f"the coordinator at {self._url} cannot be reached: {error}") from error
        finally:
            if reply is not None:
                reply.release_conn() if is_whole else reply.close()


def _words(content: bytes) -> str:
    """Return what a refusal says, without letters that would do something to a terminal or a log."""
    try:
        words = str(msgspec.json.decode(content)["detail"])[:1000]
    except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError, RecursionError):
        return repr(content[:200])
    return "".join(letter if letter.isprintable() else "?" for letter in words)


def _start_in(content: bytes) -> bytes:
    try:
        start = bytes.fromhex(msgspec.json.decode(content)["start"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError):
        return UNKNOWN_INCARNATION
    return start if len(start) == INCARNATION_BYTES else UNKNOWN_INCARNATION
