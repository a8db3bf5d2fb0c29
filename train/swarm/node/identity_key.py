"""The key of a node or a verifier, by which coordinators know it again. It is made when it is needed first.

One process at a time uses a key: a coordinator would take two for one that was started again, over and over.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from train.errors import ConfigError
from train.swarm.signatures import create_key_file, read_key

DEFAULT_KEY_PATH = "~/.config/curate/node.key"


def load_or_create_key(path: Path) -> Ed25519PrivateKey:
    """Read the key in this file, or make one, and keep it from other processes until this one ends.

    Raises ConfigError if it cannot be read or made, or another process uses it.
    """
    path = path.expanduser()
    key = read_key(path) if path.exists() else _made(path)
    _hold(path)
    return key


def _made(path: Path) -> Ed25519PrivateKey:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return create_key_file(path)
    except OSError as error:
        raise ConfigError(f"cannot make a key in {path}: {error}. Name another file with --key") from error


def _hold(path: Path) -> None:
    with suppress(OSError):  # a key that may only be read cannot be locked
        # It stays open: the kernel ends the lock with this process, and children do not inherit it.
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(lock)
            raise ConfigError(
                f"another process uses the key {path}. Name a file for this one with --key; it needs an invite, too."
            ) from None
