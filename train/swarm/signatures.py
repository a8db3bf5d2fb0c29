"""Ed25519 keys and signed bytes.

A key identifies a node or a verifier, so only one process at a time may use it. The signature covers a
domain-separation tag, a zero byte and the message, so a signature for one purpose is invalid for another.
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
    """Bytes without the expected signature."""


def create_key_file(path: Path) -> Ed25519PrivateKey:
    """Create a key in a file readable by this user only. Raises ConfigError if that fails, or the file exists."""
    key = Ed25519PrivateKey.generate()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists already, and an overwritten key is lost. Move it first.") from None
    except OSError as error:
        raise ConfigError(f"cannot create a key in {path}: {error.strerror}. Name another file.") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key.private_bytes_raw().hex() + "\n")
    return key


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read a key. Raises ConfigError if the file is missing or invalid."""
    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(path.read_text(encoding="ascii")))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a key: {error}") from error


def load_or_create_key(path: Path) -> Ed25519PrivateKey:
    """Read the key in this file, or create one. Raises ConfigError if that fails."""
    path = path.expanduser()
    if path.exists():
        return read_key(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return create_key_file(path)
    except OSError as error:
        raise ConfigError(f"cannot create a key in {path}: {error}. Name another file with --key") from error


def lock_key(path: Path) -> AbstractContextManager[object]:
    """Lock the key against other processes. Raises ConfigError if another process uses it."""
    path = path.expanduser()
    try:
        return FileLock(
            path,
            ConfigError(f"another process uses the key {path}. Give this one its own with --key, and its own invite."),
        )
    except OSError:  # a read-only key cannot be locked
        return nullcontext()


def public_key_bytes(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def parse_public_key(text: str) -> bytes:
    """Parse a public key in hexadecimal. Raises ConfigError if it is invalid."""
    try:
        public_key = bytes.fromhex(text)
    except ValueError:
        public_key = b""
    if len(public_key) != PUBLIC_KEY_BYTES:
        raise ConfigError(f"a public key has {2 * PUBLIC_KEY_BYTES} hexadecimal digits, unlike {text[:80]!r}")
    return public_key


def append_signature(domain: str, data: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the data followed by its signature."""
    return data + key.sign(_prefix_domain(domain, data))


def verify_and_unwrap(domain: str, signed: bytes, public_key: bytes) -> bytes:
    """Verify and strip the signature of `append_signature`. Raises BadSignature for another key or domain."""
    data, signature = signed[:-SIGNATURE_BYTES], signed[-SIGNATURE_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, _prefix_domain(domain, data))
    except (InvalidSignature, ValueError):
        raise BadSignature(f"there is no valid signature as {domain} by the key {public_key.hex()[:16]}") from None
    return data


def _prefix_domain(domain: str, data: bytes) -> bytes:
    return domain.encode("ascii") + b"\0" + data
