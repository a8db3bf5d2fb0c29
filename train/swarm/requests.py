"""The head of a request, its signature, and the signature of the reply.

A request is a POST without a query string. Its headers have sender, run, time and a nonce; the signature covers these,
the path, and the digest of the body. So it cannot be replayed, redirected to another path or run, or sent with another
body.

A restarted coordinator has lost the nonces, so a request also has the coordinator's incarnation. A refusal of an
earlier incarnation contains the current one, with which the client signs again.

    x-curate-run        name of the run
    x-curate-node       public key of the sender, hexadecimal like all that follow
    x-curate-time       milliseconds since 1970, decimal
    x-curate-nonce      16 bytes
    x-curate-start      8 random bytes of the coordinator's incarnation; zeros while unknown
    x-curate-digest     32 bytes: blake3 of the body, so a request can be refused before its body is read
    x-curate-signature  64 bytes: Ed25519 of "curate-request-1", a zero byte, and msgpack of ["POST", path, node, time,
                        nonce, start, run, digest]

The signature of a reply covers the signature of its request, so no reply is valid for another request.

    x-curate-signature  64 bytes: Ed25519 of the run over "curate-reply-1", a zero byte, and msgpack of [signature of
                        the request, status, blake3 of the body]

Refusals of requests with invalid signatures are not signed.
"""

import os
import re
import time
from collections.abc import Mapping

import msgspec
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct, field

from train.swarm.signatures import SIGNATURE_BYTES, BadSignature, append_signature, public_key_bytes, verify_and_unwrap

RUN, NODE, TIME, NONCE, START, DIGEST, SIGNATURE = (
    f"x-curate-{name}" for name in ("run", "node", "time", "nonce", "start", "digest", "signature")
)
NONCE_BYTES, INCARNATION_BYTES = 16, 8
UNKNOWN_INCARNATION = bytes(INCARNATION_BYTES)
_DOMAIN = "curate-request-1"
_METHOD = "POST"
_PATTERNS = {
    NODE: re.compile(r"[0-9a-f]{64}"),
    TIME: re.compile(r"[0-9]{1,15}"),
    NONCE: re.compile(r"[0-9a-f]{32}"),
    START: re.compile(r"[0-9a-f]{16}"),
    DIGEST: re.compile(r"[0-9a-f]{64}"),
    SIGNATURE: re.compile(r"[0-9a-f]{128}"),
}


class RequestHead(Struct, frozen=True):
    """The signed fields of a request. time_ms: since 1970; digest: of the body."""

    path: str
    node: bytes
    time_ms: int
    nonce: bytes
    incarnation: bytes = field(name="start")
    run: str
    digest: bytes


def create_head(path: str, run: str, node: bytes, body: bytes, incarnation: bytes = UNKNOWN_INCARNATION) -> RequestHead:
    """Create the head of a request that is sent now."""
    now_ms = time.time_ns() // 1_000_000
    return RequestHead(path, node, now_ms, os.urandom(NONCE_BYTES), incarnation, run, blake3(body).digest())


def sign_request(head: RequestHead, key: Ed25519PrivateKey) -> dict[str, str]:
    """Return the headers of a signed request. Raises ValueError if the key is not the node's."""
    if head.node != public_key_bytes(key):
        raise ValueError("the key is not the node's")
    signature = append_signature(_DOMAIN, _encode_signed_fields(head), key)[-SIGNATURE_BYTES:]
    return {
        RUN: head.run,
        NODE: head.node.hex(),
        TIME: str(head.time_ms),
        NONCE: head.nonce.hex(),
        START: head.incarnation.hex(),
        DIGEST: head.digest.hex(),
        SIGNATURE: signature.hex(),
    }


def read_head(path: str, headers: Mapping[str, str]) -> tuple[RequestHead, bytes]:
    """Parse the head and signature of a request, without verification.

    Raises BadSignature if a header is missing or malformed.
    """
    texts = {name: headers.get(name, "") for name in _PATTERNS}
    for name, pattern in _PATTERNS.items():
        if pattern.fullmatch(texts[name]) is None:
            raise BadSignature(f"the header {name} is missing or malformed")
    node, nonce, start, digest, signature = (
        bytes.fromhex(texts[name]) for name in (NODE, NONCE, START, DIGEST, SIGNATURE)
    )
    return RequestHead(path, node, int(texts[TIME]), nonce, start, headers.get(RUN, ""), digest), signature


def check_signature(head: RequestHead, signature: bytes) -> None:
    """Raise BadSignature unless the node's signature of these request headers is valid."""
    verify_and_unwrap(_DOMAIN, _encode_signed_fields(head) + signature, head.node)


def _encode_signed_fields(head: RequestHead) -> bytes:
    parts = [_METHOD, head.path, head.node, head.time_ms, head.nonce, head.incarnation, head.run, head.digest]
    return msgspec.msgpack.encode(parts)


_REPLY_DOMAIN = "curate-reply-1"


def sign_reply(request: bytes, status: int, body: bytes, key: Ed25519PrivateKey) -> dict[str, str]:
    """Return the headers of the reply to the request with this signature."""
    return {
        SIGNATURE: append_signature(_REPLY_DOMAIN, _encode_signed_reply(request, status, body), key)[
            -SIGNATURE_BYTES:
        ].hex()
    }


def check_reply(request: bytes, status: int, body: bytes, headers: Mapping[str, str], public_key: bytes) -> None:
    """Raise BadSignature unless the run signed this reply to this request."""
    try:
        signature = bytes.fromhex(headers.get(SIGNATURE, ""))
    except ValueError:
        signature = b""
    if len(signature) != SIGNATURE_BYTES:
        raise BadSignature("the reply is not signed")
    verify_and_unwrap(_REPLY_DOMAIN, _encode_signed_reply(request, status, body) + signature, public_key)


def _encode_signed_reply(request: bytes, status: int, body: bytes) -> bytes:
    return msgspec.msgpack.encode([request, status, blake3(body).digest()])
