"""Invites to join a swarm: signed by the run, with URLs, role and stake.

The first key that uses an invite owns it, so invites must be kept secret.
"""

import base64
import binascii
import os
import time
from typing import Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct, field

from train.errors import ConfigError
from train.swarm.signatures import (
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    BadSignature,
    append_signature,
    public_key_bytes,
    verify_and_unwrap,
)

_DOMAIN = "curate-invite-1"
_ID_BYTES = 16
_MAX_CHARACTERS = 16 * 2**10
Role = Literal["node", "verifier"]


class Invite(Struct, frozen=True):
    """The content of an invite.

    coordinator  URL
    relays       URLs of relays that have the weights
    public_key   the run's key, 32 bytes
    expires_at   seconds since 1970, for the first use
    id           16 random bytes
    stake        units that the inviter stakes for a node, once
    text         the encoded invite
    """

    run: str
    coordinator: str
    relays: tuple[str, ...]
    public_key: bytes = field(name="public")
    role: Role
    expires_at: float
    id: bytes
    stake: int = 0
    text: str = ""


def create_invite(
    key: Ed25519PrivateKey, *, run: str, coordinator: str, relays: tuple[str, ...], role: Role, seconds: float,
    stake: int = 0,
) -> Invite:  # fmt: skip
    """Create an invite that expires after `seconds` unless used. key: the run's."""
    expires_at, invite_id = time.time() + seconds, os.urandom(_ID_BYTES)
    invite = Invite(run, coordinator, relays, public_key_bytes(key), role, expires_at, invite_id, stake)
    signed = append_signature(_DOMAIN, msgspec.msgpack.encode(invite), key)
    return msgspec.structs.replace(invite, text=base64.urlsafe_b64encode(signed).decode("ascii"))


def read_invite(text: str, public_key: bytes | None = None) -> Invite:
    """Decode and verify an invite.

    public_key: key that must have signed it; None for the key in the invite, which detects damage but no forgery

    Raises ConfigError if it is not an invite, or damaged.
    """
    text = text.strip()
    try:
        if len(text) > _MAX_CHARACTERS:
            raise BadSignature("too long")
        signed = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        if public_key is None:
            public_key = _decode(signed[:-SIGNATURE_BYTES]).public_key
        invite = _decode(verify_and_unwrap(_DOMAIN, signed, public_key))
        if invite.public_key != public_key or len(public_key) != PUBLIC_KEY_BYTES or len(invite.id) != _ID_BYTES:
            raise BadSignature("its keys differ")
    except (BadSignature, ValueError, binascii.Error) as error:
        raise ConfigError(
            f"this is not an invite, or it is incomplete ({error}). Ask for one: curate swarm invite FOLDER"
        ) from None
    return msgspec.structs.replace(invite, text=text)


def _decode(data: bytes) -> Invite:
    try:
        return msgspec.msgpack.decode(data, type=Invite)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadSignature(str(error)) from None
