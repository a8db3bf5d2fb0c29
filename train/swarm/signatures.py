"""Keys, and bytes that are signed with them (Ed25519).

Coordinators know a node or a verifier again by its key. One process at a time uses one: a coordinator would take two
for one that was started again, over and over.

What is signed is a domain, a zero byte and the bytes. A signature that was made for one purpose is thus worth nothing
for another.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sandbox.concurrency.file_lock import FileLock
from train.errors import ConfigError

SIGNATURE_BYTES = 64
PUBLIC_KEY_BYTES = 32


class BadSignature(Exception):
    """Bytes that do not carry the signature that they should."""


def create_key_file(path: Path) -> Ed25519PrivateKey:
    """Create a key in a file that only this user can read. Raises ConfigError if that is not possible, or it exists."""
    key = Ed25519PrivateKey.generate()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists already, and a key that is lost cannot be had again. Move it away.") from None
    except OSError as error:
        raise ConfigError(f"cannot make a key in {path}: {error.strerror}. Name another file.") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key.private_bytes_raw().hex() + "\n")
    return key


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read a key. Raises ConfigError if there is none."""
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text(encoding="ascii")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a key: {error}") from error


def load_or_create_key(path: Path) -> Ed25519PrivateKey:
    """Read the key in this file, or make one. Raises ConfigError if it cannot be read or made."""
    path = path.expanduser()
    if path.exists():
        return read_key(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return create_key_file(path)
    except OSError as error:
        raise ConfigError(f"cannot make a key in {path}: {error}. Name another file with --key") from error


def lock_key(path: Path) -> AbstractContextManager[object]:
    """Keep other processes from the key until the block ends. Raises ConfigError if another process uses it."""
    path = path.expanduser()
    try:
        return FileLock(
            path,
            ConfigError(
                f"another process uses the key {path}. Name a file for this one with --key; it needs an invite, too."
            ),
        )
    except OSError:  # a key that may only be read cannot be locked
        return nullcontext()


def public_key_bytes(key: Ed25519PrivateKey) -> bytes:
    """Return the 32 bytes of the public key."""
    return key.public_key().public_bytes_raw()


def parse_public_key(text: str) -> bytes:
    """Return a public key that was written in hexadecimal. Raises ConfigError if it is none."""
    try:
        public = bytes.fromhex(text)
    except ValueError:
        public = b""
    if len(public) != PUBLIC_KEY_BYTES:
        raise ConfigError(f"a public key has {2 * PUBLIC_KEY_BYTES} hexadecimal digits, unlike {text[:80]!r}")
    return public


def append_signature(domain: str, data: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the data followed by its signature."""
    return data + key.sign(_signed(domain, data))


def verify_and_unwrap(domain: str, signed: bytes, public: bytes) -> bytes:
    """Return the data of `sign`. Raises BadSignature if the signature is not that of this key for this domain."""
    data, signature = signed[:-SIGNATURE_BYTES], signed[-SIGNATURE_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _signed(domain, data))
    except (InvalidSignature, ValueError):
        raise BadSignature(f"this is not signed as {domain} by the key {public.hex()[:16]}") from None
    return data


def _signed(domain: str, data: bytes) -> bytes:
    return domain.encode("ascii") + b"\0" + data
