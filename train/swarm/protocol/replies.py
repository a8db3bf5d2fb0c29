"""The signature of a reply. It names the request by its signature, so a reply fits no other.

    x-curate-signature  64 bytes: Ed25519 of the run over "curate-reply-1", a zero byte, and msgpack of
                        [signature of the request, status, blake3 of the body]

A refusal of a request whose own signature is wrong is not signed, since anybody can ask for it.
"""

from collections.abc import Mapping

import msgspec
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from train.swarm.protocol.requests import SIGNATURE
from train.swarm.signatures import SIGNATURE_BYTES, BadSignature, append_signature, verify_and_unwrap

_DOMAIN = "curate-reply-1"


def sign_reply(request: bytes, status: int, body: bytes, key: Ed25519PrivateKey) -> dict[str, str]:
    """Return the headers of the reply to the request that has this signature."""
    return {SIGNATURE: append_signature(_DOMAIN, _covered(request, status, body), key)[-SIGNATURE_BYTES:].hex()}


def check_reply(request: bytes, status: int, body: bytes, headers: Mapping[str, str], public: bytes) -> None:
    """Raise BadSignature unless the run has signed this reply to this request."""
    try:
        signature = bytes.fromhex(headers.get(SIGNATURE, ""))
    except ValueError:
        signature = b""
    if len(signature) != SIGNATURE_BYTES:
        raise BadSignature("the reply is not signed")
    verify_and_unwrap(_DOMAIN, _covered(request, status, body) + signature, public)


def _covered(request: bytes, status: int, body: bytes) -> bytes:
    return msgspec.msgpack.encode([request, status, blake3(body).digest()])
